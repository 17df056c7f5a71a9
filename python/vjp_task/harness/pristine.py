"""Whether timers, events, synchronisation and what the harness calls are still the originals."""

import builtins
import gc
import time
from typing import Any

import torch

_TIMERS = ("perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "time", "time_ns")
_CUDA = ("Event", "Stream", "synchronize", "stream", "current_stream", "default_stream", "device")
_STREAM_METHODS = ("synchronize", "wait_event", "wait_stream", "record_event", "query")
_EVENT_METHODS = ("record", "wait", "query", "elapsed_time", "synchronize")
_TENSOR_METHODS = ("copy_", "data_ptr", "clone", "to", "cpu", "view", "reshape", "sum", "__eq__")
_TORCH = ("empty", "full", "full_like", "randn", "randperm", "arange", "equal", "frombuffer")
_BUILTINS = ("open", "isinstance", "len", "tuple", "getattr", "__import__", "max", "sum")
_RUNTIME = ("_cuda_synchronize", "_CudaEventBase", "_CudaStreamBase")


def _table() -> list[tuple[Any, str]]:
    """(owner, attribute): everything that the clock and the checks rely on."""
    entries: list[tuple[Any, str]] = [(time, name) for name in _TIMERS]
    entries += [(torch.cuda, name) for name in _CUDA]
    entries += [(torch.cuda.Event, name) for name in _EVENT_METHODS]
    entries += [(torch.cuda.Stream, name) for name in _STREAM_METHODS]
    entries += [(torch.Tensor, name) for name in _TENSOR_METHODS]
    entries += [(torch, name) for name in _TORCH]
    entries += [(torch._C, name) for name in _RUNTIME]
    entries += [(builtins, name) for name in _BUILTINS]
    entries += [(gc, name) for name in ("collect", "disable", "enable", "isenabled")]
    return [(owner, name) for owner, name in entries if hasattr(owner, name)]


class Pristine:
    """Remembers the originals when it is made."""

    def __init__(self) -> None:
        self._originals = [(owner, name, getattr(owner, name)) for owner, name in _table()]

    def replaced(self) -> list[str]:
        """Dotted names of what is another object now."""
        return [
            f"{getattr(owner, '__module__', None) or ''}.{owner.__name__}.{name}".lstrip(".")
            for owner, name, original in self._originals
            if getattr(owner, name, None) is not original
        ]
