"""Structure, aliasing, input and value checks on a solver's outputs."""

import math

import pytest
import torch
from vjp_task import checking
from vjp_task.checking import CheckError
from vjp_task.inputs import materialise
from vjp_task.panel import load_visible_panel, scaled

SPEC = scaled(load_visible_panel().cases[0], 0.02)
INPUTS = materialise(SPEC, torch.device("cpu"))
TRUTH = checking.truth_of(INPUTS)
NAMES = ("out", "dq", "dk", "dv")


def good():
    """Right outputs, fresh ones each time."""
    return [t.to(INPUTS.q.dtype) for t in TRUTH.exact]


def with_output(name, change):
    outputs = good()
    outputs[NAMES.index(name)] = change(outputs[NAMES.index(name)])
    return tuple(outputs)


def test_truth_in_one_go_equals_the_truth_by_sequence():
    from ragged_attention import reference

    tensors = [t.double() if t.is_floating_point() else t for t in INPUTS.tensors().values()]
    whole = reference.full_vjp(*tensors, SPEC.softcap, SPEC.scale_multiplier)
    for name, a, b in zip(NAMES, TRUTH.exact, whole, strict=True):
        assert a.dtype == torch.float64
        assert torch.allclose(a, b, rtol=1e-12, atol=1e-12), name
    assert all(t.dtype == torch.float16 for t in TRUTH.same_precision)


def test_rounded_truth_passes():
    verdicts = checking.check_outputs(good(), INPUTS, TRUTH)
    assert [(v.name, v.passed) for v in verdicts] == [(name, True) for name in NAMES]
    assert all(0 < v.error.frobenius < v.budget.frobenius < 5e-3 for v in verdicts)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", [math.nan, math.inf, 0.0])
def test_one_wrong_value_fails_that_output_alone(name, value):
    def spoil(t):
        t.view(-1)[t.abs().argmax()] = value
        return t

    verdicts = checking.check_outputs(with_output(name, spoil), INPUTS, TRUTH)
    assert [v.name for v in verdicts if not v.passed] == [name]


@pytest.mark.parametrize("name", NAMES)
def test_an_output_off_by_one_percent_fails(name):
    verdicts = checking.check_outputs(with_output(name, lambda t: t * 1.01), INPUTS, TRUTH)
    assert [v.name for v in verdicts if not v.passed] == [name]


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (None, "result: None; a tuple of out, dq, dk, dv is needed"),
        (good()[:3], "result: 3 values; a tuple of out, dq, dk, dv is needed"),
        (good()[0], "result: a Tensor; a tuple of out, dq, dk, dv is needed"),
        (with_output("dq", lambda t: None), "dq: None; a plain torch.Tensor is needed"),
        (with_output("dk", lambda t: t.tolist()), "dk: a list; a plain torch.Tensor is needed"),
        (
            with_output("dv", lambda t: t[:-1]),
            f"dv: shape ({SPEC.total_k - 1}, 1, 160); ({SPEC.total_k}, 1, 160) is needed",
        ),
        (
            with_output("out", lambda t: t.float()),
            "out: dtype torch.float32; torch.float16 is needed",
        ),
        (with_output("out", lambda t: t.to("meta")), "out: device meta; cpu is needed"),
        (
            with_output("dk", lambda t: t.to_sparse()),
            "dk: layout torch.sparse_coo; torch.strided is needed",
        ),
        (
            with_output("dq", lambda t: INPUTS.q),
            "dq: shares memory with q; memory of its own is needed",
        ),
        (
            with_output("dk", lambda t: INPUTS.storages["q"].view(-1)[-t.numel() :].view(t.shape)),
            "dk: shares memory with q; memory of its own is needed",
        ),
        (
            with_output("out", lambda t: INPUTS.storages["dout"][: SPEC.total_q, :, 8:168]),
            "out: shares memory with dout; memory of its own is needed",
        ),
    ],
)
def test_structure_faults_name_the_output(result, message):
    with pytest.raises(CheckError) as caught:
        checking.check_structure(result, INPUTS)
    assert str(caught.value) == message


def test_outputs_may_share_an_allocation_but_no_memory():
    out, dq, dk, dv = good()
    both = torch.cat([dk, dv])
    assert checking.check_structure((out, dq, *both.split(len(dk))), INPUTS)
    with pytest.raises(CheckError, match=r"^dv: shares memory with dk; memory of its own is need"):
        checking.check_structure((out, dq, both[: len(dk)], both[1 : len(dk) + 1]), INPUTS)


def test_changed_inputs_are_named():
    inputs = materialise(SPEC, torch.device("cpu"))
    before = inputs.digests()
    checking.check_unchanged(before, inputs)
    for name, tensor in inputs.tensors().items():
        kept = tensor.clone()
        tensor[-1] += 1
        message = f"{name}: this input was changed by the call; it must stay as it was"
        with pytest.raises(CheckError) as caught:
            checking.check_unchanged(before, inputs)
        assert str(caught.value) == message
        tensor.copy_(kept)
    checking.check_unchanged(before, inputs)


@pytest.mark.gpu
def test_memory_is_poisoned_before_a_call():
    inputs = materialise(SPEC, torch.device("cuda", 0))
    torch.cuda.empty_cache()
    checking.poison_free_memory(inputs)
    recycled = [torch.empty_like(t, memory_format=torch.contiguous_format) for t in (inputs.q,) * 2]
    assert all(bool(t.isnan().all()) for t in recycled)
