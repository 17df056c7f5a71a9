"""A small tree of methods, and records into it without selfcheck, for the tests of the log."""

import itertools
import subprocess
from pathlib import Path
from typing import Any

from vjp_task.experiment_log import Row, header_lines
from vjp_task.manifest import make_manifest, to_text
from vjp_task.record import Outcome, Subject, record
from vjp_task.solver import file_digest

SUBJECT = Subject("a card", "0123456789ab", None, {})


def make_tree(top: Path) -> Path:
    """A repository with a baseline, its row v0 and its snapshot; returns the folder of methods."""
    methods = top / "methods"
    for folder in ("baseline", "main", "versions/v0"):
        (methods / folder).mkdir(parents=True)
    for folder in ("baseline", "versions/v0"):
        (methods / folder / "solver.py").write_text("BASELINE = True\n")
    (methods / "main" / "solver.py").write_text("VERSION = 1\n")
    solver = methods / "versions" / "v0" / "solver.py"
    (solver.parent / "manifest.json").write_text(to_text(make_manifest("v0", "a1b2c3d", solver)))
    time = "2030-01-02T03:04:05+00:00"
    row = Row(
        *("v0", time, time, "kept", "any", "a1b2c3d"),
        *(file_digest(solver), "geometric mean 1.00x", "the baseline"),
    )
    lines = ["# Log", "", "Prose.", "", *header_lines(), row.to_line()]
    log_of(methods).write_text("\n".join(lines) + "\n")
    return methods


def log_of(methods: Path) -> Path:
    """The tree's experiment log."""
    return methods / "experiment_log.md"


def figures(mean: float = 2.0, failure: str = "") -> dict[str, Any]:
    """What selfcheck writes, as far as it matters here."""
    case = {"name": "one", "passed": not failure, "speedup": None if failure else mean}
    case["failure"] = {"what": "dq", "reason": failure} if failure else None
    return {
        "geometric_mean": 0.0 if failure else mean,
        "passed": not failure,
        "scale": 1.0,
        "commit": "0123456789ab-dirty",
        "machine": {"commit": "0123456789ab-dirty"},
        "cases": [case],
    }


def record_in(methods: Path, mean: float = 2.0, failure: str = "", **options: Any) -> Row:
    """Records the tree's main solver with a result that is made up."""
    outcome = Outcome(1 if failure else 0, figures(mean, failure))
    return record(methods, SUBJECT, lambda solver: outcome, **options)


def edit(methods: Path) -> None:
    """Makes the main solver another one."""
    solver = methods / "main" / "solver.py"
    solver.write_text(f"VERSION = {next(_EDITS)}\n")


def commit_all(top: Path) -> str:
    """Commits everything in the tree, which becomes a git repository; returns the short hash."""
    if not (top / ".git").exists():
        git(top, "init", "-q")
    git(top, "add", "-A")
    git(top, "commit", "-q", "-m", "all")
    return git(top, "rev-parse", "--short=12", "HEAD")


def git(top: Path, *arguments: str) -> str:
    """Runs git in the tree."""
    identity = ("-c", "user.name=n", "-c", "user.email=e@example.org")
    command = ["git", "-C", str(top), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


_EDITS = itertools.count(2)
