"""The tolerance rule lets a 16-bit kernel pass and stops every kind of wrong result."""

import math

import pytest
import torch
from ragged_attention import tolerance
from support import DTYPES, RAGGED, make_problem, twin


@pytest.fixture(params=DTYPES, ids=str)
def results(request):
    """(truth, twin in 16 bit) of one problem."""
    problem = make_problem(RAGGED["two_plain"], dtype=request.param)
    return twin(problem, torch.float64), twin(problem)


def failures(got, results):
    return {v.name: v.reason for v in tolerance.check_all(got, *results) if not v.passed}


def test_rounded_truth_and_twin_pass(results):
    assert not failures(results[1], results)
    assert not failures([t.to(s.dtype) for t, s in zip(*results, strict=True)], results)


def test_budget_formula(results):
    truth, same_precision = results
    dtype = same_precision[0].dtype
    twin_error = tolerance.errors(same_precision[0], truth[0])
    budget = tolerance.budgets(truth[0], same_precision[0], dtype)
    largest = truth[0].abs().max().to(dtype)
    step = (torch.nextafter(largest, largest.new_tensor(math.inf)) - largest).double()
    assert budget.frobenius == 2 * twin_error.frobenius + torch.finfo(dtype).eps / 2
    assert budget.max_abs == 2 * twin_error.max_abs + float(step)


def test_error_measures():
    truth = torch.tensor([3.0, 4.0], dtype=torch.float64)
    error = tolerance.errors(torch.tensor([3.0, 4.5], dtype=torch.float16), truth)
    assert error == (0.5 / 5.0, 0.5)
    assert tolerance.errors(truth.half(), truth) == (0.0, 0.0)
    assert tolerance.errors(truth[:0].half(), truth[:0]) == (0.0, 0.0)
    zeros = torch.zeros(2, dtype=torch.float64)
    assert tolerance.errors(zeros.half(), zeros) == (0.0, 0.0)
    assert tolerance.errors(truth.half(), zeros) == (math.inf, 4.0)


def test_shapes_must_agree():
    with pytest.raises(ValueError, match=r"^got: shape \(2,\); the truth has \(3,\)$"):
        tolerance.errors(torch.zeros(2), torch.zeros(3))


@pytest.mark.parametrize("output", range(4), ids=tolerance.NAMES)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_non_finite_value_fails(results, output, bad):
    got = [t.clone() for t in results[1]]
    got[output].view(-1)[7] = bad
    (name,) = failures(got, results)
    assert name == tolerance.NAMES[output]
    assert failures(got, results)[name].startswith("NaN or infinity")


def test_infinity_where_the_truth_overflows_passes():
    truth = torch.tensor([1.0, 1e6, -1e6], dtype=torch.float64)
    got = truth.half()
    assert got.isinf().sum() == 2
    assert tolerance.check("out", got, truth, got).passed
    assert not tolerance.check("out", got.abs(), truth, got).passed
    assert not tolerance.check("out", got.clamp(-65504, 65504), truth, got).passed


def test_one_wrong_value_fails_by_the_largest_error(results):
    truth, same_precision = results
    got = [t.clone() for t in same_precision]
    budget = tolerance.budgets(truth[0], same_precision[0], got[0].dtype)
    got[0].view(-1)[3] += 2 * budget.max_abs
    assert failures(got, results)["out"].startswith("largest error")


def test_a_small_error_everywhere_fails_by_the_relative_error(results):
    truth, same_precision = results
    budget = tolerance.budgets(truth[1], same_precision[1], same_precision[1].dtype)
    got = list(same_precision)
    got[1] = (truth[1] * (1 + 2 * budget.frobenius)).to(got[1].dtype)
    assert failures(got, results)["dq"].startswith("relative error")


def test_a_budget_too_wide_proves_nothing(results):
    truth, same_precision = results
    wide = [t * 1.1 for t in same_precision]
    verdicts = tolerance.check_all(same_precision, truth, wide)
    assert all(v.reason.endswith("proves nothing") for v in verdicts)
