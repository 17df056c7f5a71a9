"""Checks a method's results before it is timed: the rule of `ragged_attention.tolerance`."""

from typing import NamedTuple

import torch
from torch import Tensor

from ragged_attention import reference, tolerance
from ragged_attention.bench.inputs import Problem
from ragged_attention.tolerance import NAMES, Verdict


class Truth(NamedTuple):
    """What the results of one problem are held against; each tuple is (out, dq, dk, dv)."""

    exact: tuple[Tensor, ...]  # float64
    same_precision: tuple[Tensor, ...]  # the twin in the activation dtype: the budget's source


def truth_of(problem: Problem) -> Truth:
    """Computes both references on the problem's device."""
    return Truth(_twin(problem, torch.float64), _twin(problem, problem.q.dtype))


def check(results: tuple[Tensor, ...], problem: Problem, truth: Truth) -> list[Verdict]:
    """Verdicts on out, dq, dk, dv.

    Raises ValueError where a result's shape or dtype is not that of q, q, k, k.
    """
    like = (problem.q, problem.q, problem.k, problem.k)
    for name, result, x in zip(NAMES, results, like, strict=True):
        for field in ("shape", "dtype"):
            got, needed = getattr(result, field), getattr(x, field)
            if got != needed:
                raise ValueError(f"{name}: {field} {got}; needed is {needed}")
    return tolerance.check_all(results, *truth)


def _twin(problem: Problem, dtype: torch.dtype) -> tuple[Tensor, ...]:
    q, k, v, dout = (x.to(dtype) for x in (problem.q, problem.k, problem.v, problem.dout))
    lengths = problem.cu_q.cpu(), problem.cu_k.cpu()
    numbers = problem.spec.softcap, problem.spec.scale_multiplier
    return reference.full_vjp(q, k, v, *lengths, problem.alibi_slopes, dout, *numbers)
