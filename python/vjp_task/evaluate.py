"""Runs one case: checks a solver's outputs, times it against the baseline, checks again."""

import math
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from ragged_attention.bench.case import CaseSpec
from ragged_attention.tolerance import Verdict

from vjp_task import checking, timing
from vjp_task.checking import CheckError, Truth
from vjp_task.inputs import Inputs, materialise
from vjp_task.solver import Operator
from vjp_task.timing import Job

# Calls of `advance` in one case that passes: two before the samples, one per sample, one after.
STEPS = 2 + timing.BASELINE_SAMPLES + timing.MIN_SAMPLES + 1


@dataclass(frozen=True)
class Failure:
    """Why a case failed."""

    what: str  # the output, input or step at fault
    reason: str
    trace: str = ""  # the solver's own traceback, where it raised


@dataclass(frozen=True)
class CaseResult:
    """What one case gave."""

    spec: CaseSpec
    verdicts: list[Verdict] = field(default_factory=list)  # out, dq, dk, dv; empty if not reached
    baseline: dict[str, Any] | None = None  # timing figures; None if not reached
    candidate: dict[str, Any] | None = None
    first_call_ms: float | None = None  # the candidate's, with all set-up; in no sample
    failure: Failure | None = None

    @property
    def passed(self) -> bool:
        """All four outputs right, before and after timing, and no input changed."""
        return self.failure is None

    @property
    def speedup(self) -> float | None:
        """Baseline's median over the candidate's; None for a case that failed."""
        if self.failure or not self.baseline or not self.candidate:
            return None
        return self.baseline["median_ms"] / self.candidate["median_ms"]

    def to_json(self) -> dict[str, Any]:
        """The result as plain data; figures that are not finite or not reached are None."""
        spec = self.spec

        def figures(side: str, measure: str) -> dict[str, float | None]:
            pairs = {v.name: getattr(getattr(v, side), measure) for v in self.verdicts}
            return {name: x if math.isfinite(x) else None for name, x in pairs.items()}

        return {
            "name": spec.name,
            "dtype": spec.dtype,
            "heads": spec.heads,
            "batch": spec.batch,
            "total_q": spec.total_q,
            "total_k": spec.total_k,
            "logits": spec.logits,
            "seed": spec.seed,
            "passed": self.passed,
            "failure": self.failure and {"what": self.failure.what, "reason": self.failure.reason},
            "baseline_ms": self.baseline and self.baseline["median_ms"],
            "candidate_ms": self.candidate and self.candidate["median_ms"],
            "speedup": self.speedup,
            "first_call_ms": self.first_call_ms,
            "errors": figures("error", "frobenius"),
            "budgets": figures("budget", "frobenius"),
            "max_errors": figures("error", "max_abs"),
            "max_budgets": figures("budget", "max_abs"),
            "timing": {"baseline": self.baseline, "candidate": self.candidate},
        }


def evaluate_case(
    spec: CaseSpec,
    candidate: Operator,
    baseline: Operator,
    device: torch.device,
    advance: Callable[[str], None] = lambda step: None,
) -> CaseResult:
    """Checks and times the candidate on one case; a fault of the candidate becomes a failure.

    `advance` is told of each step that begins. A case that fails its first check is not timed.
    """
    advance("truth")
    inputs = materialise(spec, device)
    before = inputs.digests()
    truth = checking.truth_of(inputs)

    advance("check")
    checking.poison_free_memory(inputs)
    start = time.perf_counter()
    result, failure = _attempt("call", lambda: checking.call(candidate, inputs))
    first_call_ms = 1e3 * (time.perf_counter() - start)
    if failure:
        return CaseResult(spec, failure=failure)
    verdicts, failure = _judge(result, inputs, before, truth)
    if failure:
        return CaseResult(spec, verdicts, failure=failure)
    del result

    jobs = [
        Job(lambda: baseline(*inputs.arguments()), timing.BASELINE_SAMPLES),
        Job(lambda: candidate(*inputs.arguments()), timing.MIN_SAMPLES),
    ]
    timings, failure = _attempt(
        "timed call", lambda: timing.time_jobs(jobs, device, lambda: advance("timing"))
    )
    if failure:
        return CaseResult(spec, verdicts, failure=failure)

    advance("check again")
    base, ours = timings
    verdicts, failure = _judge(ours.last_result, inputs, before, truth)
    return CaseResult(spec, verdicts, base.to_json(), ours.to_json(), first_call_ms, failure)


def geometric_mean(results: list[CaseResult]) -> float:
    """Geometric mean of the speedups; 0 where a case failed or there is none."""
    speedups = [result.speedup for result in results]
    if not speedups or None in speedups:
        return 0.0
    return math.exp(sum(map(math.log, speedups)) / len(speedups))


def _attempt(what: str, run: Callable[[], Any]) -> tuple[Any, Failure | None]:
    """What `run` returns, or the failure that its exception makes."""
    try:
        return run(), None
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        return None, Failure(what, reason, traceback.format_exc())


def _judge(
    result: Any, inputs: Inputs, before: dict[str, str], truth: Truth
) -> tuple[list[Verdict], Failure | None]:
    """The verdicts on a result, and the first thing that is wrong."""
    try:
        checking.check_unchanged(before, inputs)
        verdicts = checking.check_outputs(result, inputs, truth)
    except CheckError as error:
        return [], Failure(error.what, error.reason)
    wrong = next((verdict for verdict in verdicts if not verdict.passed), None)
    return verdicts, Failure(wrong.name, wrong.reason) if wrong else None
