"""Tensors through files of raw bytes: no pickle, so a reader need not trust the writer."""

import os
import stat
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor


def write_tensor(file: Path, tensor: Tensor) -> None:
    """Writes the values in row-major order, in the tensor's own dtype."""
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    file.write_bytes(b"" if flat.numel() == 0 else memoryview(flat.view(torch.uint8).numpy()))


def read_tensor(file: Path, dtype: torch.dtype, shape: Sequence[int]) -> Tensor:
    """What `write_tensor` wrote, as a CPU tensor.

    Raises ValueError where the path is a link or no regular file, or holds another size; never
    waits for a pipe.
    """
    count = 1
    for size in shape:
        count *= size
    needed = count * torch.empty((), dtype=dtype).element_size()
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
        values = bytearray(needed)
        got = stream.readinto(values)
    if got != needed:
        raise ValueError(f"{file.name}: {got} bytes; {needed} are needed")
    if needed == 0:
        return torch.empty(tuple(shape), dtype=dtype)
    return torch.frombuffer(values, dtype=dtype).reshape(tuple(shape))
