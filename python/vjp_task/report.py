"""What a run prints: a progress bar, a table of cases, and the lines below it."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ragged_attention.tolerance import NAMES
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from vjp_task.evaluate import CaseResult

_MIN_WIDTH = 140  # columns; what the table needs where no terminal sets the width


def make_console(stderr: bool = False) -> Console:
    """A console that doesn't squeeze tables where its stream is no terminal."""
    stream = sys.stderr if stderr else sys.stdout
    if stream.isatty():
        return Console(file=stream)
    return Console(file=stream, width=_MIN_WIDTH)


@contextmanager
def progress_bar(total: int, console: Console) -> Iterator[Any]:
    """Shows a bar of `total` steps; gives a function that takes one, with its description."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=console.is_terminal) as progress:
        task = progress.add_task("", total=total)

        def advance(description: str, steps: int = 1) -> None:
            progress.update(task, description=description, advance=steps)

        yield advance


def case_table(results: list[CaseResult]) -> Table:
    """One row per case; each error is a relative Frobenius norm, beside its budget."""
    table = Table(
        title="errors: relative Frobenius norm against the float64 truth, and the budget",
        show_lines=True,
    )
    table.add_column("case")
    table.add_column("sequences\nqueries x keys x heads")
    for heading in ("baseline\nms", "candidate\nms", "speedup"):
        table.add_column(heading, justify="right")
    for name in NAMES:
        table.add_column(f"{name} error\nbudget", justify="right")
    table.add_column("verdict")
    for result in results:
        table.add_row(*_cells(result))
    return table


def failure_lines(results: list[CaseResult]) -> list[str]:
    """One line per failed case: what failed and why."""
    failed = [result for result in results if result.failure]
    return [f"FAILED {r.spec.name}: {r.failure.what}: {r.failure.reason}" for r in failed]


def setting_lines(report: dict[str, Any]) -> list[str]:
    """The lines under the table: where, what and how it was measured, from the JSON report."""
    machine, cases = report["machine"], report["cases"]
    card = [report["card"]]
    card += [f"driver {machine['driver']}"] if machine["driver"] else []
    card += [f"SM clock {machine['sm_clock']}"] if machine["sm_clock"] else []
    card += [f"of {machine['max_sm_clock']}"] if machine["max_sm_clock"] else []
    card += [f"memory clock {machine['memory_clock']}"] if machine["memory_clock"] else []
    versions = [f"python {machine['python']}", f"torch {machine['torch']}"]
    versions += [f"CUDA {machine['cuda']}"] if machine["cuda"] else []
    versions += [f"{machine['threads']} CPU threads", f"commit {report['commit'] or 'unknown'}"]
    lines = [
        ", ".join(card),
        ", ".join(versions),
        f"ragged_attention: {report['backend']} backend, tiles {report['tiles'] or 'none'}",
        f"scale {report['scale']:g}",
        f"solver {report['solver']}, SHA-256 {report['solver_sha256'][:12]}",
    ]
    timed = [case["timing"] for case in cases if case["timing"]["candidate"]]
    if timed:
        lines += [_sides(timed, "samples"), _sides(timed, "warm_up_calls")]
        first = max(case["first_call_ms"] for case in cases if case["first_call_ms"])
        lines += [f"set-up: candidate's first call at most {first:.0f} ms, in no sample"]
    return lines


def _sides(timed: list[dict[str, Any]], figure: str) -> str:
    """The range of a figure over the cases, for baseline and candidate."""
    parts = []
    for side in ("baseline", "candidate"):
        values = [t[side][figure] for t in timed]
        low, high = min(values), max(values)
        parts.append(f"{side} {low}" + (f" to {high}" if high > low else ""))
    return f"{figure.replace('_', ' ')}: {', '.join(parts)}"


def _cells(result: CaseResult) -> list[str]:
    spec, verdicts = result.spec, {verdict.name: verdict for verdict in result.verdicts}
    shapes = f"{spec.batch}\n{spec.total_q:,} x {spec.total_k:,} x {spec.heads}"
    times = [
        f"{figures['median_ms']:.3f}" if figures else "-"
        for figures in (result.baseline, result.candidate)
    ]
    speedup = f"{result.speedup:.2f}x" if result.speedup else "-"
    errors = []
    for name in NAMES:
        verdict = verdicts.get(name)
        if verdict is None:
            errors.append("-")
            continue
        cell = f"{verdict.error.frobenius:.1e}\n{verdict.budget.frobenius:.1e}"
        errors.append(cell if verdict.passed else f"[bold red]{cell}[/]")
    verdict_cell = (
        "[green]passed[/]" if result.passed else f"[bold red]FAILED\n{result.failure.what}[/]"
    )
    return [spec.name, shapes, *times, speedup, *errors, verdict_cell]
