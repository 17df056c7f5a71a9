"""The command line: checks and times all methods side by side, and shows what came out.

python -m ragged_attention.bench                     every method that can be had, six strata
python -m ragged_attention.bench --stratum h80_fp16_klong --methods ours_sm90 flash_attn_2
python -m ragged_attention.bench --extras --plot     host work, launches, scaling; plots
python -m ragged_attention.bench --show FILE --plot  table and plots of a result file, no GPU
"""

import argparse
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ragged_attention.bench import machine, results, table
from ragged_attention.bench.case import CaseSpec, load_cases
from ragged_attention.bench.ceilings import measure_ceilings
from ragged_attention.bench.extras import SCALING_LOGITS, run_extras
from ragged_attention.bench.floor import Ceilings
from ragged_attention.bench.methods import METHODS, select
from ragged_attention.bench.methods.method import Method
from ragged_attention.bench.repository import repository
from ragged_attention.bench.strata import Advance, Options, run_stratum

_MIN_WIDTH = 160  # columns; what the table needs where no terminal sets the width
_EXTRA_STEPS = 4 + len(SCALING_LOGITS)  # of one method


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the benchmark: 0, or 1 where a result of ours is not right, 2 where nothing can run."""
    arguments = _parser().parse_args(argv)
    try:
        report = _report(arguments, sys.argv[1:] if argv is None else list(argv))
        file = (
            arguments.json
            or arguments.show
            or results.default_file(report, repository() / "results")
        )
        if arguments.show is None or arguments.json:
            results.write(report, file)
    except (ValueError, RuntimeError, FileNotFoundError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    console = _console(sys.stdout)
    console.print(table.strata_table(report))
    for line in table.lines(report):
        print(line)
    print(file)
    if arguments.plot:
        from ragged_attention.bench import plots

        for plot in plots.draw(report, file.with_suffix("")):
            print(plot)
    return 1 if results.any_wrong(report, [m.name for m in METHODS.values() if m.is_ours]) else 0


def run(
    cases: list[CaseSpec],
    methods: list[Method],
    device: torch.device,
    ceilings: Ceilings,
    options: Options,
    command: str,
    extras: bool = False,
    complete: bool = False,
) -> results.Report:
    """The report of a run, with a progress bar on stderr."""
    steps = len(cases) * (len(methods) + 2)
    steps += extras * _EXTRA_STEPS * sum(m.is_ours and not m.missing(device) for m in methods)
    with _progress(steps) as advance:
        # First: once anything is profiled, every launch takes longer on the host.
        more = run_extras(methods, device, ceilings, advance) if extras else None
        strata = [run_stratum(c, methods, device, ceilings, options, advance) for c in cases]
    facts = machine.describe(device, repository())
    return results.assemble(facts, command, ceilings._asdict(), strata, more, complete)


def _report(arguments: argparse.Namespace, words: list[str]) -> results.Report:
    if arguments.show:
        return results.read(arguments.show)
    methods = select(arguments.methods)
    cases = _cases(arguments.stratum)
    if not torch.cuda.is_available():
        raise RuntimeError("device: torch sees no GPU; one is needed")
    device = torch.device("cuda", torch.cuda.current_device())
    options = Options(
        asked_for=arguments.flex or bool(arguments.methods),
        quick=arguments.quick,
        time_wrong=arguments.time_wrong,
    )
    command = shlex.join(["python", "-m", "ragged_attention.bench", *words])
    ceilings = measure_ceilings(device)
    complete = not (arguments.quick or arguments.stratum or arguments.methods)
    return run(cases, methods, device, ceilings, options, command, arguments.extras, complete)


def _cases(names: list[str] | None) -> list[CaseSpec]:
    cases = load_cases(repository() / "problems" / "visible_cases.json")
    known = [case.name for case in cases]
    for name in names or []:
        if name not in known:
            raise ValueError(f"stratum: {name!r}; one of {', '.join(known)} is needed")
    return [case for case in cases if not names or case.name in names]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m ragged_attention.bench",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = {"nargs": "+", "action": "extend", "metavar": "NAME"}
    add = parser.add_argument
    add("--stratum", **names, help="only these strata (default: all six)")
    add("--methods", **names, help=f"only these methods: {', '.join(METHODS)}")
    add("--flex", action="store_true", help="also flex_attention, which compiles for minutes")
    add("--quick", action="store_true", help="three samples of each method")
    add("--time-wrong", action="store_true", help="time also methods whose results are wrong")
    add("--extras", action="store_true", help="also host work, launches, short sequences, scaling")
    add("--json", type=Path, metavar="PATH",
        help="result file (default: results/<card>/<date>-<commit>.json)")  # fmt: skip
    add("--plot", action="store_true", help="also draw plots beside the result file")
    add("--show", type=Path, metavar="FILE", help="measure nothing; show this result file")
    return parser


def _console(stream: object) -> Console:
    """A console that doesn't squeeze tables where its stream is no terminal."""
    return Console(file=stream) if stream.isatty() else Console(file=stream, width=_MIN_WIDTH)


@contextmanager
def _progress(steps: int) -> Iterator[Advance]:
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    console = _console(sys.stderr)
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as progress:
        task = progress.add_task("", total=steps)
        yield lambda step: progress.update(task, description=step, advance=1)
