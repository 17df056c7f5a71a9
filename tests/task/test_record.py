"""Recording versions: the row, the snapshot, the result."""

import json
import os
from dataclasses import replace

import pytest
from versions import SUBJECT, figures, log_of, make_tree, record_in
from vjp_task import durable
from vjp_task.experiment_log import Row, append_row, complete_row, read_rows
from vjp_task.record import Outcome, record
from vjp_task.solver import file_digest


@pytest.fixture
def methods(tmp_path):
    return make_tree(tmp_path)


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


def test_row_of_a_status_that_nobody_knows_is_not_read():
    row = Row("v1", "a", "", "running", "c", "d", "e", "unfinished", "")
    with pytest.raises(ValueError, match="a row of version"):
        Row.from_line(replace(row, status="paused").to_line())
