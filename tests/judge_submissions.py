"""Judges every cheat and every honest solver on a sealed panel, and prints a table of what came.

    python -m vjp_task seal --seed-file F --out sealed --scale 0.1
    PYTHONPATH=python python tests/judge_submissions.py sealed/manifest.json [NAME ...] [--jobs N]

With --jobs several are judged at a time on one card. Their latencies then mean nothing, their
verdicts stand: an honest solver whose clocks or time limit the others upset is judged again alone.
Exits 1 where a cheat passed or an honest solver did not.
"""

import argparse
import contextlib
import io
import json
import multiprocessing
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.table import Table
from submissions import DYNAMIC, HONEST, STATIC, lay_out
from vjp_task import report
from vjp_task.cli import main

JUDGE = ("judge", "--json", "--first-failure")
UPSET = ("patched-timer", "time limit")  # what a crowded machine can bring about
SHOWN = 96  # characters of a reason in the table; --json has the whole


@dataclass(frozen=True)
class Verdict:
    """What the judge said of one submission."""

    name: str
    kind: str
    passed: bool
    what: str  # the rule, or what is blamed; empty where it passed
    reason: str
    right: bool  # whether that was expected
    seconds: float


def judged(manifest: str, name: str) -> Verdict:
    """Judges one submission. Raises RuntimeError where the judge refuses to judge at all."""
    begun = time.monotonic()
    printed, told = io.StringIO(), io.StringIO()
    with tempfile.TemporaryDirectory() as folder:
        solver = str(lay_out(name, Path(folder)))
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(told):
            code = main([*JUDGE, "--manifest", manifest, "--solver", solver])
    if code == 2:
        raise RuntimeError(f"{name}: {told.getvalue().strip()}")
    what, reason = blame(json.loads(printed.getvalue()))
    expected = "" if name in HONEST else {**STATIC, **DYNAMIC}[name][0]
    kind = "honest" if name in HONEST else "cheat, read" if name in STATIC else "cheat, run"
    passed, seconds = not what, round(time.monotonic() - begun, 1)
    return Verdict(name, kind, passed, what, reason, what == expected, seconds)


def blame(figures: dict) -> tuple[str, str]:
    """(rule or what is blamed, where and why) from the judge's figures; ("", score) if passed."""
    if figures["passed"]:
        return "", f"{len(figures['cases'])} cases, score {figures['score']:.2f}x"
    for finding in figures["static_findings"]:
        return finding["rule"], f"{finding['file']}:{finding['line']}: {finding['what']}"
    failure = next(case["failure"] for case in figures["cases"] if case["failure"])
    return failure["what"], failure["reason"]


def judge_all(manifest: str, names: list[str], jobs: int) -> list[Verdict]:
    """All verdicts, in the order of the names; `jobs` at a time."""
    if jobs == 1:
        return [told(judged(manifest, name)) for name in names]
    spawn = multiprocessing.get_context("spawn")  # a fork cannot use the card
    with ProcessPoolExecutor(jobs, mp_context=spawn) as pool:
        waiting = [pool.submit(judged, manifest, name) for name in names]
        verdicts = [told(job.result()) for job in waiting]
    return [told(judged(manifest, v.name)) if was_upset(v) else v for v in verdicts]


def was_upset(verdict: Verdict) -> bool:
    """Whether others on the machine may have brought this verdict about."""
    return verdict.kind == "honest" and verdict.what in UPSET


def told(verdict: Verdict) -> Verdict:
    """Tells of a verdict on standard error as soon as it is there."""
    what = verdict.what or "passed"
    print(f"{verdict.name}: {what} ({verdict.seconds:g} s)", file=sys.stderr, flush=True)
    return verdict


def show(verdicts: list[Verdict], jobs: int) -> None:
    """Prints the table, one line each."""
    table = Table(title="cheats and honest solvers")
    for heading in ("submission", "kind", "verdict", "rule or blame", "where and why"):
        table.add_column(heading, no_wrap=True, max_width=SHOWN)
    for v in verdicts:
        verdict = ("passed" if v.passed else "refused") + ("" if v.right else " WRONGLY")
        table.add_row(v.name, v.kind, verdict, v.what, v.reason)
    console = report.make_console()
    console.width = max(console.width, 180)
    console.print(table, highlight=False, markup=False)
    if jobs > 1:
        print(f"{jobs} at a time on one card: no score among them means anything")
    print(f"{sum(not v.right for v in verdicts)} wrong verdicts of {len(verdicts)}")


def run() -> int:
    """Reads the command line; 1 where a verdict is wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("manifest", help="manifest.json of a sealed panel")
    known = (*STATIC, *DYNAMIC, *HONEST)
    parser.add_argument("name", nargs="*", help="which; all where there is none")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="how many at a time")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write all verdicts there too")
    arguments = parser.parse_args()
    if unknown := set(arguments.name) - set(known):
        parser.error(f"name: {', '.join(sorted(unknown))}; known are {', '.join(known)}")
    if arguments.jobs < 1:
        parser.error(f"--jobs: {arguments.jobs}; a number of at least 1 is needed")
    # what runs longest first: honest ones go through all cases
    longest_first = arguments.name or (*HONEST, *DYNAMIC, *STATIC)
    verdicts = judge_all(arguments.manifest, list(longest_first), arguments.jobs)
    verdicts.sort(key=lambda v: known.index(v.name))
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(v) for v in verdicts], indent=1) + "\n")
    show(verdicts, arguments.jobs)
    return 1 if any(not v.right for v in verdicts) else 0


if __name__ == "__main__":
    sys.exit(run())
