"""The score through every path: cap and its derivative, ALiBi bias, range of the softmax."""

import pytest
import torch
from ragged_attention.checks import HEAD_DIM
from ragged_attention.tolerance import errors
from support import (
    DTYPES,
    NAMES,
    assert_correct,
    assert_same_bits,
    assert_well_formed,
    make_problem,
    offsets,
    run,
    twin,
)

# (queries, keys) on both sides of the diagonal's corner
LENGTHS = [(19, 40), (33, 27), (12, 12)]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    ("softcap", "scale_multiplier"),
    [(0.75, 3.0), (2.0, 3.0), (3.0, 0.75), (5.0, 6.0), (50.0, 6.0), (0.0, 3.0), (3.0, -0.75)],
)
def test_cap(device, dtype, softcap, scale_multiplier):
    """Many logits lie past the knee of tanh, where a missing derivative shows most."""
    problem = make_problem(
        LENGTHS, dtype=dtype, device=device, softcap=softcap, scale_multiplier=scale_multiplier
    )
    assert_correct(run(problem), problem)


def test_caps_differ_and_zero_means_none(device):
    problem = make_problem([(21, 50)], device=device, scale_multiplier=6.0)
    outs = [run({**problem, "softcap": cap})[0].float() for cap in (5.0, 50.0, 1.0e4, 0.0)]
    tight, loose, very_loose, none = outs
    assert (tight - loose).abs().max() > 0.02
    assert (loose - very_loose).abs().max() > 0.02
    assert (very_loose - none).abs().max() < 5e-3


@pytest.mark.parametrize("scale_multiplier", [0.0, 1.0e-6])
def test_vanishing_scale(device, scale_multiplier):
    """Flat scores: out is the mean of v, and q, k hardly matter."""
    problem = make_problem(
        [(6, 40)], device=device, scale_multiplier=scale_multiplier, slope_sign=0.0, softcap=0.0
    )
    out, dq, dk, _ = run(problem)
    mean = problem["v"].double().mean(0).expand_as(out)
    assert (out.double() - mean).abs().max() < 1e-3
    assert max(dq.abs().max(), dk.abs().max()) <= 10 * scale_multiplier


@pytest.mark.parametrize("sign", [1.0, -1.0, 0.0], ids=["plus", "minus", "none"])
@pytest.mark.parametrize("factor", [1.0, 20.0])
@pytest.mark.parametrize("softcap", [0.0, 3.0])
def test_slopes(device, sign, factor, softcap):
    """Slopes differ by sequence and head; strong ones underflow most of a row, from either end."""
    problem = make_problem(
        [*LENGTHS, (3, 300), (300, 5)], device=device, slope_sign=factor * sign, softcap=softcap
    )
    assert_correct(run(problem), problem)


@pytest.mark.parametrize("layout", ["by_head", "one_batch_row", "one_slope_per_row", "padded"])
def test_slopes_in_any_layout(device, layout):
    problem = make_problem(LENGTHS, device=device, heads=4)
    slopes = problem["alibi_slopes"]
    batch, heads = slopes.shape
    views = {
        "by_head": slopes.t().contiguous().t(),
        "one_batch_row": slopes[:1].expand(batch, heads),
        "one_slope_per_row": slopes[:, :1].expand(batch, heads),
        "padded": torch.full((2 * batch, heads + 3), torch.nan, device=device)[::2, 1 : heads + 1],
    }
    view = views[layout]
    if layout == "padded":
        view.copy_(slopes)
    assert view.stride() != (heads, 1)
    got = run({**problem, "alibi_slopes": view})
    assert_same_bits(got, run({**problem, "alibi_slopes": view.contiguous()}))
    assert_correct(got, {**problem, "alibi_slopes": view})


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("slope", [0.30017, 0.301])
def test_bias_and_scale_keep_float32(device, dtype, slope):
    """A far key whose q.k just balances its bias: either one rounded to 16 bits shifts it by up
    to two units of logit. The two meet at 900, where float32 itself leaves 6e-5."""
    far = 2999
    problem = make_problem([(1, far + 1)], heads=2, dtype=dtype, device=device, softcap=0.0)
    problem["q"].zero_()
    problem["k"].zero_()
    problem["q"][..., 0], problem["k"][0, 0, 0] = 64.0, 178.0
    problem["scale_multiplier"] = slope * far / (64.0 * 178.0 / HEAD_DIM**0.5)
    problem["alibi_slopes"] = torch.full((1, 2), slope, device=device)
    assert_correct(run(problem), problem)


@pytest.mark.parametrize("level", [-90.0, 90.0, -3000.0])
def test_rows_of_logits_far_from_zero(device, level):
    """Softmax is about differences: a reference stuck at 0 would underflow or overflow.

    Products rounded to 16 bits, as the twin's, are useless at this level: the bound is absolute.
    """
    problem = make_problem([(88, 200)], device=device, dtype=torch.bfloat16, softcap=0.0, heads=2)
    problem["q"].mul_(0.25)
    problem["k"].mul_(0.25)
    problem["q"][..., :8] = 8.0
    problem["k"][..., :8] = 8.0
    problem["scale_multiplier"] = level / (8 * 8.0 * 8.0 / HEAD_DIM**0.5)
    got, truth = run(problem), twin(problem, torch.float64)
    assert_well_formed(got, problem)
    for name, result, true in zip(NAMES, got, truth, strict=True):
        assert bool(torch.isfinite(result).all())
        if name in ("out", "dv"):
            assert errors(result, true).frobenius < 2 * torch.finfo(result.dtype).eps


def test_keys_that_rise_along_the_row(device):
    """Every later block of keys beats the earlier ones: a running maximum moves each time."""
    problem = make_problem([(40, 520)], device=device, softcap=0.0, slope_sign=0.0, heads=2)
    problem["q"][..., 0] = 4.0
    problem["k"][:, 0, 0] = torch.linspace(-8, 8, 520, device=device)
    problem["scale_multiplier"] = 4.0
    assert_correct(run(problem), problem)


@pytest.mark.parametrize("softcap", [0.0, 3.0])
def test_huge_finite_inputs(device, softcap):
    """Logits of 2e11 must cancel exactly: one key takes all."""
    shape = (3, 2, HEAD_DIM)
    problem = make_problem([(3, 1)], heads=2, dtype=torch.bfloat16, device=device, softcap=softcap)
    problem["q"].fill_(133120.0)
    problem["k"].fill_(133120.0)
    problem["cu_q"], problem["cu_k"] = offsets([3], device), offsets([1], device)
    out, dq, dk, dv = run(problem)
    v = problem["v"].expand(shape)
    if softcap == 0:
        assert torch.equal(out, v)
    assert (out - v).abs().max() <= torch.finfo(out.dtype).eps * v.abs().max()
    for result in (dq, dk, dv):
        assert bool(torch.isfinite(result).all())
    total = problem["dout"].double().sum((0, 1))
    assert (dv.double() - total).norm() < 2 * torch.finfo(dv.dtype).eps * total.norm()
