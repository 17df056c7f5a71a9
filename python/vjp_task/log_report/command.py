"""Makes the report on the experiment log: index.html, one page that needs no other file, and PNGs.

It shows the speedup against time and version, with each version's mark and note; the versions; the
held-out panel's table; the speedup of each case; and what the last versions bought for what time.
"""

import argparse
import sys
from pathlib import Path

from vjp_task import durable, paths

HELP = "make a page and charts of the experiment log"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument(
        "--out", type=Path, default=Path("report"), metavar="DIR", help="folder (default: report)"
    )
    parser.add_argument(
        "--judged",
        type=Path,
        metavar="PATH",
        help="what judge --json wrote, for the held-out table",
    )


def run(arguments: argparse.Namespace) -> int:
    """Writes the report: 0, or 2 for a wrong call."""
    try:
        files = write_report(paths.methods(), arguments.out, arguments.judged)
    except (ValueError, OSError, ImportError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for file in files:
        print(file)
    return 0


def write_report(methods: Path, out: Path, judged_file: Path | None = None) -> list[Path]:
    """The files of the report, written; the page first.

    Raises ValueError where the log or the judge's file cannot be read, ImportError without
    matplotlib.
    """
    try:
        from vjp_task.log_report import figures  # here, since matplotlib takes a second to load
    except ImportError as error:
        raise ImportError(
            f"matplotlib: {error}; run {sys.executable} -m pip install matplotlib"
        ) from error
    from vjp_task.log_report.history import read_history, read_judged
    from vjp_task.log_report.page import LAST, make_page

    history = read_history(methods)
    judged = read_judged(judged_file) if judged_file else None
    held_out = {case["name"]: case["speedup"] for case in judged["cases"]} if judged else {}
    charts = {"time": figures.by_time(history), "version": figures.by_version(history)}
    if history.with_cases or held_out:
        charts["case"] = figures.by_case(history, held_out)
    if history.last(1):
        charts["last"] = figures.last_versions(history.last(LAST))
    out.mkdir(parents=True, exist_ok=True)
    page = out / "index.html"
    durable.write_text(page, make_page(history, judged, charts))
    files = [page]
    for name, draw in charts.items():
        files.append(out / f"{name}.png")
        files[-1].write_bytes(figures.as_png(draw))
    return files
