"""Tells whether a solver's four outputs are right, and its inputs untouched."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from ragged_attention import reference, tolerance
from ragged_attention.tolerance import NAMES, Verdict
from torch import Tensor

from vjp_task.harness import structure
from vjp_task.harness.structure import SHAPED_LIKE, CheckError
from vjp_task.inputs import NAN, Inputs


@dataclass(frozen=True)
class Truth:
    """What the outputs of one case are measured against; each tuple is (out, dq, dk, dv)."""

    exact: tuple[Tensor, ...]  # float64
    same_precision: tuple[Tensor, ...]  # the twin in the activation dtype: the budget's source


def truth_of(inputs: Inputs) -> Truth:
    """Computes both references, one sequence at a time, so that scratch memory stays small."""
    return Truth(_twin(inputs, torch.float64), _twin(inputs, inputs.q.dtype))


def _twin(inputs: Inputs, dtype: torch.dtype) -> tuple[Tensor, ...]:
    spec = inputs.spec
    like = [getattr(inputs, SHAPED_LIKE[name]) for name in NAMES]
    whole = tuple(torch.empty(t.shape, dtype=dtype, device=t.device) for t in like)
    first_q = first_k = 0
    for b, (queries, keys) in enumerate(zip(spec.q_lengths, spec.k_lengths, strict=True)):
        rows = slice(first_q, first_q + queries)
        columns = slice(first_k, first_k + keys)
        part = reference.full_vjp(
            inputs.q[rows].to(dtype),
            inputs.k[columns].to(dtype),
            inputs.v[columns].to(dtype),
            torch.tensor([0, queries], dtype=torch.int32),
            torch.tensor([0, keys], dtype=torch.int32),
            inputs.alibi_slopes[b : b + 1],
            inputs.dout[rows].to(dtype),
            spec.softcap,
            spec.scale_multiplier,
        )
        for target, places, values in zip(whole, (rows, rows, columns, columns), part, strict=True):
            target[places] = values
        first_q, first_k = rows.stop, columns.stop
    return whole


def check_structure(result: Any, inputs: Inputs) -> tuple[Tensor, ...]:
    """The four outputs, once their structure is right; none may share memory with an input.

    Raises CheckError, naming the output.
    """
    tensors = inputs.tensors()
    return structure.check_structure(result, tensors, {**tensors, **inputs.storages})


def check_outputs(result: Any, inputs: Inputs, truth: Truth) -> list[Verdict]:
    """Structure first (CheckError), then the tolerance rule for each of the four outputs."""
    outputs = check_structure(result, inputs)
    return tolerance.check_all(outputs, truth.exact, truth.same_precision)


def check_unchanged(before: dict[str, str], inputs: Inputs) -> None:
    """Raises CheckError, naming the input, where a digest differs from `before`."""
    for name, value in inputs.digests().items():
        if value != before[name]:
            raise CheckError(name, "this input was changed by the call; it must stay as it was")


def poison_free_memory(inputs: Inputs) -> None:
    """Leaves NaN in memory that the next call is likely to get, so unwritten outputs show."""
    like = [getattr(inputs, name) for name in SHAPED_LIKE.values()]
    filled = [torch.full_like(t, NAN, memory_format=torch.contiguous_format) for t in like]
    filled.clear()


def call(operator: Callable[..., Any], inputs: Inputs) -> Any:
    """Calls the operator and waits for the device, so that a fault shows here and nowhere else."""
    result = operator(*inputs.arguments())
    if inputs.device.type == "cuda":
        torch.cuda.synchronize(inputs.device)
    return result
