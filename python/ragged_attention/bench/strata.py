"""Runs all methods on one case: check, then time side by side."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from ragged_attention.bench import checking, measure, profiling
from ragged_attention.bench.case import CaseSpec
from ragged_attention.bench.floor import Ceilings, Work
from ragged_attention.bench.gemms import sm86_gemms, sm86_tiles
from ragged_attention.bench.inputs import Problem, make_problem
from ragged_attention.bench.measure import Timing
from ragged_attention.bench.methods.method import Call, Method

Advance = Callable[[str], None]
Entry = dict[str, Any]  # a method's part of the JSON

_EMPTY: Entry = {
    **dict.fromkeys(("ms", "ms_min", "ms_max", "samples", "tflops", "of_floor")),
    **dict.fromkeys(("ok", "errors", "budgets", "extra_memory_of_q", "kernels", "version")),
}


@dataclass(frozen=True)
class Options:
    """How to run."""

    asked_for: bool = False  # the methods were named: run also those that default runs leave out
    quick: bool = False  # a few samples only
    time_wrong: bool = False  # time also what the check refuses


def run_stratum(
    spec: CaseSpec,
    methods: list[Method],
    device: torch.device,
    ceilings: Ceilings,
    options: Options,
    advance: Advance = lambda step: None,
) -> dict[str, Any]:
    """One entry of the JSON's `strata`; `advance` is told of each step that begins."""
    work = Work.of(spec)
    problem = make_problem(spec, device)
    entries, calls = _check_all(problem, methods, device, options, advance)
    advance(f"{spec.name}: timing")
    counts = {m.name: 3 if options.quick else m.samples for m in methods}
    times = measure.time_calls(calls, counts, device)
    for name, timing in times.items():
        entries[name] |= _figures(timing, work, ceilings)
        entries[name]["status"] = "timed" if entries[name]["ok"] else "wrong, timed"
    if device.type == "cuda":
        for method in methods:
            if method.is_ours and method.name in calls:
                kernels = profiling.kernels_of(calls[method.name], device)
                entries[method.name]["kernels"] = profiling.shares(kernels)
    return {
        "name": spec.name,
        "dtype": spec.dtype,
        "heads": spec.heads,
        "batch": spec.batch,
        "total_q": spec.total_q,
        "total_k": spec.total_k,
        "logits": spec.logits,
        "flop": work.flop,
        "bytes": work.bytes,
        "floor_ms": work.floor_ms(ceilings),
        "bound": "arithmetic"
        if work.compute_ms(ceilings) >= work.memory_ms(ceilings)
        else "memory",
        "sm86_gemms": sm86_gemms(spec, sm86_tiles()),
        "methods": entries,
    }


def _check_all(
    problem: Problem,
    methods: list[Method],
    device: torch.device,
    options: Options,
    advance: Advance,
) -> tuple[dict[str, Entry], dict[str, Call]]:
    """Entries without figures, and the calls that may be timed."""
    name = problem.spec.name
    advance(f"{name}: truth")
    truth = checking.truth_of(problem)
    entries: dict[str, Entry] = {}
    calls: dict[str, Call] = {}
    for method in methods:
        advance(f"{name}: {method.name}")
        entry = entries[method.name] = dict(_EMPTY)
        if not method.by_default and not options.asked_for:
            entry |= {"status": "not run", "reason": "runs only where it is asked for"}
            continue
        if reason := method.missing(device):
            entry |= {"status": "absent", "reason": reason}
            continue
        try:
            call = method.prepare(problem)
            verdicts = checking.check(call(), problem, truth)
            if device.type == "cuda":
                entry["extra_memory_of_q"] = _memory_of_q(call, problem, device)
        except Exception as error:
            entry |= {"status": "failed", "reason": f"{type(error).__name__}: {error}"}
            continue
        wrong = [f"{v.name}: {v.reason}" for v in verdicts if not v.passed]
        entry |= {
            "ok": not wrong,
            "errors": {v.name: _finite(v.error.frobenius) for v in verdicts},
            "budgets": {v.name: _finite(v.budget.frobenius) for v in verdicts},
            "version": method.version(),
            "status": "wrong" if wrong else "checked",
            "reason": "; ".join(wrong),
        }
        if not wrong or options.time_wrong:
            calls[method.name] = call
    return entries, calls


def _figures(timing: Timing, work: Work, ceilings: Ceilings) -> Entry:
    ms = timing.median
    return {
        "ms": ms,
        "ms_min": min(timing.samples),
        "ms_max": max(timing.samples),
        "samples": len(timing.samples),
        "tflops": work.tflops(ms),
        "of_floor": work.floor_ms(ceilings) / ms,
    }


def _memory_of_q(call: Call, problem: Problem, device: torch.device) -> float:
    q = problem.q
    return profiling.extra_memory(call, device) / (q.numel() * q.element_size())


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
