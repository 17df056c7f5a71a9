"""Tensors through files of raw bytes: no pickle, so a reader need not trust the writer.

Between a file and a GPU they pass through pinned memory, which the GPU reads and writes itself and
torch keeps for the next tensor: a case's largest are several hundred MB, and cross a dozen times.
"""

import math
import os
import stat
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor


def write_tensor(file: Path, tensor: Tensor) -> None:
    """Writes the values in row-major order, in the tensor's own dtype."""
    tensor = tensor.detach()
    if tensor.is_cuda:
        host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        tensor = host.copy_(tensor)
    file.write_bytes(b"" if tensor.numel() == 0 else _bytes_of(tensor.contiguous()))


def read_tensor(
    file: Path, dtype: torch.dtype, shape: Sequence[int], pinned: bool = False
) -> Tensor:
    """What `write_tensor` wrote, as a CPU tensor, in pinned memory if it goes on to a GPU.

    Raises ValueError where the path is a link or no regular file, or holds another size; never
    waits for a pipe.
    """
    needed = math.prod(shape) * torch.empty((), dtype=dtype).element_size()
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise ValueError(f"{file.name}: {error.strerror}; a regular file is needed") from error
    with os.fdopen(handle, "rb") as stream:
        state = os.fstat(stream.fileno())
        if not stat.S_ISREG(state.st_mode):
            raise ValueError(f"{file.name}: a special file; a regular file is needed")
        if state.st_size != needed:
            raise ValueError(f"{file.name}: {state.st_size} bytes; {needed} are needed")
        values = torch.empty(tuple(shape), dtype=dtype, pin_memory=pinned)
        got = stream.readinto(_bytes_of(values)) if needed else 0
    if got != needed:
        raise ValueError(f"{file.name}: {got} bytes; {needed} are needed")
    return values


def _bytes_of(tensor: Tensor) -> memoryview:
    """The memory of a dense CPU tensor."""
    return memoryview(tensor.reshape(-1).view(torch.uint8).numpy())
