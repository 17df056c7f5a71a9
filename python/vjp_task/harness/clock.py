"""One sample of a call's latency, with functions bound before any code of a solver runs."""

import time
from collections.abc import Callable
from typing import Any

import torch

_FLUSH_BYTES = 256 << 20  # at least; twice L2 where torch knows it and that is more

Sample = tuple[float, float, Any]  # ms by the device's clock, ms by the host's, the result


def make_clock(device: torch.device) -> Callable[[Callable[[], Any]], Sample]:
    """A function that times one call, from an idle device until every stream is idle again.

    The garbage collector is off while it runs: that is the caller's part.
    """
    return _cuda_clock(device) if device.type == "cuda" else _cpu_clock()


def _cpu_clock() -> Callable[[Callable[[], Any]], Sample]:
    now = time.perf_counter

    def sample(call: Callable[[], Any]) -> Sample:
        start = now()
        result = call()
        elapsed = 1e3 * (now() - start)
        return elapsed, elapsed, result

    return sample


def _cuda_clock(device: torch.device) -> Callable[[Callable[[], Any]], Sample]:
    now = time.perf_counter
    event, synchronize, stream_of = (
        torch.cuda.Event,
        torch.cuda.synchronize,
        torch.cuda.current_stream,
    )
    record, elapsed_time, wait = event.record, event.elapsed_time, event.synchronize
    stream = stream_of(device)
    l2_bytes = getattr(torch.cuda.get_device_properties(device), "L2_cache_size", 0)
    flush = torch.empty(max(_FLUSH_BYTES, 2 * l2_bytes), dtype=torch.uint8, device=device)

    def sample(call: Callable[[], Any]) -> Sample:
        start, end = event(enable_timing=True), event(enable_timing=True)
        flush.zero_()
        synchronize(device)
        begun = now()
        record(start, stream)
        result = call()
        synchronize(device)  # every stream: work left on a side stream counts too
        record(end, stream)
        wait(end)
        host = 1e3 * (now() - begun)
        return elapsed_time(start, end), host, result

    return sample
