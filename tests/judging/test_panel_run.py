"""The cases of a panel in turn: when processes start and end, and what is told of each case."""

import contextlib
import re

import pytest
from conftest import CPU, LIMITS
from vjp_task.sealed import conversation, panel_run
from vjp_task.sealed.process import Worker


@pytest.fixture
def events(monkeypatch):
    """What happens, in order; and the workers."""
    happened, workers = [], []

    class Watched(Worker):
        def __init__(self, harness, folder, *rest):
            happened.append(f"start {folder.name}")
            workers.append(self)
            super().__init__(harness, folder, *rest)

    def logged(name):
        real = getattr(conversation._Case, name)

        def call(case):
            real(case)
            happened.append(f"{name} {case.worker.folder.name}")

        monkeypatch.setattr(conversation._Case, name, call)

    monkeypatch.setattr(panel_run, "Worker", Watched)
    logged("time")
    logged("check_after")
    return happened, workers


def outcomes_of(tiny_cases, tmp_path, solver):
    (tmp_path / "root" / "submission").mkdir(parents=True)
    solver.rename(tmp_path / "root" / "submission" / "solver")
    return panel_run.run_cases(tiny_cases, tmp_path / "root", CPU, LIMITS, 3, 1)


def test_the_next_process_starts_once_nothing_is_timed(
    events, tiny_cases, tmp_path, write_solver, capsys
):
    happened, workers = events
    outcomes = list(outcomes_of(tiny_cases, tmp_path, write_solver()))
    assert [outcome.what for outcome in outcomes] == ["", ""]
    assert happened == [
        *("start case0", "time case0", "start case1", "check_after case0"),
        *("time case1", "check_after case1"),
    ]
    assert all(worker._process.poll() is not None for worker in workers)
    told = capsys.readouterr().err
    pattern = r"^h48_fp16_qlong: [\d.]+ ms, spread [\d.]+% \(import .* s, before .* s, timing .* s,"
    assert re.search(pattern, told, re.MULTILINE)
    assert set(outcomes[0].seconds) == {"import", "before", "timing", "after"}
    assert not list((tmp_path / "root").glob("case*"))


def test_a_caller_that_stops_leaves_no_process(events, tiny_cases, tmp_path, write_solver):
    happened, workers = events
    with contextlib.closing(outcomes_of(tiny_cases, tmp_path, write_solver())) as outcomes:
        assert next(outcomes).passed
    assert "start case1" in happened
    assert "time case1" not in happened
    assert all(worker._process.poll() is not None for worker in workers)


def test_a_failed_case_is_told_and_the_next_one_runs(
    events, tiny_cases, tmp_path, write_solver, capsys
):
    wrong = write_solver("dk = dk * (1 + (q.dtype == torch.float16))")
    first, second = outcomes_of(tiny_cases, tmp_path, wrong)
    assert (first.what, second.what) == ("dk", "")
    assert "h48_fp16_qlong: dk: relative error" in capsys.readouterr().err
    assert events[0][:2] == ["start case0", "start case1"]
