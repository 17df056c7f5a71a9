"""Records the current solver as the next version: its row, its snapshot, its result.

The row is in methods/experiment_log.md, and the snapshot in methods/versions/vN/, before selfcheck
runs on that very snapshot; then the row gets the geometric mean, or what failed. A run that is
killed leaves its row `running` and `unfinished`, and the next run takes the next number.
"""

import argparse
import datetime
import fcntl
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vjp_task import durable, machine, paths, selfcheck
from vjp_task.experiment_log import UNFINISHED, Row, append_row, complete_row, read_rows
from vjp_task.manifest import FILE, make_manifest, operator_module, operator_sources, to_text
from vjp_task.solver import file_digest

HELP = "append a version to the experiment log, snapshot it and run selfcheck on it"

RESULT_FILE = "result.json"  # selfcheck's figures, in a version's folder
STAGING = ".next"  # where a snapshot is made before it gets its number

_MAX_REASON = 160  # characters of a failure in the log; the whole is in RESULT_FILE


@dataclass(frozen=True)
class Subject:
    """What a record is of, apart from the solver."""

    card: str
    commit: str | None
    module: Path | None
    sources: dict[str, Path]  # by path in the repository


@dataclass(frozen=True)
class Outcome:
    """What an evaluation gave."""

    exit_code: int  # negative: the signal that ended it
    figures: dict[str, Any] | None  # selfcheck's JSON; None where it wrote none


Evaluate = Callable[[Path], Outcome]  # takes the solver file


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("--note", default="", help="what this version changes and why")
    parser.add_argument(
        "--status",
        choices=("kept", "reverted", "failed"),
        default="kept",
        help="what becomes of it if selfcheck passes; failed where it does not (default: kept)",
    )
    parser.add_argument(
        "--device", choices=("auto", "cuda", "cpu"), default="auto", help="as in selfcheck"
    )
    parser.add_argument("--scale", type=float, metavar="F", help="as in selfcheck")


def run(arguments: argparse.Namespace) -> int:
    """Records the current solver: 0 if selfcheck passed, 1 if not, 2 for a wrong call."""
    options = ["--device", arguments.device]
    options += [] if arguments.scale is None else ["--scale", f"{arguments.scale:g}"]
    try:
        device = selfcheck.choose_device(arguments.device)
        facts = machine.describe(device)
        subject = Subject(facts["card"], facts["commit"], operator_module(), operator_sources())
        row = record(
            paths.methods(),
            subject,
            lambda solver: run_selfcheck(solver, options),
            arguments.note,
            arguments.status,
        )
    except (ValueError, FileNotFoundError, ImportError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("error: record: interrupted; its row says so", file=sys.stderr)
        return 130
    print(f"recorded {row.version} as {row.status}: {row.result}")
    return 1 if row.status == "failed" else 0


def record(
    methods: Path, subject: Subject, evaluate: Evaluate, note: str = "", status: str = "kept"
) -> Row:
    """Appends a row, saves the snapshot, evaluates it and completes the row, which it returns.

    Raises ValueError where the log is not canonical or another record is running.
    """
    with _alone(methods):
        log, solver = methods / "experiment_log.md", methods / "main" / "solver.py"
        row = Row(
            version=f"v{len(read_rows(log))}",
            started=_now(),
            finished="",
            status="running",
            card=subject.card,
            commit=subject.commit or "",
            solver_sha256=file_digest(solver),
            result=UNFINISHED,
            note=note,
        )
        folder = _snapshot(methods / "versions", row, solver, subject)
        append_row(log, row)
        try:
            outcome = evaluate(folder / "solver.py")
        except KeyboardInterrupt:
            result = "no result: interrupted"
            complete_row(log, replace(row, finished=_now(), status="failed", result=result))
            raise
        row = _completed(row, status, outcome)
        if outcome.figures:
            figures = _with_commit(outcome.figures, subject.commit)
            durable.write_text(folder / RESULT_FILE, json.dumps(figures, indent=2) + "\n")
        complete_row(log, row)
        return row


def run_selfcheck(solver: Path, options: list[str]) -> Outcome:
    """selfcheck in a process of its own, which ends with this one."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "figures.json"
        script = paths.repository() / "selfcheck.py"
        command = [sys.executable, str(script), "--solver", str(solver), "--json", str(file)]
        print(f"running selfcheck.py {shlex.join(command[2:4] + options)}", flush=True)
        done = subprocess.run([*command, *options], preexec_fn=_die_with_parent)
        try:
            figures = json.loads(file.read_text())
        except (FileNotFoundError, ValueError):  # it ended before the file was written, or whole
            figures = None
    return Outcome(done.returncode, figures)


@contextmanager
def _alone(methods: Path) -> Iterator[None]:
    """Holds the folder of methods for one record; the lock ends with the process."""
    handle = os.open(methods, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(
                f"record: another one is running in {methods.name}; wait until it has ended"
            ) from None
        yield
    finally:
        os.close(handle)


def _snapshot(versions: Path, row: Row, solver: Path, subject: Subject) -> Path:
    """The version's folder, complete on the disk; one that never got its row is replaced."""
    versions.mkdir(exist_ok=True)
    staging, folder = versions / STAGING, versions / row.version
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir()
    copy = staging / "solver.py"
    durable.copy_file(solver, copy)
    manifest = make_manifest(row.version, subject.commit, copy, subject.module, subject.sources)
    if manifest["solver_sha256"] != row.solver_sha256:
        raise ValueError(f"solver: {solver.name} changed while it was copied; one state is needed")
    durable.write_text(staging / FILE, to_text(manifest))
    durable.move_folder(staging, folder)
    return folder


def _completed(row: Row, status: str, outcome: Outcome) -> Row:
    figures = outcome.figures
    note = row.note
    if figures is None:
        code = outcome.exit_code
        how = f"exit code {code}" if code >= 0 else f"signal {-code}"
        status, result = "failed", f"no result: selfcheck ended with {how}"
    elif figures["passed"] and outcome.exit_code == 0:
        result = f"geometric mean {figures['geometric_mean']:.2f}x"
    else:
        status, result = "failed", _first_failure(figures)
    if figures and figures["scale"] != 1:
        note = f"{note} [lengths and batch times {figures['scale']:g}]".strip()
    return replace(row, finished=_now(), status=status, result=result, note=note)


def _first_failure(figures: dict[str, Any]) -> str:
    failed = [case for case in figures["cases"] if not case["passed"]]
    if not failed:
        return "FAILED: selfcheck passed every case and then ended with an error"
    case, others = failed[0], len(failed) - 1
    text = f"FAILED {case['name']}: {case['failure']['what']}: {case['failure']['reason']}"
    text = text if len(text) <= _MAX_REASON else text[: _MAX_REASON - 3] + "..."
    return text + (f", and {others} more cases" if others else "")


def _with_commit(figures: dict[str, Any], commit: str | None) -> dict[str, Any]:
    """The figures with the commit as it was before the row: the row itself makes a tree dirty."""
    return {**figures, "commit": commit, "machine": {**figures["machine"], "commit": commit}}


def _die_with_parent() -> None:
    """Asks Linux to kill this process when the one that started it ends."""
    import ctypes
    import signal

    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def _now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
