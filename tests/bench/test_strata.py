"""One run of all methods on small cases on the CPU: checked first, then timed."""

import dataclasses

import pytest
import torch
from bench_samples import CASES, CEILINGS
from ragged_attention import reference
from ragged_attention.bench import checking
from ragged_attention.bench.inputs import make_problem
from ragged_attention.bench.methods import METHODS
from ragged_attention.bench.methods.method import Method
from ragged_attention.bench.strata import Options, run_stratum

CPU = torch.device("cpu")


def of(call, **changes) -> Method:
    """A method that runs anywhere: `call(problem)` gives its results."""
    method = Method("mine", lambda device: "", lambda problem: lambda: call(problem), lambda: "7")
    return dataclasses.replace(method, **{"samples": 4, **changes})


def twin(problem):
    tensors = (problem.q, problem.k, problem.v, problem.cu_q, problem.cu_k, problem.alibi_slopes)
    spec = problem.spec
    return reference.full_vjp(*tensors, problem.dout, spec.softcap, spec.scale_multiplier)


def run(method, **options):
    found = run_stratum(CASES[0], [method], CPU, CEILINGS, Options(**options))
    return found["methods"]["mine"]


def test_right_method_is_timed():
    entry = run(of(twin))
    assert entry["status"] == "timed"
    assert entry["ok"] is True
    assert entry["samples"] == 4
    assert 0 < entry["ms_min"] <= entry["ms"] <= entry["ms_max"]
    assert set(entry["errors"]) == set(entry["budgets"]) == {"out", "dq", "dk", "dv"}
    assert all(0 < entry["errors"][n] <= entry["budgets"][n] for n in entry["errors"])
    assert entry["version"] == "7"


def test_quick_takes_three_samples():
    assert run(of(twin), quick=True)["samples"] == 3


@pytest.mark.parametrize("index", range(4), ids=["out", "dq", "dk", "dv"])
def test_wrong_method_is_refused_before_timing(index):
    calls = 0

    def wrong(problem):
        nonlocal calls
        calls += 1
        results = list(twin(problem))
        results[index] = results[index] * 1.02
        return tuple(results)

    entry = run(of(wrong))
    assert entry["status"] == "wrong"
    assert entry["ok"] is False
    assert entry["ms"] is None
    assert entry["reason"].startswith(("out", "dq", "dk", "dv")[index] + ": relative error")
    assert calls == 1  # the check alone
    timed = run(of(wrong), time_wrong=True)
    assert timed["status"] == "wrong, timed"
    assert timed["ok"] is False
    assert timed["ms"] > 0


def test_nan_is_refused_and_no_number_in_json():
    entry = run(of(lambda problem: tuple(x * torch.nan for x in twin(problem))))
    assert entry["ok"] is False
    assert set(entry["errors"].values()) == {None}


def test_method_that_raises_has_failed():
    def broken(problem):
        raise RuntimeError("no such kernel")

    entry = run(of(broken))
    assert (entry["status"], entry["ok"], entry["ms"]) == ("failed", None, None)
    assert entry["reason"] == "RuntimeError: no such kernel"


def test_wrong_shape_or_dtype_is_named():
    assert run(of(lambda p: tuple(x[1:] for x in twin(p))))["reason"].startswith(
        "ValueError: out: shape torch.Size([13, 3, 160]); needed is torch.Size([14, 3, 160])"
    )
    assert run(of(lambda p: tuple(x.float() for x in twin(p))))["reason"] == (
        "ValueError: out: dtype torch.float32; needed is torch.float16"
    )


def test_absent_method_is_named_and_never_prepared():
    method = of(twin, missing=lambda device: f"not on {device.type}", prepare=pytest.fail)
    entry = run(method)
    assert (entry["status"], entry["reason"]) == ("absent", "not on cpu")
    assert (entry["ok"], entry["ms"], entry["errors"]) == (None, None, None)


def test_method_that_is_not_asked_for():
    assert run(of(twin, by_default=False))["status"] == "not run"
    assert run(of(twin, by_default=False), asked_for=True)["status"] == "timed"


def test_stratum_has_its_numbers():
    steps = []
    found = run_stratum(CASES[1], [of(twin)], CPU, CEILINGS, Options(), steps.append)
    assert steps == ["two_bf16: truth", "two_bf16: mine", "two_bf16: timing"]
    assert found["name"] == "two_bf16"
    assert found["logits"] == 2 * (4 * 40 + 7 * 3)
    assert found["bytes"] == 4 * 2 * 160 * (11 * 2 + 43)
    assert found["floor_ms"] == pytest.approx(1e3 * found["bytes"] / 4.3e12)
    assert found["bound"] == "memory"
    entry = found["methods"]["mine"]
    assert entry["of_floor"] == pytest.approx(found["floor_ms"] / entry["ms"])
    assert entry["tflops"] == pytest.approx(found["flop"] / entry["ms"] / 1e9)


def test_a_run_names_every_method(measured):
    for stratum in measured["strata"]:
        status = {name: entry["status"] for name, entry in stratum["methods"].items()}
        assert list(status) == list(METHODS)
        assert status["eager"] == status["packed_pytorch"] == "timed"
        assert status["flex_attention"] == "not run"
        for name in ("ours_sm90", "ours_sm86", "flash_attn_2", "flash_attn_cute"):
            assert status[name] == "absent"
            assert stratum["methods"][name]["reason"] == "needs a GPU, not cpu"


def test_truth_is_in_float64_and_the_budgets_source_is_not():
    truth = checking.truth_of(make_problem(CASES[0], CPU))
    assert {x.dtype for x in truth.exact} == {torch.float64}
    assert {x.dtype for x in truth.same_precision} == {torch.float16}


@pytest.mark.gpu
def test_all_methods_that_are_there_are_right_on_a_gpu():
    from ragged_attention.bench.ceilings import measure_ceilings

    device = torch.device("cuda", 0)
    ceilings = measure_ceilings(device)
    assert 10 < ceilings.mma_tflops < 5000
    assert 0.1 < ceilings.copy_tbps < 50
    found = run_stratum(CASES[0], list(METHODS.values()), device, ceilings, Options(quick=True))
    ours = found["methods"]["ours_sm86"]
    assert ours["status"] == "timed"
    assert ours["extra_memory_of_q"] >= 0
    assert sum(ours["kernels"].values()) == pytest.approx(1)
    assert ours["kernels"]["row_kernel"] > 0
    assert ours["kernels"]["key_kernel"] > 0
