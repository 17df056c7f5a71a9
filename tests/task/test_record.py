"""Recording versions: the row, the snapshot, the result; and kills at any moment."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from versions import SUBJECT, commit_all, edit, figures, git, make_tree, record_in
from vjp_task import audit, durable, paths
from vjp_task.cli import main
from vjp_task.experiment_log import Row, append_row, complete_row, read_rows
from vjp_task.record import Outcome, record, run_selfcheck
from vjp_task.solver import file_digest

KILLS = 60


@pytest.fixture
def methods(tmp_path):
    return make_tree(tmp_path)


def log_of(methods):
    return methods / "experiment_log.md"


def test_row_and_snapshot_are_there_before_the_evaluation(methods):
    seen = []

    def evaluate(solver):
        row = read_rows(log_of(methods))[-1]
        seen.append((row, solver.read_bytes(), sorted(f.name for f in solver.parent.iterdir())))
        return Outcome(0, figures(3.456))

    before = log_of(methods).read_text()
    row = record(methods, SUBJECT, evaluate, note="faster", status="kept")
    ((during, solver, files),) = seen
    assert (during.version, during.status, during.result) == ("v1", "running", "unfinished")
    assert (during.finished, during.note, during.card) == ("", "faster", "a card")
    assert solver == (methods / "main" / "solver.py").read_bytes()
    assert files == ["manifest.json", "solver.py"]
    assert row == replace(
        during, status="kept", finished=row.finished, result="geometric mean 3.46x"
    )
    assert log_of(methods).read_text() == f"{before}{row.to_line()}\n"
    assert [r.version for r in read_rows(log_of(methods))] == ["v0", "v1"]


def test_snapshot_says_what_was_evaluated(methods, tmp_path):
    source = tmp_path / "kernel.cu"
    source.write_text("kernel")
    module = tmp_path / "_native.so"
    module.write_bytes(b"module")
    subject = replace(SUBJECT, module=module, sources={"cutlass_kernels/kernel.cu": source})
    record(methods, subject, lambda solver: Outcome(0, figures()))
    folder = methods / "versions" / "v1"
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["version"] == "v1"
    assert manifest["commit"] == "0123456789ab"
    assert manifest["solver_sha256"] == file_digest(methods / "main" / "solver.py")
    assert manifest["module"]["file"] == "_native.so"
    assert manifest["module"]["sha256"] == file_digest(module)
    assert manifest["sources"] == {"cutlass_kernels/kernel.cu": file_digest(source)}
    result = json.loads((folder / "result.json").read_text())
    assert result["geometric_mean"] == 2.0
    # the row itself made the tree differ from its commit while selfcheck ran
    assert result["commit"] == result["machine"]["commit"] == "0123456789ab"


@pytest.mark.parametrize(
    ("outcome", "result"),
    [
        (Outcome(1, figures(failure="above")), "FAILED one: dq: above"),
        (Outcome(1, figures(failure="a|b\nc")), "FAILED one: dq: a/b c"),
        (Outcome(1, figures(failure="x" * 999)), f"FAILED one: dq: {'x' * 141}..."),
        (Outcome(2, None), "no result: selfcheck ended with exit code 2"),
        (Outcome(-11, None), "no result: selfcheck ended with signal 11"),
        (Outcome(1, figures()), "FAILED: selfcheck passed every case and then ended with an err"),
    ],
    ids=["output", "separators", "long", "exit", "crash", "late"],
)
@pytest.mark.parametrize("status", ["kept", "failed"])
def test_a_failure_is_recorded(methods, outcome, result, status):
    record(methods, SUBJECT, lambda solver: outcome, status=status)
    row = read_rows(log_of(methods))[-1]
    assert row.status == "failed"
    assert row.result.startswith(result)
    assert (methods / "versions" / "v1" / "result.json").exists() == bool(outcome.figures)


def test_more_than_one_failed_case_is_counted(methods):
    failed = figures(failure="above")
    failed["cases"] = failed["cases"] * 3
    record(methods, SUBJECT, lambda solver: Outcome(1, failed))
    assert read_rows(log_of(methods))[-1].result == "FAILED one: dq: above, and 2 more cases"


def test_a_reduced_run_says_so(methods):
    reduced = {**figures(), "scale": 0.15}
    record(methods, SUBJECT, lambda solver: Outcome(0, reduced), note="try")
    row = read_rows(log_of(methods))[-1]
    assert row.note == "try [lengths and batch times 0.15]"
    assert row.result == "geometric mean 2.00x"


def test_an_interrupt_is_recorded(methods):
    def interrupted(solver):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        record(methods, SUBJECT, interrupted)
    row = read_rows(log_of(methods))[-1]
    assert (row.status, row.result) == ("failed", "no result: interrupted")
    assert record_in(methods).version == "v2"


def test_two_records_at_a_time_are_refused(methods):
    refused = []

    def evaluate(solver):
        with pytest.raises(ValueError) as error:
            record_in(methods)
        refused.append(str(error.value))
        return Outcome(0, figures())

    assert record(methods, SUBJECT, evaluate).version == "v1"
    assert refused == ["record: another one is running in methods; wait until it has ended"]
    assert record_in(methods).version == "v2"


def test_a_log_that_is_not_canonical_is_left_alone(methods):
    text = log_of(methods).read_text().replace("| kept |", "| good |")
    log_of(methods).write_text(text)
    with pytest.raises(ValueError, match=r"^experiment log: .*; a row of version, .* is needed$"):
        record_in(methods)
    assert log_of(methods).read_text() == text
    assert not (methods / "versions" / "v1").exists()


def test_only_the_last_running_row_is_completed(methods):
    log = log_of(methods)
    row = read_rows(log)[0]
    with pytest.raises(ValueError) as error:
        complete_row(log, replace(row, result="geometric mean 9.00x"))
    assert str(error.value) == (
        "experiment log: v0 to complete; the last row, still running, is needed"
    )
    with pytest.raises(ValueError) as error:
        append_row(log, replace(row, version="v3"))
    assert str(error.value) == "experiment log: v3 to append; v1 is needed"
    append_row(log, replace(row, version="v1", status="running"))
    append_row(log, replace(row, version="v2", status="running"))
    with pytest.raises(ValueError, match=r"^experiment log: v1 to complete; "):
        complete_row(log, replace(row, version="v1"))


def test_text_below_the_table_stays_there(methods):
    log = log_of(methods)
    log.write_text(log.read_text() + "\nMore prose.\n")
    record_in(methods)
    assert log.read_text().endswith("\n\nMore prose.\n")
    assert len(read_rows(log)) == 2


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


def test_a_half_made_snapshot_is_replaced(methods):
    for name in ("v1", ".next"):
        folder = methods / "versions" / name
        folder.mkdir()
        (folder / "rubbish").write_text("half")
    assert record_in(methods).version == "v1"
    assert sorted(f.name for f in (methods / "versions" / "v1").iterdir()) == [
        *("manifest.json", "result.json", "solver.py")
    ]
    assert not (methods / "versions" / ".next").exists()


def test_durable_text_is_whole_or_as_before(tmp_path, monkeypatch):
    file = tmp_path / "file"
    durable.write_text(file, "old\n")
    monkeypatch.setattr(os, "fsync", lambda handle: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        durable.write_text(file, "new\n")
    assert file.read_text() == "old\n"


def test_selfcheck_that_crashes_gives_its_signal(tmp_path):
    """In a process of its own: the record goes on."""
    solver = tmp_path / "solver.py"
    solver.write_text("import os\n\nos.kill(os.getpid(), 11)\n")
    assert run_selfcheck(solver, ["--device", "cpu", "--scale", "0.01"]) == Outcome(-11, None)


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


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """A git repository of what recording needs."""
    top = tmp_path_factory.mktemp("clone")
    for name in ("python", "cutlass_kernels", "problems", "selfcheck.py"):
        source = paths.repository() / name
        ignored = shutil.ignore_patterns("__pycache__", "*.so")
        if source.is_dir():
            shutil.copytree(source, top / name, ignore=ignored)
        else:
            shutil.copy(source, top / name)
    methods = make_tree(top)
    for name in ("baseline", "main"):
        shutil.copy(paths.methods() / name / "solver.py", methods / name)
    shutil.copy(paths.baseline_solver(), methods / "versions" / "v0")
    solver = methods / "versions" / "v0" / "solver.py"
    log = log_of(methods)
    row = replace(read_rows(log)[0], solver_sha256=file_digest(solver))
    log.write_text("\n".join([*log.read_text().splitlines()[:-1], row.to_line()]) + "\n")
    manifest = solver.with_name("manifest.json")
    text = re.sub(r'("solver_sha256": )"\w+"', rf'\1"{file_digest(solver)}"', manifest.read_text())
    manifest.write_text(text)
    (top / ".gitignore").write_text("__pycache__\n")
    commit_all(top)
    return top


def command(clone, *words):
    """Runs a command of the clone's own package, in the clone."""
    environment = {**os.environ, "PYTHONPATH": str(clone / "python"), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "-m", "vjp_task", *words],
        cwd=clone,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_record_then_audit_from_end_to_end(clone):
    """The real selfcheck on the real solver, then the audit, before and after a commit."""
    head = git(clone, "rev-parse", "--short=12", "HEAD")
    done = command(
        clone, "record", "--device", "cpu", "--scale", "0.01", "--note", "the first | one"
    )
    assert done.returncode == 0, done.stderr
    row = read_rows(log_of(clone / "methods"))[-1]
    assert re.fullmatch(r"geometric mean \d+\.\d\dx", row.result)
    assert f"recorded v1 as kept: {row.result}" in done.stdout
    assert row.note == "the first / one [lengths and batch times 0.01]"
    assert row.commit == head
    manifest = json.loads((clone / "methods/versions/v1/manifest.json").read_text())
    assert "cutlass_kernels/score.h" in manifest["sources"]
    assert "python/ragged_attention/native.py" in manifest["sources"]
    assert "python/bindings/module.cpp" in manifest["sources"]
    result = json.loads((clone / "methods/versions/v1/result.json").read_text())
    assert len(result["cases"]) == 6
    assert f"geometric mean {result['geometric_mean']:.2f}x" == row.result

    for commit in (False, True):
        if commit:
            commit_all(clone)
        done = command(clone, "audit")
        assert done.returncode == 0, done.stdout
        assert [line.split() for line in done.stdout.splitlines()] == [
            [rule, "ok"] for rule in audit.RULES
        ]


def test_wrong_calls_say_so(capsys, monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert main(["record", "--device", "cuda"]) == 2
    assert capsys.readouterr().err == (
        "error: device: cuda, but torch sees no GPU; cpu or auto is needed\n"
    )


def test_row_of_a_status_that_nobody_knows_is_not_read():
    row = Row("v1", "a", "", "running", "c", "d", "e", "unfinished", "")
    with pytest.raises(ValueError, match="a row of version"):
        Row.from_line(replace(row, status="paused").to_line())
