"""The portable path by itself: blocks, memory, precision; on the CPU and, without module, a GPU."""

import pytest
import torch
from ragged_attention import native, portable
from support import RAGGED, assert_correct, assert_same_bits, make_problem, poison, run, twin
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

LENGTHS = [(50, 40), (3, 170), (90, 1), (0, 4), (2, 0)]


@pytest.mark.parametrize("scores", [1, 300, 5_000, 1 << 30], ids=lambda n: f"blocks_of_{n}")
@pytest.mark.parametrize("softcap", [0.0, 3.0])
@pytest.mark.parametrize("slope_sign", [0.0, 1.0])
def test_blocks_of_any_size(monkeypatch, scores, softcap, slope_sign):
    problem = make_problem(LENGTHS, softcap=softcap, slope_sign=slope_sign)
    monkeypatch.setitem(portable._BLOCK_SCORES, "cpu", scores)
    assert_correct(run(problem), problem)


def test_arithmetic_is_float32():
    """Only the results are rounded: almost every value is the truth's nearest neighbour."""
    problem = make_problem(RAGGED["two_plain"])
    for got, truth in zip(run(problem), twin(problem, torch.float64), strict=True):
        assert (got == truth.to(got.dtype)).float().mean() > 0.98


class LargestTensor(TorchDispatchMode):
    """Remembers the size in bytes of the largest storage that an operator returned."""

    bytes = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        results = func(*args, **(kwargs or {}))
        for x in tree_leaves(results):
            if isinstance(x, torch.Tensor):
                self.bytes = max(self.bytes, x.untyped_storage().nbytes())
        return results


@pytest.mark.parametrize("lengths", [[(2000, 16)], [(16, 8000)], [(700, 700)]])
def test_memory_is_linear_in_tokens(lengths):
    """No tensor is larger than a block of scores or a float32 copy of an input."""
    ((queries, keys),) = lengths
    heads = 2
    problem = make_problem(lengths, heads=heads, strided=False)
    with LargestTensor() as largest:
        run(problem)
    tokens = 4 * max(problem["q"].numel(), problem["k"].numel())
    block = 3 * 4 * portable._BLOCK_SCORES["cpu"]
    assert largest.bytes <= max(tokens, block)
    if queries == keys:
        assert largest.bytes < 4 * heads * queries * keys


@pytest.mark.gpu
@pytest.mark.parametrize("lengths", [RAGGED["very_uneven"], [(300, 2000)]])
def test_on_a_gpu_without_module(monkeypatch, lengths):
    monkeypatch.setattr(native, "load", lambda: None)
    problem = make_problem(lengths, device="cuda", heads=6)
    poison(problem)
    first = run(problem)
    assert_correct(first, problem)
    assert_same_bits(run(problem), first)


@pytest.mark.parametrize("bad", [[0, 20, 96], [0, 25, 20], [-3, 20, 32], [4, 20, 30], [9, 9, 9]])
def test_unchecked_offsets_stay_inside(bad):
    """As on a GPU, where values of offsets are not checked: rows outside all sequences are 0."""
    problem = make_problem([(20, 18), (12, 30)])
    names = ("q", "k", "v", "cu_q", "cu_k", "alibi_slopes", "dout", "softcap", "scale_multiplier")
    problem["cu_q"] = torch.tensor(bad, dtype=torch.int32)
    out, dq, dk, dv = portable.full_vjp(**{n: problem[n] for n in names})
    covered = torch.zeros(32, dtype=torch.bool)
    for start, stop in ((bad[0], bad[1]), (bad[1], bad[2])):
        covered[max(start, 0) : max(stop, 0)] = True
    assert not out[~covered].any()
    assert not dq[~covered].any()
    assert out[covered].any(-1).all()
    assert all(bool(t.isfinite().all()) for t in (out, dq, dk, dv))
