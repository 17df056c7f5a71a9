"""What PyTorch's compiled code calls since it takes the least time on the host.

These functions are private: where a version of PyTorch lacks one, a public one does the same.
"""

from collections.abc import Callable

import torch
from torch import Tensor

# (shape, strides, dtype) -> an uninitialised tensor on the current device
Allocator = Callable[[tuple[int, ...], tuple[int, ...], torch.dtype], Tensor]

_raw_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None)
_empty_strided_cuda: Allocator | None = getattr(
    getattr(getattr(torch._C, "_dynamo", None), "guards", None), "_empty_strided_cuda", None
)


def current_stream(device: int) -> int:
    """The address of a device's current stream, without a Stream object in between."""
    if _raw_stream is not None:
        return _raw_stream(device)
    return torch.cuda.current_stream(device).cuda_stream


def allocator(device: torch.device) -> Allocator:
    """What makes an uninitialised tensor on this device of a shape, its strides and a dtype."""
    on_gpu = device.index is not None  # a CPU has none
    if on_gpu and _empty_strided_cuda and device.index == torch.cuda.current_device():
        return _empty_strided_cuda
    return lambda shape, strides, dtype: torch.empty_strided(
        shape, strides, dtype=dtype, device=device
    )
