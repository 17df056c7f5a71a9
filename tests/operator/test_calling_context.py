"""What surrounds a call changes nothing: autocast, autograd, compilation, tracing, subclasses."""

import inspect

import pytest
import torch
from ragged_attention import attention_varlen_feature_full_vjp, ops
from support import (
    FEATURES,
    NAMES,
    RAGGED,
    assert_same_bits,
    assert_unchanged,
    assert_well_formed,
    make_problem,
    run,
    snapshot,
)
from torch._subclasses.fake_tensor import FakeTensorMode


@pytest.fixture
def problem(device):
    return make_problem(RAGGED["two_plain"], dtype=torch.bfloat16, device=device)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_autocast(device, problem, dtype):
    want = run(problem)
    with torch.autocast(device.type, dtype=dtype):
        assert_same_bits(run(problem), want)


@pytest.mark.parametrize("grad_mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("kind", ["leaf", "inside_a_graph", "parameter"])
def test_inputs_that_require_grad(problem, grad_mode, kind):
    want, before = run(problem), snapshot(problem)
    makers = {
        "leaf": lambda x: x.detach().requires_grad_(),
        "inside_a_graph": lambda x: x.detach().requires_grad_() * 1,
        "parameter": torch.nn.Parameter,
    }
    tracked = {**problem, **{n: makers[kind](problem[n]) for n in FEATURES}}
    with grad_mode():
        got = run(tracked)
    assert_well_formed(got, tracked)
    assert_same_bits(got, want)
    assert_unchanged(problem, before)


def test_misaligned_input_that_requires_grad(device):
    problem = make_problem(RAGGED["two_plain"], device=device, strided=False)
    want = run(problem)
    q = torch.zeros(problem["q"].numel() + 1, dtype=torch.float16, device=device)
    q = q[1:].view_as(problem["q"]).copy_(problem["q"]).requires_grad_()
    got = run({**problem, "q": q})
    assert_same_bits(got, want)
    assert_well_formed(got, problem)


def test_compiled_caller(problem):
    """The graph breaks at the call; what stands around it is compiled."""
    graphs = []

    def count_graphs(module, inputs):
        graphs.append(module)
        return module.forward

    @torch.compile(backend=count_graphs)
    def caller(arguments):
        out, dq, dk, dv = attention_varlen_feature_full_vjp(
            **{**arguments, "q": arguments["q"] * 2}
        )
        return out + 1, dq, dk, dv

    want = run({**problem, "q": problem["q"] * 2})
    for _ in range(2):
        assert_same_bits(caller(problem), (want[0] + 1, *want[1:]))
    assert len(graphs) == 2


def test_meta_tensors():
    problem = make_problem(RAGGED["two_plain"])
    meta = {n: a.to("meta") if isinstance(a, torch.Tensor) else a for n, a in problem.items()}
    got = run(meta)
    assert_well_formed(got, meta)


def test_fake_tensors(problem):
    with FakeTensorMode() as mode:
        fake = {
            n: mode.from_tensor(a) if isinstance(a, torch.Tensor) else a for n, a in problem.items()
        }
        assert_well_formed(run(fake), fake)


def test_positions_of_the_arguments(problem):
    """Twelve by position, as a solver is called; the last five have defaults."""
    order = list(inspect.signature(attention_varlen_feature_full_vjp).parameters)
    assert order == [*problem, "validate"]
    assert_same_bits(attention_varlen_feature_full_vjp(*problem.values()), run(problem))
    short = list(problem.values())[:7]
    want = run({**problem, "softcap": 0.0, "scale_multiplier": 1.0})
    assert_same_bits(attention_varlen_feature_full_vjp(*short), want)


def test_results_are_named_in_order():
    assert NAMES == ("out", "dq", "dk", "dv")


def test_portable_path_says_so_once(recwarn):
    problem = make_problem(RAGGED["two_plain"])
    ops._say_portable.cache_clear()
    for _ in range(3):
        run(problem)
    (said,) = [w for w in recwarn if w.category is RuntimeWarning]
    assert str(said.message) == "ragged_attention takes its portable path: q is a CPU tensor"
    assert said.filename.endswith("support.py")  # the caller of the public function
