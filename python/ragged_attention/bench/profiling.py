"""What a call does on a GPU: its kernels and how long each takes, and the memory it needs."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

OUR_KERNELS = ("row_kernel", "key_kernel")  # as a part of their names

_CALLS = 3


class Kernel(NamedTuple):
    """One kernel, or kind of copy or fill, of a call."""

    name: str
    launches: float  # a call
    microseconds: float  # a call


def kernels_of(call: Callable[[], Any], device: torch.device) -> list[Kernel]:
    """All that the call runs on the GPU, as the profiler sees it; empty where it sees nothing."""
    call()
    torch.cuda.synchronize(device)
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as recorded:
        for _ in range(_CALLS):
            call()
        torch.cuda.synchronize(device)
    return [
        Kernel(event.key, event.count / _CALLS, event.self_device_time_total / _CALLS)
        for event in recorded.key_averages()
        if event.device_type == DeviceType.CUDA
    ]


def shares(kernels: list[Kernel]) -> dict[str, float] | None:
    """Part of the GPU time that each of our kernels has, and the rest as `other`.

    None where there is no time to share.
    """
    total = sum(kernel.microseconds for kernel in kernels)
    if total <= 0:
        return None
    ours = {
        name: sum(k.microseconds for k in kernels if name in k.name) / total for name in OUR_KERNELS
    }
    return {**ours, "other": max(0.0, 1 - sum(ours.values()))}


def launches(kernels: list[Kernel]) -> dict[str, float]:
    """Launches a call: of kernels, and of copies and fills."""
    moves = sum(k.launches for k in kernels if k.name.startswith(("Memcpy", "Memset")))
    return {"kernels": sum(k.launches for k in kernels) - moves, "copies_and_fills": moves}


def extra_memory(call: Callable[[], tuple[torch.Tensor, ...]], device: torch.device) -> int:
    """Bytes that the call needs at its peak, beyond its inputs and its results."""
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    results = call()
    torch.cuda.synchronize(device)
    peak = torch.cuda.max_memory_allocated(device) - before
    return max(0, peak - sum(x.numel() * x.element_size() for x in results))
