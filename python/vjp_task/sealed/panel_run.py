"""Runs a solver on the cases of a panel in turn, each in a process of its own.

A process takes seconds to start (Python, torch, the card's context), so the next case's starts once
this one's timing is over: beside the last checks, never beside a sample.
"""

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from ragged_attention.bench.case import CaseSpec

from vjp_task import report
from vjp_task.sealed import conversation
from vjp_task.sealed.conversation import Outcome
from vjp_task.sealed.process import Limits, Worker, copy_harness


def run_cases(
    specs: Sequence[CaseSpec],
    root: Path,
    device: torch.device,
    limits: Limits,
    samples: int,
    measured: int = conversation.MEASURED,
) -> Iterator[Outcome]:
    """Runs the solver in `root / "submission"`; what it builds on its first import is kept.

    An outcome comes as soon as its case is done, and is told on standard error. The caller may
    stop early; no process is left then.
    """
    copy_harness(root)
    console = report.make_console(stderr=True)
    total = conversation.steps(samples) * len(specs)
    with _Processes(root, device, limits) as processes, report.progress_bar(
        total, console
    ) as advance:  # fmt: skip
        for number, spec in enumerate(specs):

            def step(text: str, name: str = spec.name) -> None:
                advance(f"{name}: {text}")

            def timed(following: int = number + 1) -> None:
                if following < len(specs):
                    processes.start(following)

            worker = processes.take(number)
            imported = processes.keep_built if number == 0 else lambda folder: None
            outcome = conversation.run_case(
                spec, worker, device, samples, measured, step, imported, timed
            )
            shutil.rmtree(worker.folder, ignore_errors=True)
            console.print(_line(outcome), highlight=False, markup=False)
            yield outcome


def lay_out(source: Path, folder: Path) -> None:
    """A case's own folder with its own copy of the solver's files, and of what it has built."""
    folder.mkdir()
    for name in ("solver", "home"):
        if (source / name).is_dir():
            shutil.copytree(source / name, folder / name, symlinks=True)


class _Processes:
    """The processes of a panel's cases: one ahead at most."""

    def __init__(self, root: Path, device: torch.device, limits: Limits) -> None:
        self._root, self._device, self._limits = root, device, limits
        self._ahead: dict[int, Worker] = {}

    def __enter__(self) -> "_Processes":
        return self

    def __exit__(self, *exception: object) -> None:
        for worker in self._ahead.values():
            worker.close()

    def start(self, number: int) -> None:
        """Starts the process of a case, on a copy of what is built by now."""
        folder, built = self._root / f"case{number}", self._root / "built"
        lay_out(built if built.is_dir() else self._root / "submission", folder)
        self._ahead[number] = Worker(self._root, folder, self._device, self._limits)

    def take(self, number: int) -> Worker:
        """The process of a case, which is the caller's to end."""
        if number not in self._ahead:
            self.start(number)
        return self._ahead.pop(number)

    def keep_built(self, folder: Path) -> None:
        """Later cases start from this folder's files."""
        lay_out(folder, self._root / "built")


def _line(outcome: Outcome) -> str:
    verdict = f"{outcome.what}: {outcome.reason}" if outcome.what else ""
    if outcome.timing:
        verdict = f"{outcome.timing['median_ms']:.3f} ms, spread {outcome.timing['spread']:.1%}"
    parts = ", ".join(f"{part} {value:.1f} s" for part, value in outcome.seconds.items())
    return f"{outcome.spec.name}: {verdict} ({parts})"
