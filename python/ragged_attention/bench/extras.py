"""Figures beyond the strata: host work, launches, many short sequences, scaling with size."""

import functools
import math
import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from ragged_attention import attention_varlen_feature_full_vjp
from ragged_attention.bench import measure, profiling
from ragged_attention.bench.case import CaseSpec, dense_case
from ragged_attention.bench.floor import Ceilings, Work
from ragged_attention.bench.inputs import make_problem
from ragged_attention.bench.methods.method import Call, Method
from ragged_attention.bench.methods.ours import tile_row

BACK_TO_BACK = 1000  # calls
SMALL = dense_case("one_sequence", (64,), (64,))

# As many logits in many short sequences and in a few long ones. With 8 keys a row has little
# arithmetic for its bytes, whatever the kernels; the second has the same bytes, the third has not.
SHORT = dense_case("20000_of_8x8", (8,) * 20_000, (8,) * 20_000)
LONG_ROWS = dense_case("20_of_8000x8", (8_000,) * 20, (8,) * 20)
LONG_SQUARES = dense_case("20_of_253x253", (253,) * 20, (253,) * 20)

SCALING_BATCH = 16  # sequences, as many queries as keys
SCALING_LOGITS = tuple(1 << n for n in range(20, 33))  # about 1 M to 4 G

_SAMPLES = 10


def run_extras(
    methods: list[Method],
    device: torch.device,
    ceilings: Ceilings,
    advance: Callable[[str], None] = lambda step: None,
) -> dict[str, dict[str, Any]]:
    """The figures of every method that is ours and can run here, by its name.

    To be asked for before anything is profiled: after that every launch takes longer on the host.
    """
    ours = [method for method in methods if method.is_ours and not method.missing(device)]
    found = {
        method.name: {
            **_back_to_back(method, device, advance),
            "short_sequences": _short_sequences(method, device, ceilings, advance),
            "scaling": _scaling(method, device, ceilings, advance),
        }
        for method in ours
    }
    for method in ours:
        with _small_call(method, device) as call:
            launches = profiling.launches(profiling.kernels_of(call, device))
        found[method.name]["launches"] = launches
    return found


def scaling_case(logits: int) -> CaseSpec:
    """The case of the scaling chart with about so many logits."""
    heads = SMALL.heads
    length = max(1, round(math.sqrt(logits / heads / SCALING_BATCH)))
    lengths = (length,) * SCALING_BATCH
    return dense_case(f"{SCALING_BATCH}_of_{length}x{length}", lengths, lengths, heads)


def spread(points: list[dict[str, Any]], above: int = 50_000_000) -> float:
    """Largest over smallest time per logit among the points with more logits than `above`."""
    values = [point["ps_per_logit"] for point in points if point["logits"] > above]
    return max(values) / min(values)


@contextmanager
def _small_call(method: Method, device: torch.device) -> Iterator[Call]:
    arguments = make_problem(SMALL, device).arguments()
    with tile_row(method.tiles):  # around all calls: it takes its time too
        yield functools.partial(attention_varlen_feature_full_vjp, *arguments)


def _back_to_back(
    method: Method, device: torch.device, advance: Callable[[str], None]
) -> dict[str, Any]:
    advance(f"{method.name}: {BACK_TO_BACK} calls back to back")
    with _small_call(method, device) as call:
        rounds = measure.microseconds_back_to_back(call, BACK_TO_BACK, device)
    return {"call_us": statistics.median(rounds), "call_us_rounds": rounds}


def _short_sequences(
    method: Method, device: torch.device, ceilings: Ceilings, advance: Callable[[str], None]
) -> dict[str, Any]:
    points = {}
    for spec in (SHORT, LONG_ROWS, LONG_SQUARES):
        advance(f"{method.name}: {spec.name}")
        points[spec.name] = _time(method, spec, device, ceilings)
    short = points[SHORT.name]["ps_per_logit"]
    ratios = {
        name: short / point["ps_per_logit"] for name, point in points.items() if name != SHORT.name
    }
    return {"points": points, "times_slower_than": ratios}


def _scaling(
    method: Method, device: torch.device, ceilings: Ceilings, advance: Callable[[str], None]
) -> dict[str, Any]:
    points = []
    for logits in SCALING_LOGITS:
        spec = scaling_case(logits)
        advance(f"{method.name}: {spec.name}")
        points.append(_time(method, spec, device, ceilings))
    return {"points": points, "spread_above_50M": spread(points)}


def _time(
    method: Method, spec: CaseSpec, device: torch.device, ceilings: Ceilings
) -> dict[str, Any]:
    call: Call = method.prepare(make_problem(spec, device))
    timing = measure.time_calls({"": call}, {"": _SAMPLES}, device)[""]
    work = Work.of(spec)
    return {
        "name": spec.name,
        "logits": spec.logits,
        "ms": timing.median,
        "floor_ms": work.floor_ms(ceilings),
        "ps_per_logit": 1e9 * timing.median / spec.logits,
    }
