"""Latency of calls: whole calls, from an idle device until it is idle again.

On a GPU events bracket the call and a wait for every stream of the device, so neither a launch
that has only been queued nor work on a side stream is left out; before each sample a buffer larger
than L2 is written. On a CPU the clock is `perf_counter`, and torch.cuda is never called.
Warm-up calls, and whatever they set up, are in no sample.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from ragged_attention.bench.measure import flush_buffer, interleaved, no_garbage_collection
from torch import Tensor

MIN_SAMPLES = 20  # of a candidate
BASELINE_SAMPLES = 5
WARM_UP_CALLS = 3
WARM_UP_SECONDS = {"cuda": 0.3, "cpu": 0.0}  # long enough for a card's clock to settle


@dataclass(frozen=True)
class Job:
    """One function to time."""

    call: Callable[[], Any]
    samples: int


@dataclass(frozen=True)
class Timing:
    """What timing one job gave."""

    samples_ms: tuple[float, ...]
    warm_up_calls: int  # calls before the first sample
    last_result: Any  # what the last timed call returned

    @property
    def median_ms(self) -> float:
        """Median of the samples."""
        return statistics.median(self.samples_ms)

    def to_json(self) -> dict[str, Any]:
        """The figures, without the result."""
        return {
            "median_ms": self.median_ms,
            "min_ms": min(self.samples_ms),
            "max_ms": max(self.samples_ms),
            "samples": len(self.samples_ms),
            "warm_up_calls": self.warm_up_calls,
        }


def bench(call: Callable[[], Any], device: torch.device, samples: int = MIN_SAMPLES) -> float:
    """Median latency of one call in ms, over at least one sample."""
    return time_jobs([Job(call, samples)], device)[0].median_ms


def time_jobs(
    jobs: Sequence[Job], device: torch.device, on_sample: Callable[[], None] = lambda: None
) -> list[Timing]:
    """Times all jobs in one interleaved run; `on_sample` is called after each sample.

    Raises ValueError for a job without samples; what a job raises comes through.
    """
    for job in jobs:
        if job.samples < 1:
            raise ValueError(f"samples: {job.samples}; at least 1 is needed")
    measure = _cuda_meter(device) if device.type == "cuda" else _cpu_sample
    warmed = [_warm_up(job.call, measure, WARM_UP_SECONDS[device.type]) for job in jobs]
    samples: list[list[float]] = [[] for _ in jobs]
    results: list[Any] = [None for _ in jobs]
    with no_garbage_collection():
        for index in interleaved([job.samples for job in jobs]):
            results[index] = None  # gives its memory back before the next call needs some
            elapsed, results[index] = measure(jobs[index].call)
            samples[index].append(elapsed)
            on_sample()
    return [
        Timing(tuple(times), calls, result)
        for times, calls, result in zip(samples, warmed, results, strict=True)
    ]


def _warm_up(call: Callable[[], Any], measure: Callable, seconds: float) -> int:
    """Runs the call until it has had both its calls and its seconds; returns how many calls."""
    calls, start = 0, time.perf_counter()
    while calls < WARM_UP_CALLS or time.perf_counter() - start < seconds:
        measure(call)
        calls += 1
    return calls


def _cpu_sample(call: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = call()
    return 1e3 * (time.perf_counter() - start), result


def _cuda_meter(device: torch.device) -> Callable[[Callable[[], Any]], tuple[float, Any]]:
    """A function that takes one sample on this device: (ms, result)."""
    flush = flush_buffer(device)

    def sample(call: Callable[[], Any]) -> tuple[float, Any]:
        return _cuda_sample(call, device, flush)

    return sample


def _cuda_sample(call: Callable[[], Any], device: torch.device, flush: Tensor) -> tuple[float, Any]:
    with torch.cuda.device(device):
        start = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        flush.zero_()
        torch.cuda.synchronize()
        start.record()
        result = call()
        torch.cuda.synchronize()  # every stream: work left on a side stream counts too
        end.record()
        end.synchronize()
    return start.elapsed_time(end), result
