"""The visible panel: checks a solver against the truth and times it against the baseline."""

import argparse
import datetime
import json
import shlex
import sys
from pathlib import Path
from typing import Any

import torch
from ragged_attention.bench.case import CaseSpec

from vjp_task import machine, paths, report
from vjp_task.evaluate import STEPS, CaseResult, Failure, evaluate_case, geometric_mean
from vjp_task.panel import load_visible_panel, scaled
from vjp_task.solver import file_digest, load_solver, solver_file

HELP = "check and time a solver on the six visible cases"

# Lengths and batch on a CPU: the whole panel in well under two minutes on two cores.
CPU_SCALE = 0.15


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument(
        "--device",
        choices=("auto", "cuda", "cpu"),
        default="auto",
        help="where to run; auto takes the GPU if there is one (default: auto)",
    )
    parser.add_argument(
        "--case",
        nargs="+",
        action="extend",
        metavar="NAME",
        help="only these cases (default: all six)",
    )
    parser.add_argument(
        "--solver",
        type=Path,
        metavar="PATH",
        help="solver.py, or the folder it is in (default: methods/main/solver.py)",
    )
    parser.add_argument(
        "--scale",
        type=float,
        metavar="F",
        help="multiply all lengths and the batch by F, 0 < F <= 1 "
        f"(default: 1 on a GPU, {CPU_SCALE:g} on a CPU)",
    )
    parser.add_argument("--json", type=Path, metavar="PATH", help="also write all figures there")


def run(arguments: argparse.Namespace) -> int:
    """Runs the panel and prints it: 0 if all cases passed, 1 if one failed, 2 for a wrong call."""
    try:
        device = choose_device(arguments.device)
        scale = arguments.scale
        if scale is None:
            scale = 1.0 if device.type == "cuda" else CPU_SCALE
        cases = [scaled(c, scale) for c in load_visible_panel().select(arguments.case)]
        file = solver_file(arguments.solver or paths.main_solver())
    except (ValueError, FileNotFoundError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2

    results = run_cases(cases, file, device)
    figures = summary(results, file, device, scale)
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(figures, indent=2, allow_nan=False) + "\n")

    console = report.make_console()
    console.print(report.case_table(results))
    for line in report.setting_lines(figures):
        print(line)
    for result in results:
        if result.failure and result.failure.trace:
            print(result.failure.trace, file=sys.stderr)
    if figures["passed"]:
        print(f"geometric mean {figures['geometric_mean']:.2f}x")
        return 0
    print("\n".join(report.failure_lines(results)))
    return 1


def choose_device(name: str) -> torch.device:
    """The device of that name, auto meaning a GPU if there is one. Raises ValueError without it."""
    available = torch.cuda.is_available()
    if name == "cuda" and not available:
        raise ValueError("device: cuda, but torch sees no GPU; cpu or auto is needed")
    if name == "cpu" or not available:
        return torch.device("cpu")
    return torch.device("cuda", torch.cuda.current_device())


def run_cases(cases: list[CaseSpec], file: Path, device: torch.device) -> list[CaseResult]:
    """Evaluates the solver file on each case, with a progress bar on stderr."""
    baseline = load_solver(paths.baseline_solver())
    try:
        candidate = load_solver(file)
    except Exception as error:
        failure = Failure("import", f"{type(error).__name__}: {error}")
        return [CaseResult(case, failure=failure) for case in cases]

    results: list[CaseResult] = []
    with report.progress_bar(STEPS * len(cases), report.make_console(stderr=True)) as advance:
        for case in cases:
            if results and not _usable(device):
                failure = Failure("device", "lost in an earlier case; not run")
                results.append(CaseResult(case, failure=failure))
                continue
            results.append(
                evaluate_case(
                    case, candidate, baseline, device, lambda s, n=case.name: advance(f"{n}: {s}")
                )
            )
    return results


def summary(
    results: list[CaseResult], file: Path, device: torch.device, scale: float
) -> dict[str, Any]:
    """All of it as plain data: what `--json` writes."""
    facts = machine.describe(device)
    return {
        "geometric_mean": geometric_mean(results),
        "passed": all(result.passed for result in results),
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "command": shlex.join(_without_folders(sys.argv)),
        "solver": _relative(file),
        "solver_sha256": file_digest(file),
        "scale": scale,
        "card": facts["card"],
        "commit": facts["commit"],
        **machine.backend(device),
        "machine": facts,
        "cases": [result.to_json() for result in results],
    }


def _usable(device: torch.device) -> bool:
    """False once a fault of a kernel has made the GPU refuse all further work."""
    if device.type != "cuda":
        return True
    try:
        torch.cuda.synchronize(device)
        torch.cuda.empty_cache()
    except RuntimeError:
        return False
    return True


def _relative(file: Path) -> str:
    """The path as seen from the repository, or as it is where it lies outside."""
    top = paths.repository()
    return str(file.relative_to(top)) if file.is_relative_to(top) else str(file)


def _without_folders(words: list[str]) -> list[str]:
    """The command line; paths as from the repository, those outside by their names alone."""

    def shorten(word: str) -> str:
        path = Path(word)
        inside = path.is_relative_to(paths.repository())
        return word if not path.is_absolute() else _relative(path) if inside else path.name

    return [shorten(word) for word in words]
