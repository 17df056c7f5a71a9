"""The tolerance rule: how far a 16-bit result may lie from the truth.

Truth is the twin (`reference.full_vjp`) in float64. The budget of an output is twice the error of
the twin in the output's own dtype, plus one rounding of the output itself:

    relative Frobenius error  <=  2 * that of the twin + eps / 2
    largest absolute error    <=  2 * that of the twin + spacing of the dtype at max |truth|

Both must hold, NaN and infinities must sit where the truth has them once rounded to the dtype, and
the Frobenius budget must itself be small (`SMALL_BUDGET`), or the comparison would prove nothing.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

NAMES = ("out", "dq", "dk", "dv")

# Largest Frobenius budget that still tells right from wrong, in eps of the dtype.
SMALL_BUDGET = 8


class Error(NamedTuple):
    """A distance from the truth, or a bound on one."""

    frobenius: float  # |got - truth| / |truth|, no unit; 0 / 0 = 0
    max_abs: float  # max |got - truth|, in the unit of the values


class Verdict(NamedTuple):
    """What `check` found for one output; `reason` is empty where it passed."""

    name: str
    error: Error
    budget: Error
    reason: str

    @property
    def passed(self) -> bool:
        return not self.reason


def errors(got: Tensor, truth: Tensor) -> Error:
    """Distance of `got` from `truth`, both of one shape, taken in float64.

    Values that are not finite count as equal where `truth`, rounded to the dtype of `got`, has the
    very same, and as infinitely far elsewhere. Raises ValueError where the shapes differ.
    """
    if got.shape != truth.shape:
        raise ValueError(f"got: shape {tuple(got.shape)}; the truth has {tuple(truth.shape)}")
    if got.numel() == 0:
        return Error(0.0, 0.0)
    got, truth = got.detach(), truth.detach()
    if not bool(torch.isfinite(got).all()):
        rounded = truth.to(got.dtype)
        same = (got == rounded) | (got.isnan() & rounded.isnan())
        finite = got.isfinite()
        if not bool((same | finite).all()):
            return Error(math.inf, math.inf)
        got, truth = got[finite], truth[finite]
        if got.numel() == 0:
            return Error(0.0, 0.0)
    truth = truth.double()
    difference = got.double().sub_(truth)
    norm = float(difference.norm())
    if norm == 0:
        return Error(0.0, 0.0)
    truth_norm = float(truth.norm())
    frobenius = norm / truth_norm if truth_norm > 0 else math.inf
    if math.isnan(norm) or math.isnan(frobenius):
        return Error(math.inf, math.inf)
    return Error(frobenius, float(difference.abs().max()))


def budgets(truth: Tensor, same_precision: Tensor, dtype: torch.dtype) -> Error:
    """Bounds for a result of `dtype`, from the truth and the twin's result in that same dtype."""
    twin = errors(same_precision.to(dtype), truth)
    return Error(
        2 * twin.frobenius + torch.finfo(dtype).eps / 2,
        2 * twin.max_abs + _spacing(truth, dtype),
    )


def check(name: str, got: Tensor, truth: Tensor, same_precision: Tensor) -> Verdict:
    """Applies the rule to one output; `got` decides the dtype. Raises nothing for a bad result."""
    error, budget = errors(got, truth), budgets(truth, same_precision, got.dtype)
    return Verdict(name, error, budget, _reason(error, budget, got.dtype))


def check_all(
    got: tuple[Tensor, ...], truth: tuple[Tensor, ...], same_precision: tuple[Tensor, ...]
) -> list[Verdict]:
    """`check` for out, dq, dk, dv in this order."""
    return [check(*row) for row in zip(NAMES, got, truth, same_precision, strict=True)]


def _reason(error: Error, budget: Error, dtype: torch.dtype) -> str:
    small = SMALL_BUDGET * torch.finfo(dtype).eps
    if not budget.frobenius <= small:
        return f"budget {budget.frobenius:.3g} is above {small:.3g} and proves nothing"
    if math.isinf(error.frobenius) and math.isinf(error.max_abs):
        return "NaN or infinity where the truth has none, or the other way round"
    if not error.frobenius <= budget.frobenius:
        return f"relative error {error.frobenius:.3g} is above {budget.frobenius:.3g}"
    if not error.max_abs <= budget.max_abs:
        return f"largest error {error.max_abs:.3g} is above {budget.max_abs:.3g}"
    return ""


def _spacing(values: Tensor, dtype: torch.dtype) -> float:
    """Distance of neighbouring numbers of `dtype` at the largest finite |value|."""
    info = torch.finfo(dtype)
    finite = values[values.isfinite()]
    largest = float(finite.abs().max()) if finite.numel() else 0.0
    return info.eps * 2.0 ** math.floor(math.log2(max(largest, info.smallest_normal)))
