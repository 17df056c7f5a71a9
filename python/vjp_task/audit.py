"""Audits the experiment log, the recorded versions and the released solver.

Rules:
  rows        the log is canonical: v0, v1, ... without a gap, one form for every cell
  snapshots   every row has its folder in methods/versions/, and every folder its row
  digests     solver, manifest and row agree; sources are those of the commit, where git has it
  results     a finished row says `geometric mean <value>x`, as its result.json does, or what failed
  preserved   no finished row and no snapshot was changed or removed since it was committed
  main        methods/main/solver.py is, byte for byte, that of a version that was kept
"""

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from vjp_task import git, paths
from vjp_task.experiment_log import UNFINISHED, Row, read_rows
from vjp_task.manifest import read_manifest
from vjp_task.record import RESULT_FILE
from vjp_task.solver import file_digest

HELP = "check the experiment log, its snapshots and the released solver"

GEOMETRIC_MEAN = re.compile(r"geometric mean (\d+\.\d\d)x")
_FAILURE = re.compile(r"(FAILED .+: .+|no result: .+)", re.DOTALL)


@dataclass(frozen=True)
class Release:
    """What is audited."""

    top: Path  # the repository
    rows: list[Row]

    @property
    def versions(self) -> Path:
        """The folder of snapshots."""
        return self.top / "methods" / "versions"

    def folder(self, row: Row) -> Path:
        """The row's snapshot."""
        return self.versions / row.version


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options: none."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter


def run(arguments: argparse.Namespace) -> int:
    """Prints each rule's verdict: 0 if all hold, 1 if one does not."""
    problems = audit(paths.repository())
    for rule in RULES:
        faults = problems[rule]
        print(f"{rule:10} {'ok' if not faults else 'FAILED'}")
        for fault in faults:
            print(f"  {fault}")
    failed = [rule for rule in RULES if problems[rule]]
    if failed:
        print(f"audit FAILED: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def audit(top: Path) -> dict[str, list[str]]:
    """What breaks each rule, by rule; empty lists where all is well.

    Rows that cannot be read break the rule `rows` and leave the others unchecked.
    """
    problems: dict[str, list[str]] = {rule: [] for rule in RULES}
    try:
        release = Release(top, read_rows(top / paths.EXPERIMENT_LOG))
    except (ValueError, FileNotFoundError) as error:
        problems["rows"].append(str(error))
        return problems
    for rule, check in RULES.items():
        problems[rule] += check(release)
    return problems


def _rows(release: Release) -> Iterable[str]:
    """Beyond what reading them checks: times, digests, and that finished rows have both ends."""
    for row in release.rows:
        if (row.status == "running") != (row.finished == ""):
            yield f"{row.version}: status {row.status}, finished {row.finished or 'never'}"
        if not re.fullmatch(r"[0-9a-f]{64}", row.solver_sha256):
            yield f"{row.version}: solver SHA-256 {row.solver_sha256 or '-'}; 64 hex digits needed"
        for time in (row.started, row.finished):
            if time and not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", time):
                yield f"{row.version}: time {time}; ISO 8601 in UTC is needed"
        if row.finished and row.finished < row.started:
            yield f"{row.version}: finished {row.finished}, before it started {row.started}"


def _snapshots(release: Release) -> Iterable[str]:
    for row in release.rows:
        for name in ("solver.py", "manifest.json"):
            if not (release.folder(row) / name).is_file():
                yield f"{row.version}: no {name} in methods/versions/{row.version}"
    # A record that was killed before its row leaves the next number's folder; it is replaced.
    known = {row.version for row in release.rows} | {f"v{len(release.rows)}"}
    for folder in sorted(release.versions.glob("[!.]*")):
        if folder.name not in known:
            yield f"{folder.name}: in methods/versions, but the log has no such row"


def _digests(release: Release) -> Iterable[str]:
    in_git = git.is_checkout(release.top)
    for row in release.rows:
        folder = release.folder(row)
        try:
            manifest = read_manifest(folder)
            digest = file_digest(folder / "solver.py")
        except (ValueError, FileNotFoundError):
            continue  # the rule on snapshots, or the next lines of a readable one, say so
        for where, said in (("row", row.solver_sha256), ("manifest", manifest["solver_sha256"])):
            if said != digest:
                yield f"{row.version}: solver.py is {digest[:12]}, but its {where} says {said[:12]}"
        if manifest["version"] != row.version:
            yield f"{row.version}: its manifest is of {manifest['version']}"
        if (manifest["commit"] or "") != row.commit:
            yield f"{row.version}: commit {row.commit}, but its manifest says {manifest['commit']}"
        commit = row.commit
        if in_git and re.fullmatch(r"[0-9a-f]{7,40}", commit) and git.has(release.top, commit):
            there = git.digests_at(release.top, commit, manifest["sources"])
            for file, said in manifest["sources"].items():
                if there[file] != said:
                    yield f"{row.version}: {file} is not what commit {commit} has"


def _manifests(release: Release) -> Iterable[str]:
    for row in release.rows:
        if (release.folder(row) / "manifest.json").is_file():
            try:
                read_manifest(release.folder(row))
            except ValueError as error:
                yield str(error)


def _results(release: Release) -> Iterable[str]:
    baseline = release.top / "methods" / "baseline" / "solver.py"
    for row in release.rows:
        mean, file = GEOMETRIC_MEAN.fullmatch(row.result), release.folder(row) / RESULT_FILE
        if row.status == "running":
            if row.result != UNFINISHED:
                yield f"{row.version}: running, with result {row.result!r}; {UNFINISHED} is needed"
        elif not mean and not (row.status == "failed" and _FAILURE.fullmatch(row.result)):
            yield (
                f"{row.version}: {row.status}, with result {row.result!r}; "
                "'geometric mean <value>x', or for a failed one what failed, is needed"
            )
        elif mean and row.solver_sha256 == file_digest(baseline) and mean[1] == "1.00":
            continue  # by definition
        elif mean and not file.is_file():
            yield f"{row.version}: {row.result}, but no {RESULT_FILE} says so"
        elif mean:
            measured = json.loads(file.read_text())["geometric_mean"]
            if f"{measured:.2f}" != mean[1]:
                yield f"{row.version}: {row.result}, but {RESULT_FILE} says {measured:.2f}"


def _preserved(release: Release) -> Iterable[str]:
    if not git.is_checkout(release.top):
        return
    now = {row.to_line() for row in release.rows}
    changed: dict[str, str] = {}
    for commit, text in git.versions_of(release.top, paths.EXPERIMENT_LOG):
        for line in text.splitlines():
            try:
                row = Row.from_line(line)
            except ValueError:
                continue  # text, or the header
            if row.status != "running" and line not in now:
                changed.setdefault(row.version, commit)
    for version, commit in changed.items():
        yield f"{version}: its row is not what commit {commit} has"
    for file in git.rewritten(release.top, "methods/versions"):
        yield f"{file}: changed or removed since it was committed"


def _main(release: Release) -> Iterable[str]:
    solver = release.top / "methods" / "main" / "solver.py"
    if not solver.is_file():
        yield "methods/main: no solver.py"
        return
    digest = file_digest(solver)
    kept = {row.solver_sha256: row.version for row in release.rows if row.status == "kept"}
    if digest not in kept:
        yield f"methods/main/solver.py: {digest[:12]}; no version that was kept has these bytes"


RULES: dict[str, Callable[[Release], Iterable[str]]] = {
    "rows": _rows,
    "snapshots": _snapshots,
    "digests": lambda release: [*_manifests(release), *_digests(release)],
    "results": _results,
    "preserved": _preserved,
    "main": _main,
}
