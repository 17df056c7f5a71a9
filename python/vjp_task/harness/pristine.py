"""Whether timers, events, synchronisation and what the harness calls are still the originals."""

import builtins
import gc
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional

_CUDA = ("Event", "Stream", "synchronize", "stream", "current_stream", "default_stream", "device")
_TORCH = (
    "empty", "full", "full_like", "randn", "randperm", "arange", "Generator", "Tensor", "device",
)  # fmt: skip
_RUNTIME = (
    "_cuda_synchronize", "_CudaEventBase", "_CudaStreamBase", "_len_torch_dispatch_stack",
    "_len_torch_function_stack",
)  # fmt: skip
_OS = ("open", "fdopen", "fstat", "getpid", "_exit")

_ABSENT = object()  # not among its owner's own names, but inherited

Space = Mapping[str, Any]


def _table() -> Iterator[tuple[str, Space, str]]:
    """(dotted prefix, names, name): everything that the clock and the checks rely on.

    Of types all names, those inherited included: a name put in front of one shows.
    """
    for module in (time, gc, builtins):
        for name, value in vars(module).items():
            if callable(value):
                yield module.__name__, vars(module), name
    for module, names in (
        (torch, _TORCH), (torch.cuda, _CUDA), (torch._C, _RUNTIME), (os, _OS),
        (torch.nn.functional, ("pad",)),
    ):  # fmt: skip
        for name in names:
            yield module.__name__, vars(module), name
    for owner in (torch.Tensor, torch.cuda.Event, torch.cuda.Stream, Path):
        for name in dir(owner):
            yield f"{owner.__module__}.{owner.__name__}", vars(owner), name


class Pristine:
    """Remembers the originals when it is made."""

    def __init__(self) -> None:
        self._originals = [
            (f"{prefix}.{name}", space, name, space.get(name, _ABSENT))
            for prefix, space, name in _table()
        ]

    def replaced(self) -> list[str]:
        """Dotted names of what is another object now; calls nothing that could be replaced."""
        return [
            dotted
            for dotted, space, name, original in self._originals
            if space.get(name, _ABSENT) is not original
        ]
