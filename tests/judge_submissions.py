"""Judges every cheat and every honest solver on a sealed panel, and prints a table of what came.

    python -m vjp_task seal --seed-file F --out sealed --scale 0.1
    PYTHONPATH=python python tests/judge_submissions.py sealed/manifest.json [NAME ...]

Exits 1 where a cheat passed or an honest solver did not.
"""

import contextlib
import io
import json
import sys
import tempfile
from pathlib import Path

from rich.table import Table
from submissions import DYNAMIC, HONEST, STATIC, lay_out
from vjp_task import report
from vjp_task.cli import main


def judged(manifest: str, folder: Path) -> tuple[bool, str, str]:
    """(passed, rule or what is blamed, where and why)."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        code = main(["judge", "--manifest", manifest, "--solver", str(folder), "--json"])
    if code == 2:
        raise SystemExit(code)
    data = json.loads(printed.getvalue())
    if data["passed"]:
        return True, "", f"score {data['score']:.2f}x"
    for finding in data["static_findings"]:
        return False, finding["rule"], f"{finding['file']}:{finding['line']}: {finding['what']}"
    failure = next(case["failure"] for case in data["cases"] if case["failure"])
    return False, failure["what"], failure["reason"]


def run(manifest: str, names: list[str]) -> int:
    """Judges the submissions of these names, all where there is none."""
    table = Table(title="cheats and honest solvers", show_lines=False)
    for heading in ("submission", "kind", "verdict", "rule or blame", "where and why"):
        table.add_column(heading, overflow="fold")
    wrong = 0
    with tempfile.TemporaryDirectory() as top:
        for name in names or (*STATIC, *DYNAMIC, *HONEST):
            passed, what, reason = judged(manifest, lay_out(name, Path(top)))
            honest = name in HONEST
            expected = "" if honest else {**STATIC, **DYNAMIC}[name][0]
            right = passed == honest and what == expected
            wrong += not right
            kind = "honest" if honest else "cheat, read" if name in STATIC else "cheat, run"
            verdict = ("passed" if passed else "refused") + ("" if right else " WRONGLY")
            table.add_row(name, kind, verdict, what, reason)
    report.make_console().print(table)
    print(f"{wrong} wrong verdicts")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(run(sys.argv[1], sys.argv[2:]))
