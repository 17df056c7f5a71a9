"""The tensors of a case: layout, poison, values, digests."""

import math

import pytest
import torch
from ragged_attention.bench.case import VIEWS
from vjp_task.inputs import digest, materialise
from vjp_task.panel import load_visible_panel, scaled

CPU = torch.device("cpu")
CASES = [scaled(case, 0.05) for case in load_visible_panel().cases]
GPU = pytest.param("cuda", marks=pytest.mark.gpu)


@pytest.fixture(params=["cpu", GPU])
def place(request):
    return torch.device(request.param, 0 if request.param == "cuda" else None)


@pytest.mark.parametrize("spec", CASES, ids=lambda c: c.name)
def test_layout_is_the_one_of_the_specification(spec, place):
    inputs = materialise(spec, place)
    assert len(inputs.arguments()) == 12
    assert inputs.arguments()[7:] == (False, -1, -1, 3.0, 0.75)
    for name in VIEWS:
        tensor, storage, view = getattr(inputs, name), inputs.storages[name], spec.views[name]
        tokens = spec.total_q if name in ("q", "dout") else spec.total_k
        heads = spec.heads if name in ("q", "dout") else 1
        assert tensor.shape == (tokens, heads, 160)
        assert storage.shape == (tokens * view.step, heads, 160 + view.pad)
        row = heads * (160 + view.pad)
        assert tensor.stride() == (view.step * row, 160 + view.pad, 1)
        assert tensor.data_ptr() == storage.data_ptr()
        assert tensor.dtype == getattr(torch, spec.dtype)
        assert tensor.device == place
    for cu, lengths in ((inputs.cu_q, spec.q_lengths), (inputs.cu_k, spec.k_lengths)):
        assert cu.dtype == torch.int32
        assert cu.device == place
        assert cu.diff().tolist() == list(lengths)
        assert cu[0] == 0


def test_outside_of_the_views_is_poison_and_inside_is_not(place):
    for outside, is_outside in ((math.nan, torch.isnan), (7.0, lambda t: t == 7.0)):
        inputs = materialise(CASES[0], place, outside)
        for name in VIEWS:
            assert getattr(inputs, name).isfinite().all()
            filled = int(is_outside(inputs.storages[name]).sum())
            assert filled == inputs.storages[name].numel() - getattr(inputs, name).numel()


def test_values_are_standard_normal_and_differ_by_tensor(place):
    inputs = materialise(CASES[1], place)
    for name in VIEWS:
        values = getattr(inputs, name).double()
        assert abs(float(values.mean())) < 0.03
        assert float(values.std()) == pytest.approx(1, abs=0.03)
    assert not torch.equal(inputs.q, inputs.dout)
    assert not torch.equal(inputs.k, inputs.v)


def test_slopes_are_the_power_of_two_times_their_own_factor(place):
    spec = CASES[3]
    slopes = materialise(spec, place).alibi_slopes
    assert slopes.shape == (spec.batch, spec.heads)
    assert slopes.dtype == torch.float32
    power = torch.tensor([2 ** (-8 * (h + 1) / spec.heads) for h in range(spec.heads)])
    factors = slopes.cpu() / power
    assert 0.5 <= float(factors.min()) < 0.55
    assert 1.45 < float(factors.max()) <= 1.5001
    assert factors.unique().numel() > 0.9 * factors.numel()


def test_same_seed_same_bits_and_another_seed_another(place):
    first, again = (materialise(CASES[2], place).digests() for _ in range(2))
    assert first == again
    other = materialise(type(CASES[2])(**{**vars(CASES[2]), "seed": 1}), place).digests()
    changed = {name for name in first if first[name] != other[name]}
    assert changed == {"q", "k", "v", "dout", "alibi_slopes"}


@pytest.mark.parametrize("dtype", [torch.float16, torch.int32, torch.float64, torch.uint8])
@pytest.mark.parametrize("size", [0, 1, 7, 8, 1000, (1 << 19) + 3])
def test_digest_sees_each_single_change(dtype, size):
    values = torch.arange(size).remainder(100).to(dtype)
    before = digest(values)
    assert before == digest(values.clone())
    assert len(before) == 16
    for place in {0, size // 2, size - 1} if size else ():
        changed = values.clone()
        changed[place] += 1
        assert digest(changed) != before


def test_digest_sees_order_length_and_offset():
    values = torch.arange(1, 4097, dtype=torch.int64)
    assert digest(values.flip(0).contiguous()) != digest(values)
    assert digest(torch.cat([values, torch.zeros(1, dtype=torch.int64)])) != digest(values)
    big = torch.arange(1 << 17, dtype=torch.int64)
    swapped = torch.cat([big[1 << 16 :], big[: 1 << 16]])  # whole chunks change places
    assert digest(swapped) != digest(big)
    assert digest(values[3:]) == digest(values[3:].clone())
    halves = torch.arange(64, dtype=torch.int16)
    assert digest(halves[1:]) == digest(halves[1:].clone())  # from an address off 8 bytes


def test_digests_cover_what_lies_outside_the_views(place):
    inputs = materialise(CASES[0], place)
    before = inputs.digests()
    inputs.storages["k"][0, 0, 160] = 0
    after = inputs.digests()
    assert [name for name in before if before[name] != after[name]] == ["k"]


@pytest.mark.gpu
def test_digest_is_the_same_on_every_device():
    values = torch.randn(3_000_001).half()
    assert digest(values.cuda()) == digest(values)
