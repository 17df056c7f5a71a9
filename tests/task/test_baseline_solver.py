"""The eager baseline: right by the tolerance rule, frozen, recorded as v0."""

import pytest
import torch
from ragged_attention import reference, tolerance
from support import RAGGED, make_problem
from vjp_task import paths
from vjp_task.solver import ENTRY_POINT, file_digest, load_solver

BASELINE = load_solver(paths.baseline_solver())

# Changing the baseline would change what every recorded speedup means.
FROZEN = "14fa006f6c9adb10dc728bf82377e678db18593078741bba3595bff2fb5ae5d4"


def twin(problem, dtype):
    names = ("q", "k", "v", "cu_q", "cu_k", "alibi_slopes", "dout")
    tensors = [problem[name] for name in names]
    tensors = [t.to(dtype) if t is not None and t.is_floating_point() else t for t in tensors]
    return reference.full_vjp(*tensors, problem["softcap"], problem["scale_multiplier"])


@pytest.mark.parametrize("case", RAGGED)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_baseline_is_right_by_the_rule(case, dtype):
    problem = make_problem(RAGGED[case], dtype=dtype)
    got = BASELINE(**problem)
    verdicts = tolerance.check_all(got, twin(problem, torch.float64), twin(problem, dtype))
    assert [verdict.reason for verdict in verdicts] == ["", "", "", ""]


@pytest.mark.parametrize("options", [{"softcap": 0.0}, {"slope_sign": 0}, {"slope_sign": -1.0}])
def test_baseline_without_cap_or_with_other_slopes(options):
    problem = make_problem(RAGGED["two_plain"], **options)
    got = BASELINE(**problem)
    verdicts = tolerance.check_all(got, twin(problem, torch.float64), twin(problem, torch.float16))
    assert [verdict.reason for verdict in verdicts] == ["", "", "", ""]


def test_baseline_works_where_gradients_are_off():
    problem = make_problem(RAGGED["two_plain"])
    wanted = BASELINE(**problem)
    with torch.no_grad():
        got = BASELINE(**problem)
    assert all(torch.equal(a, b) for a, b in zip(got, wanted, strict=True))
    assert not any(t.requires_grad for t in got)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"causal": True}, "causal: True; False is needed"),
        ({"window_left": 4}, "window_left: 4; -1 is needed"),
        ({"window_right": 0}, "window_right: 0; -1 is needed"),
    ],
)
def test_baseline_refuses_masks(change, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        BASELINE(**{**make_problem([(3, 4)]), **change})


def test_baseline_is_frozen_and_version_0():
    assert file_digest(paths.baseline_solver()) == FROZEN
    assert file_digest(paths.repository() / "methods" / "versions" / "v0" / "solver.py") == FROZEN


def test_load_solver_says_what_is_missing(tmp_path):
    empty = tmp_path / "solver.py"
    empty.write_text("x = 1\n")
    with pytest.raises(
        ValueError, match=f"^solver: solver.py has no function {ENTRY_POINT}; one is needed$"
    ):
        load_solver(empty)
    text = tmp_path / "solver.txt"
    text.write_text("hello")
    with pytest.raises(ValueError, match=r"^solver: solver\.txt; a Python file is needed$"):
        load_solver(text)


def test_load_solver_finds_modules_beside_it_and_leaves_the_path_alone(tmp_path):
    import sys

    (tmp_path / "own_helper_of_a_solver.py").write_text("def answer(*arguments): return 42\n")
    solver = tmp_path / "solver.py"
    solver.write_text(f"from own_helper_of_a_solver import answer as {ENTRY_POINT}\n")
    before = list(sys.path)
    assert load_solver(solver)() == 42
    assert sys.path == before
