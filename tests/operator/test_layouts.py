"""Any view gives the bits of its dense copy, and nothing around it is read or written."""

import math

import pytest
import torch
from ragged_attention.checks import HEAD_DIM
from support import (
    FEATURES,
    RAGGED,
    assert_correct,
    assert_same_bits,
    assert_unchanged,
    make_problem,
    run,
    snapshot,
    strided_copy,
)


def _every_second_feature(x):
    storage = torch.full((*x.shape[:2], 2 * HEAD_DIM), math.nan, dtype=x.dtype, device=x.device)
    return storage[..., ::2].copy_(x)


def _heads_first(x):
    return x.transpose(0, 1).contiguous().transpose(0, 1)


def _features_first(x):
    return x.permute(2, 0, 1).contiguous().permute(1, 2, 0)


LAYOUTS = {
    "step_and_pad": lambda x: strided_copy(x, 3, 16),
    "aligned_offset": lambda x: strided_copy(x, 1, 0, lead=8),
    "address_off_by_1": lambda x: strided_copy(x, 1, 0, lead=1),
    "address_off_by_3": lambda x: strided_copy(x, 2, 8, lead=3),
    "address_off_by_4": lambda x: strided_copy(x, 1, 8, lead=4),
    "rows_of_163": lambda x: strided_copy(x, 1, 3),
    "rows_of_164": lambda x: strided_copy(x, 2, 4),
    "every_second_feature": _every_second_feature,
    "heads_first": _heads_first,
    "features_first": _features_first,
}
EXPANSIONS = {
    "one_value": lambda x: x[:1, :1, :1].expand_as(x),
    "one_token": lambda x: x[:1].expand_as(x),
    "one_head": lambda x: x[:, :1].expand_as(x),
    "one_feature": lambda x: x[..., :1].expand_as(x),
}


@pytest.fixture
def dense(device):
    """A dense problem with NaN nowhere, and its results."""
    problem = make_problem(RAGGED["very_uneven"], device=device, strided=False)
    return problem, run(problem)


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS.keys())
@pytest.mark.parametrize("name", FEATURES)
def test_layout(dense, name, layout):
    problem, want = dense
    view = layout(problem[name])
    assert torch.equal(view, problem[name])
    assert_same_bits(run({**problem, name: view}), want)
    assert_same_bits(run(problem), want)  # and the device is none the worse for it


@pytest.mark.parametrize("expansion", EXPANSIONS.values(), ids=EXPANSIONS.keys())
@pytest.mark.parametrize("name", FEATURES)
def test_expanded(device, name, expansion):
    """Stride 0, as in dout of out.sum().backward()."""
    problem = make_problem(RAGGED["two_plain"], device=device)
    problem[name] = expansion(problem[name])
    got = run(problem)
    assert_same_bits(got, run({**problem, name: problem[name].contiguous()}))
    if name == "dout":
        assert_correct(got, problem)


@pytest.mark.parametrize("turn", range(1, 4))
def test_every_tensor_has_strides_of_its_own(dense, turn):
    problem, want = dense
    steps, pads = (1, 2, 3, 5), (0, 8, 16, 32)
    views = {
        name: strided_copy(problem[name], steps[(i + turn) % 4], pads[(2 * i + turn) % 4], 8 * i)
        for i, name in enumerate(FEATURES)
    }
    assert_same_bits(run({**problem, **views}), want)


def test_views_of_one_fused_projection(device):
    problem = make_problem([(21, 21), (34, 34)], heads=4, device=device, strided=False)
    tokens = problem["q"].shape[0]
    fused = torch.cat([problem[n].reshape(tokens, -1) for n in ("q", "k", "v")], dim=1)
    q, k, v = fused.split([4 * HEAD_DIM, HEAD_DIM, HEAD_DIM], dim=1)
    views = {"q": q.unflatten(1, (4, HEAD_DIM)), "k": k[:, None], "v": v[:, None]}
    assert_same_bits(run({**problem, **views}), run(problem))


def test_keys_and_values_may_be_one_tensor(device):
    problem = make_problem(RAGGED["two_plain"], device=device, strided=False)
    want = run({**problem, "v": problem["k"].clone()})
    assert_same_bits(run({**problem, "v": problem["k"]}), want)


def test_offsets_in_any_layout(dense):
    problem, want = dense
    for name in ("cu_q", "cu_k"):
        spread = torch.full((2 * len(problem[name]),), -7, dtype=torch.int32, device=want[0].device)
        view = spread[1::2].copy_(problem[name])
        assert_same_bits(run({**problem, name: view}), want)


@pytest.mark.parametrize("lead", [0, 1])
def test_storages_are_unchanged_and_results_are_apart(device, lead):
    problem = make_problem(RAGGED["very_uneven"], device=device)
    problem["q"] = strided_copy(problem["q"], 2, 8, lead)
    before = snapshot(problem)
    results = run(problem)
    assert_unchanged(problem, before)
    tensors = [*results, *(problem[n] for n in before)]
    assert len({t.untyped_storage().data_ptr() for t in tensors}) == len(tensors)
