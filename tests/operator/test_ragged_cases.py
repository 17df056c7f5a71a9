"""The table of ragged lengths through every path, and lengths whose results are known exactly."""

import pytest
import torch
from support import (
    DTYPES,
    RAGGED,
    assert_correct,
    assert_same_bits,
    assert_well_formed,
    make_problem,
    poison,
    run,
)


@pytest.mark.parametrize("lengths", RAGGED.values(), ids=RAGGED.keys())
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("softcap", [0.0, 3.0])
def test_ragged(device, lengths, dtype, softcap):
    problem = make_problem(lengths, dtype=dtype, softcap=softcap, device=device, heads=6)
    poison(problem)
    assert_correct(run(problem), problem)


@pytest.mark.parametrize("lengths", [[(0, 9), (4, 0), (3, 5)], [(4, 0), (0, 9)], [(0, 0)], []])
def test_rows_without_partner_are_exactly_zero(device, lengths):
    problem = make_problem(lengths, device=device)
    poison(problem)
    out, dq, dk, dv = results = run(problem)
    assert_well_formed(results, problem)
    q_end = k_end = 0
    for queries, keys in lengths:
        rows, q_end = slice(q_end, q_end + queries), q_end + queries
        cols, k_end = slice(k_end, k_end + keys), k_end + keys
        for result in (out[rows], dq[rows], dk[cols], dv[cols]):
            expected = queries > 0 and keys > 0
            assert bool((result != 0).any()) == (expected and result.numel() > 0)
            assert bool(torch.isfinite(result).all())


@pytest.mark.parametrize("what", ["queries", "keys"])
def test_a_row_without_keys_adds_nothing(device, what):
    """Its values, however large, reach no other row."""
    lengths = [(5, 0), (7, 11)] if what == "queries" else [(0, 5), (7, 11)]
    problem = make_problem(lengths, device=device)
    want = run(problem)
    for name in ("q", "dout") if what == "queries" else ("k", "v"):
        problem[name][:5] = 3.0e4
    assert_same_bits(run(problem), want)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("queries", [1, 3])
def test_one_key_per_sequence(device, dtype, queries):
    """Softmax over one key is 1: out = v, dv = the sum of dout, and dq = dk = 0 but for rounding.

    The count of sequences is beyond 65,535, the limit of a grid's second axis, on a GPU.
    """
    batch, heads = (70_000 if device.type == "cuda" else 300), 2
    problem = make_problem(
        [(queries, 1)] * batch, dtype=dtype, device=device, heads=heads, softcap=0.0, strided=False
    )
    poison(problem)
    out, dq, dk, dv = results = run(problem)
    assert_well_formed(results, problem)
    by_query = problem["v"].repeat_interleave(queries, 0).expand_as(out)
    assert torch.equal(out, by_query)
    assert dq.abs().max() < 1e-2
    assert dk.abs().max() < 1e-2
    total = problem["dout"].double().view(batch, queries * heads, -1).sum(1, keepdim=True)
    assert (dv.double() - total).norm() < torch.finfo(dtype).eps * total.norm()


@pytest.mark.parametrize("heads", [1, 2, 24, 128])
def test_gradients_of_shared_keys_are_summed_over_heads(device, heads):
    """All heads push the same way, where a running 16-bit sum would stall."""
    problem = make_problem([(16, 16), (5, 9)], heads=heads, dtype=torch.bfloat16, device=device)
    problem["dout"].abs_()
    assert_correct(run(problem), problem)


def test_equal_inputs_give_equal_bits(device):
    lengths = [(257, 130), (128, 128), (1, 127), (65, 257), (300, 64)]
    problem = make_problem(lengths, heads=4, device=device)
    first = run(problem)
    assert_correct(first, problem)
    for _ in range(50 if device.type == "cuda" else 2):
        poison(problem)
        assert_same_bits(run(problem), first)


def test_results_do_not_depend_on_earlier_calls(device):
    problem = make_problem(RAGGED["very_uneven"], device=device)
    first = run(problem)
    run(make_problem(RAGGED["more_keys"], heads=5, device=device, dtype=torch.bfloat16, seed=1))
    assert_same_bits(run(problem), first)
