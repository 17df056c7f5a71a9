"""Number, types, shapes, dtypes, devices and memory of a solver's four outputs."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

# The input that each output is shaped like.
SHAPED_LIKE = {"out": "q", "dq": "q", "dk": "k", "dv": "v"}
OUTPUTS = tuple(SHAPED_LIKE)


class CheckError(Exception):
    """A solver's fault: `what` is the output, the input or the step at fault."""

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(f"{what}: {reason}")
        self.what = what
        self.reason = reason


def check_structure(
    result: Any, tensors: Mapping[str, Tensor], taken: Mapping[str, Tensor]
) -> tuple[Tensor, ...]:
    """The four outputs, once their number, types, shapes, dtypes, devices and memory are right.

    `tensors` are the inputs by name; `taken` is memory that no output may share.
    Raises CheckError, naming the output: one that shares memory with `taken` or with an earlier
    output is wrong too.
    """
    values = _values(result)
    if values is None or len(values) != len(OUTPUTS):
        count = _kind(result) if values is None else f"{len(values)} values"
        raise CheckError("result", f"{count}; a tuple of {', '.join(OUTPUTS)} is needed")
    for name, output in zip(OUTPUTS, values, strict=True):
        if type(output) is not Tensor:  # one of a type of its own may compute when it is looked at
            raise CheckError(name, f"{_kind(output)}; a plain torch.Tensor is needed")
        like = tensors[SHAPED_LIKE[name]]
        for field in ("shape", "dtype", "device", "layout"):
            got, needed = getattr(output, field), getattr(like, field)
            if got != needed:
                raise CheckError(name, f"{field} {_show(got)}; {_show(needed)} is needed")
    taken = dict(taken)
    for name, output in zip(OUTPUTS, values, strict=True):
        for other, tensor in taken.items():
            if overlap(output, tensor):
                raise CheckError(name, f"shares memory with {other}; memory of its own is needed")
        taken[name] = output
    return values


def overlap(a: Tensor, b: Tensor) -> bool:
    """Whether the address ranges of two tensors meet."""
    a_first, a_end = _extent(a)
    b_first, b_end = _extent(b)
    return a.device == b.device and a_first < b_end and b_first < a_end


def _extent(t: Tensor) -> tuple[int, int]:
    """First address and the one past the last element; equal where there is no element."""
    if t.numel() == 0:
        return t.data_ptr(), t.data_ptr()
    last = sum((size - 1) * stride for size, stride in zip(t.shape, t.stride(), strict=True))
    return t.data_ptr(), t.data_ptr() + (last + 1) * t.element_size()


def _values(result: Any) -> tuple[Any, ...] | None:
    """What a tuple or list really holds, whatever methods its type has; None for anything else."""
    for kind in (tuple, list):
        if issubclass(type(result), kind):
            return tuple(kind.__iter__(result))
    return None


def _kind(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


def _show(value: Any) -> str:
    return str(tuple(value)) if isinstance(value, torch.Size) else str(value)
