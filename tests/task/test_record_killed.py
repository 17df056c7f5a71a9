"""Records that are killed: at random moments, before every step, while selfcheck runs."""

import os
import random
import shutil
import signal
import time

import pytest
from versions import SUBJECT, edit, figures, log_of, make_tree, record_in
from vjp_task import audit
from vjp_task.experiment_log import read_rows
from vjp_task.record import Outcome, record, run_selfcheck

KILLS = 60


@pytest.fixture
def methods(tmp_path):
    return make_tree(tmp_path)


def run_killed(action, kill):
    """Runs `action` in a process that `kill` ends; whether it ended by itself before that."""
    process = os.fork()
    if process == 0:
        try:
            action()
        finally:
            os._exit(0)
    kill(process)
    _, status = os.waitpid(process, 0)
    assert os.WIFEXITED(status) or os.WTERMSIG(status) == signal.SIGKILL
    return os.WIFEXITED(status)


def slow_record(methods):
    """A record whose parts take milliseconds, as its files' writing does."""

    def evaluate(solver):
        time.sleep(0.01)
        return Outcome(0, figures())

    record(methods, SUBJECT, evaluate, note=f"by {os.getpid()}")


def finished_lines(methods):
    rows = read_rows(log_of(methods))
    return [row.to_line() for row in rows if row.status != "running"]


def assert_sound(methods, earlier):
    """The log is canonical, nothing earlier changed, and what is in it has its snapshot."""
    assert finished_lines(methods)[: len(earlier)] == earlier
    for row in read_rows(log_of(methods)):
        assert row.status != "running" or (row.finished, row.result) == ("", "unfinished")
    problems = audit.audit(methods.parent)
    assert {rule: faults for rule, faults in problems.items() if faults and rule != "main"} == {}


def test_killed_at_random_moments(methods):
    """Rows are never lost, changed or doubled, and the next number follows."""
    start = time.perf_counter()
    assert run_killed(lambda: slow_record(methods), lambda process: None)
    longest = 1.5 * (time.perf_counter() - start)
    killed = 0
    seed = random.Random(7)
    for _ in range(KILLS):
        edit(methods)
        earlier, count = finished_lines(methods), len(read_rows(log_of(methods)))

        def kill(process):
            time.sleep(seed.uniform(0, longest))
            os.kill(process, signal.SIGKILL)

        killed += not run_killed(lambda: slow_record(methods), kill)
        assert_sound(methods, earlier)
        assert len(read_rows(log_of(methods))) - count in (0, 1)
    assert killed >= 10  # most, but a machine may be busy while the first is timed
    rows = read_rows(log_of(methods))
    assert {row.status for row in rows} == {"kept", "running"}
    assert record_in(methods).version == f"v{len(rows)}"
    assert audit.audit(methods.parent)["main"] == []


def test_killed_before_every_step(methods):
    """The same before each call that changes a file or a folder."""

    def count_down(steps, real):
        def call(*arguments, **options):
            steps[0] -= 1
            if steps[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments, **options)

        return call

    def killed_at(step):
        steps = [step]
        for module, names in ((os, ("replace", "fsync", "mkdir", "open")), (shutil, ("rmtree",))):
            for name in names:
                setattr(module, name, count_down(steps, getattr(module, name)))
        record_in(methods, note=f"killed at {step}")

    for step in range(100):
        edit(methods)
        earlier = finished_lines(methods)
        done = run_killed(lambda step=step: killed_at(step), lambda process: None)
        assert_sound(methods, earlier)
        if done:
            break
    assert 15 < step < 99
    statuses = [row.status for row in read_rows(log_of(methods))]
    assert statuses.count("running") > 3
    assert statuses[-1] == "kept"


def test_selfcheck_ends_with_a_record_that_is_killed(tmp_path):
    """Nothing goes on measuring for a row that nobody will complete."""
    told, solver = tmp_path / "pid", tmp_path / "solver.py"
    solver.write_text(
        f"import os, pathlib, time\n\npathlib.Path({str(told)!r}).write_text(str(os.getpid()))\n"
        "time.sleep(600)\n"
    )

    def kill(process):
        wait_until(told.exists)
        os.kill(process, signal.SIGKILL)

    assert not run_killed(lambda: run_selfcheck(solver, ["--device", "cpu"]), kill)
    wait_until(lambda: not alive(int(told.read_text())))


def alive(process):
    """Whether a process runs; one that has ended and waits for its parent does not."""
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until(happened):
    end = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.02)
