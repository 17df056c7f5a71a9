"""What only shows while a solver runs; and honest unusual solvers that pass."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from conftest import run_in
from submissions import DYNAMIC, HONEST, lay_out
from vjp_task.panel import load_visible_panel, scaled


@pytest.fixture(scope="module")
def outcomes(request, harness_root, tiny_cases, tmp_path_factory):
    """Outcomes of all submissions that are asked for, two at a time."""
    tests = (test_cheat_is_caught_while_it_runs, test_honest_solver_passes)
    here = [item for item in request.session.items if getattr(item, "function", None) in tests]
    top = tmp_path_factory.mktemp("submissions")

    def run(name):
        folder = top / f"run_{name}"
        folder.mkdir()
        return run_in(folder, harness_root, lay_out(name, top), tiny_cases[0])

    names = [item.callspec.params["name"] for item in here]
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(names, pool.map(run, names), strict=True))


@pytest.mark.parametrize("name", DYNAMIC)
def test_cheat_is_caught_while_it_runs(name, outcomes):
    what, reason = DYNAMIC[name]
    outcome = outcomes[name]
    assert outcome.what == what, outcome.reason
    assert reason in outcome.reason
    assert outcome.timing is None
    if outcome.findings:
        assert {finding["rule"] for finding in outcome.findings} == {what}


@pytest.mark.parametrize("name", HONEST)
def test_honest_solver_passes(name, outcomes):
    outcome = outcomes[name]
    assert outcome.passed, f"{outcome.what}: {outcome.reason}\n{outcome.log}"
    assert outcome.findings == ()
    assert outcome.timing["samples"] == 3
    assert 0 < outcome.timing["min_ms"] <= outcome.timing["median_ms"] <= outcome.timing["max_ms"]


@pytest.mark.gpu
def test_work_left_on_another_stream_is_waited_for(write_solver, harness_root, tmp_path):
    submission = write_solver(
        "with torch.cuda.stream(side): torch.cuda._sleep(40_000_000)",
        at_import="side = torch.cuda.Stream()",
    )
    spec, device = scaled(load_visible_panel().cases[3], 0.02), torch.device("cuda", 0)
    outcome = run_in(tmp_path, harness_root, submission, spec, samples=5, device=device)
    assert outcome.passed, f"{outcome.what}: {outcome.reason}\n{outcome.log}"
    assert outcome.timing["min_ms"] > 10
