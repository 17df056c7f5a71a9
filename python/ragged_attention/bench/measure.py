"""Times functions side by side: medians of interleaved samples, each with a cold L2.

On a GPU a sample is the time between two events on the current stream. L2 is flushed first, and
the call is queued while the flush still runs: a function whose host work fits into that time shows
its GPU time alone, a slower one shows the host's. On a CPU the clock is `perf_counter`.
"""

import gc
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

WARM_UP_CALLS = 3
WARM_UP_SECONDS = 0.1  # of each function, on a GPU: its clocks settle

_FLUSH_BYTES = 256 << 20  # at least; twice L2 where torch knows it and that is more
_FLUSHES = 4  # enough time to queue a few launches

Call = Callable[[], Any]


@dataclass(frozen=True)
class Timing:
    """The samples of one function, in ms."""

    samples: tuple[float, ...]

    @property
    def median(self) -> float:
        """Median of the samples."""
        return statistics.median(self.samples)


def time_calls(
    calls: Mapping[str, Call], samples: Mapping[str, int], device: torch.device
) -> dict[str, Timing]:
    """Times every call `samples[name]` times, all of them in one interleaved run.

    What a call raises comes through.
    """
    names = list(calls)
    sample = _cuda_sampler(device) if device.type == "cuda" else _cpu_sample
    for call in calls.values():
        _warm_up(call, device)
    times: dict[str, list[float]] = {name: [] for name in names}
    with no_garbage_collection():
        for index in interleaved([samples[name] for name in names]):
            times[names[index]].append(sample(calls[names[index]]))
    return {name: Timing(tuple(values)) for name, values in times.items()}


def interleaved(counts: Sequence[int]) -> Iterator[int]:
    """Indices, `counts[i]` times each i, every one spread evenly over the whole run."""
    places = [((k + 0.5) / n, i) for i, n in enumerate(counts) for k in range(n)]
    return (index for _, index in sorted(places))


def flush_buffer(device: torch.device) -> Tensor:
    """Bytes that fill the L2 of a GPU more than once when they are written."""
    l2_bytes = getattr(torch.cuda.get_device_properties(device), "L2_cache_size", 0)
    return torch.empty(max(_FLUSH_BYTES, 2 * l2_bytes), dtype=torch.uint8, device=device)


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Collects garbage once, and then not again before the end of the block."""
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def microseconds_back_to_back(
    call: Call, calls: int, device: torch.device, rounds: int = 5
) -> list[float]:
    """Microseconds a call takes, host work and all, where many follow one another: each round's."""
    _warm_up(call, device)
    found = []
    with no_garbage_collection():
        for _ in range(rounds):
            _wait(device)
            start = time.perf_counter()
            for _ in range(calls):
                call()
            _wait(device)
            found.append(1e6 * (time.perf_counter() - start) / calls)
    return found


def _warm_up(call: Call, device: torch.device) -> None:
    seconds = WARM_UP_SECONDS if device.type == "cuda" else 0.0
    start, done = time.perf_counter(), 0
    while done < WARM_UP_CALLS or time.perf_counter() - start < seconds:
        call()
        _wait(device)
        done += 1


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _cpu_sample(call: Call) -> float:
    start = time.perf_counter()
    call()
    return 1e3 * (time.perf_counter() - start)


def _cuda_sampler(device: torch.device) -> Callable[[Call], float]:
    flush = flush_buffer(device)

    def sample(call: Call) -> float:
        start = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize(device)
        for _ in range(_FLUSHES):
            flush.zero_()
        start.record()
        call()
        end.record()
        torch.cuda.synchronize(device)
        return start.elapsed_time(end)

    return sample
