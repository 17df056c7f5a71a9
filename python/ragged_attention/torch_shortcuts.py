"""What PyTorch's compiled code calls since it takes the least time on the host.

These functions are private: where a version of PyTorch lacks one, a public one serves.
"""

from collections.abc import Callable

import torch
from torch import Tensor

# (shape, strides, dtype) -> an uninitialised tensor on the current device
Allocator = Callable[[tuple[int, ...], tuple[int, ...], torch.dtype], Tensor]

try:
    from torch._C import _cuda_getCurrentRawStream as _raw_stream
except ImportError:
    _raw_stream = None
try:
    from torch._C._dynamo.guards import _empty_strided_cuda
except ImportError:
    _empty_strided_cuda = None


def current_stream(device: int) -> int:
    """The address of a device's current stream, without a Stream object in between."""
    if _raw_stream is not None:
        return _raw_stream(device)
    return torch.cuda.current_stream(device).cuda_stream


def allocator(device: torch.device) -> Allocator:
    """What makes an uninitialised tensor on this device of a shape, its strides and a dtype."""
    is_current = device.type == "cuda" and device.index == torch.cuda.current_device()
    if is_current and _empty_strided_cuda is not None:
        return _empty_strided_cuda
    return lambda shape, strides, dtype: torch.empty_strided(
        shape, strides, dtype=dtype, device=device
    )
