"""The twin against autograd of the formula, in float64, and its special cases."""

import math

import pytest
import torch
from ragged_attention import reference
from support import NAMES, RAGGED, make_problem, twin

FIXED = ("causal", "window_left", "window_right")


def by_autograd(problem):
    """The operator as a chain of differentiable steps per sequence and head, in float64."""
    q, k, v, dout = (
        problem[n].double().clone().requires_grad_(n != "dout") for n in ("q", "k", "v", "dout")
    )
    slopes, cap = problem["alibi_slopes"], problem["softcap"]
    q_ends, k_ends = problem["cu_q"].tolist(), problem["cu_k"].tolist()
    out = torch.zeros_like(q)
    for b in range(len(q_ends) - 1):
        rows = torch.arange(q_ends[b], q_ends[b + 1])
        keys = torch.arange(k_ends[b], k_ends[b + 1])
        if len(keys) == 0:
            continue
        for h in range(q.shape[1]):
            x = q[rows, h] @ k[keys, 0].T * (problem["scale_multiplier"] / math.sqrt(q.shape[2]))
            s = cap * torch.tanh(x / cap) if cap else x
            if slopes is not None:
                # the last query sits on the last key
                from_end = (rows - q_ends[b + 1])[:, None] - (keys - k_ends[b + 1])[None, :]
                s = s - slopes[b, h].double() * from_end.abs()
            weights = (s - s.logsumexp(-1, keepdim=True)).exp()
            out = out.index_put((rows, torch.tensor(h)), weights @ v[keys, 0])
    return out.detach(), *torch.autograd.grad(out, (q, k, v), dout)


@pytest.mark.parametrize("lengths", RAGGED.values(), ids=RAGGED.keys())
@pytest.mark.parametrize("softcap", [0.0, 3.0])
def test_equals_autograd(lengths, softcap):
    problem = make_problem(lengths, softcap=softcap)
    for name, got, want in zip(
        NAMES, twin(problem, torch.float64), by_autograd(problem), strict=True
    ):
        torch.testing.assert_close(got, want, rtol=1e-11, atol=1e-12, msg=name)


@pytest.mark.parametrize("slope_sign", [-1.0, 0.0], ids=["negative_slopes", "no_slopes"])
def test_equals_autograd_with_other_slopes(slope_sign):
    problem = make_problem(RAGGED["more_queries"], slope_sign=slope_sign)
    for name, got, want in zip(
        NAMES, twin(problem, torch.float64), by_autograd(problem), strict=True
    ):
        torch.testing.assert_close(got, want, rtol=1e-11, atol=1e-12, msg=name)


def test_known_numbers():
    """Two keys, one query, by hand: weights 1/(1+e^-1) and its rest."""
    q = torch.tensor([[[2.0]]], dtype=torch.float64)
    k = torch.tensor([[[0.0]], [[0.0]]], dtype=torch.float64)
    v = torch.tensor([[[0.0]], [[1.0]]], dtype=torch.float64)
    cu_q, cu_k = torch.tensor([0, 1]), torch.tensor([0, 2])
    slopes, dout = torch.ones(1, 1), torch.ones_like(q)
    out, dq, dk, dv = reference.full_vjp(q, k, v, cu_q, cu_k, slopes, dout, 0.0, 1.0)
    near = 1 / (1 + math.exp(-1.0))  # the last key lies at distance 0, the first at 1
    assert out.item() == pytest.approx(near)
    assert dv.flatten().tolist() == pytest.approx([1 - near, near])
    change = near * (1 - near)
    assert dk.flatten().tolist() == pytest.approx([-2 * change, 2 * change])
    assert dq.item() == 0.0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_keeps_dtype_and_rows_without_partner_are_zero(dtype):
    problem = make_problem([(0, 4), (3, 0), (2, 5)])
    out, dq, dk, dv = twin(problem, dtype)
    assert {t.dtype for t in (out, dq, dk, dv)} == {dtype}
    assert not out[:3].any() and not dq[:3].any() and out[3:].all()
    assert not dk[:4].any() and not dv[:4].any() and dv[4:].all()


def test_products_round_to_the_dtype_of_the_inputs():
    """So that its error is that of plain 16-bit PyTorch, not of a careful kernel."""
    problem = make_problem([(1, 11)], strided=False, slope_sign=0.0, scale_multiplier=0.0)
    problem["v"].fill_(1.0)
    problem["dout"].fill_(1.0)
    assert ((twin(problem, torch.float64)[0] - 1).abs() < 1e-12).all()
    sum_of_rounded_weights = 11 * torch.tensor(1 / 11).half().double().item()
    rounded_sum = torch.tensor(sum_of_rounded_weights).half()
    assert rounded_sum == 1 - 2.0**-11
    assert (twin(problem)[0] == rounded_sum).all()
