"""Writes `docs/sm86.md` from the built kernel library: `--help` says how."""

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from ragged_attention.bench.case import load_cases
from ragged_attention.bench.machine import commit
from ragged_attention.bench.machine_code import dump, kernels, page, predict, sass
from ragged_attention.bench.machine_code.loops import main_loops
from ragged_attention.bench.machine_code.sharing import read_rule
from ragged_attention.bench.repository import repository

_ROW = "TilesSm86"


def main(argv: Sequence[str] | None = None) -> int:
    """Writes the page: 0, or 2 where it cannot."""
    parser = argparse.ArgumentParser(
        prog="python -m ragged_attention.bench.machine_code", description=__doc__
    )
    top = repository()
    parser.add_argument(
        "library",
        type=Path,
        nargs="?",
        default=top / "build" / "libragged_attention_kernels.a",
        help="kernel library, module or object file (default: build/%(metavar)s)",
        metavar="libragged_attention_kernels.a",
    )
    parser.add_argument(
        "--out", type=Path, default=top / "docs" / "sm86.md", help="page (default: docs/sm86.md)"
    )
    arguments = parser.parse_args(argv)
    words = sys.argv[1:] if argv is None else argv
    command = shlex.join(["python", "-m", "ragged_attention.bench.machine_code", *words])
    try:
        text = make_page(arguments.library, top, command)
    except (ValueError, RuntimeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    arguments.out.write_text(text)
    print(arguments.out)
    return 0


def make_page(library: Path, top: Path, command: str) -> str:
    """The page's text, for the kernels of a library and the sources and cases of a repository.

    Raises ValueError or RuntimeError where one of them doesn't fit.
    """
    sources = top / "cutlass_kernels"
    tiles = kernels.read_tiles(sources / "tiles.h", _ROW)
    rule = read_rule(sources / "plan.h")
    loops: predict.Loops = {}
    for function in sass.parse(dump.disassemble(library, "sm_86")):
        if kernel := kernels.identify(function.name, tiles, _ROW):
            loops[kernel] = main_loops(function, kernel)
    cases = load_cases(top / "problems" / "visible_cases.json")
    times = [predict.predict(case, loops, tiles, rule) for case in cases]
    return page.write(loops, times, tiles, commit(top) or "unknown", command)


if __name__ == "__main__":
    sys.exit(main())
