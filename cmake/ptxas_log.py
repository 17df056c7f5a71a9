"""Keeps what ptxas says of each kernel, and turns register spills into build errors.

`compile -- nvcc ...` runs the compiler, takes the lines of `-Xptxas -v` out of its output and
writes them beside the object file (`<object>.ptxas`). `check OBJECT...` reads these files, writes
a summary and fails where a kernel spills that the list of allowed spills does not name, unless
`--report-only` is given.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_ENTRY = re.compile(r"ptxas info\s*: Compiling entry function '(\S+)' for '(\S+)'")
_FUNCTION = re.compile(r"ptxas info\s*: Function properties for (\S+)")
_FRAME = re.compile(
    r"\s+(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads"
)
_USED = re.compile(r"ptxas info\s*: Used (\d+) registers")
_QUIET = re.compile(r"ptxas info\s*: (?:\d+ bytes gmem|Compile time)")
_SHARED = re.compile(r"(\d+) bytes smem")


@dataclass
class Usage:
    """What one function needs on one architecture."""

    name: str  # as the compiler mangled it
    architecture: str  # "sm_86"
    registers: int = 0  # per thread; 0 for a function that is not a kernel
    stack: int = 0  # bytes per thread
    spill_stores: int = 0  # bytes per thread
    spill_loads: int = 0  # bytes per thread
    static_smem: int = 0  # bytes per block, without what a launch asks for


@dataclass(frozen=True)
class AllowedSpill:
    """A line of the list of allowed spills."""

    architecture: str
    name_part: str
    reason: str


def is_ptxas_line(line: str) -> bool:
    """Tells whether a line of nvcc's output belongs to the report of `-Xptxas -v`."""
    return any(p.match(line) for p in (_ENTRY, _FUNCTION, _FRAME, _USED, _QUIET))


def parse_usage(lines: Iterable[str]) -> list[Usage]:
    """Returns one record per function and architecture from the output of `-Xptxas -v`."""
    found: dict[tuple[str, str], Usage] = {}
    architecture = ""
    name = ""
    for line in lines:
        if entry := _ENTRY.match(line):
            name, architecture = entry.groups()
        elif function := _FUNCTION.match(line):
            name = function[1]
        elif frame := _FRAME.match(line):
            usage = found.setdefault((name, architecture), Usage(name, architecture))
            usage.stack, usage.spill_stores, usage.spill_loads = map(int, frame.groups())
        elif used := _USED.match(line):
            usage = found.setdefault((name, architecture), Usage(name, architecture))
            usage.registers = int(used[1])
            shared = _SHARED.search(line)
            usage.static_smem = int(shared[1]) if shared else 0
    return list(found.values())


def parse_allowed(text: str) -> list[AllowedSpill]:
    """Returns the entries of a list of allowed spills.

    Raises:
        ValueError: a line that is not `<architecture> <part of the name>: <reason>`.
    """
    allowed = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        matched = re.fullmatch(r"(sm_\w+)\s+(\S.*?): (\S.*)", line)
        if not matched:
            raise ValueError(
                f"line {number}: {line!r}; `<architecture> <part of the name>: <reason>` is needed"
            )
        architecture, name_part, reason = matched.groups()
        allowed.append(AllowedSpill(architecture, without_namespaces(name_part), reason))
    return allowed


def without_namespaces(name: str) -> str:
    """Returns a C++ name as one reads it: `ra::f<cute::T<1> >` as `f<T<1>>`."""
    return re.sub(r"\b(?:\w+::)+", "", name).replace("> >", ">>")


def demangle(names: list[str]) -> list[str]:
    """Returns the names without parameter lists and namespaces, where c++filt exists."""
    filter_path = shutil.which("c++filt")
    if filter_path is None or not names:
        return names
    done = subprocess.run(
        [filter_path, "-p"], input="\n".join(names), capture_output=True, text=True, check=True
    )
    return [without_namespaces(name) for name in done.stdout.splitlines()]


def find_spills(
    usages: list[Usage], names: list[str], allowed: list[AllowedSpill]
) -> list[tuple[Usage, str]]:
    """Returns the spilling functions, with their readable names, that no entry allows."""
    return [
        (usage, name)
        for usage, name in zip(usages, names, strict=True)
        if usage.spill_stores + usage.spill_loads > 0
        and not any(a.architecture == usage.architecture and a.name_part in name for a in allowed)
    ]


def summary(usages: list[Usage], names: list[str]) -> str:
    """Returns the table of all functions, sorted by name and architecture."""
    header = ("arch", "registers", "stack", "spill_stores", "spill_loads", "static_smem", "kernel")
    rows = sorted(
        (name, u.architecture, u.registers, u.stack, u.spill_stores, u.spill_loads, u.static_smem)
        for u, name in zip(usages, names, strict=True)
    )
    table = [header, *((*row[1:], row[0]) for row in rows)]
    widths = [max(len(str(row[column])) for row in table) for column in range(len(header) - 1)]
    lines = []
    for row in table:
        cells = [str(cell).rjust(width) for cell, width in zip(row, widths, strict=False)]
        lines.append("  ".join([*cells, str(row[-1])]))
    return "\n".join(lines) + "\n"


def run_compiler(command: list[str]) -> int:
    """Runs nvcc, keeps ptxas's report beside the object file, passes the rest on."""
    done = subprocess.run(command, capture_output=True, text=True)
    report = []
    for line in (done.stdout + done.stderr).splitlines():
        if is_ptxas_line(line):
            report.append(line)
        else:
            print(line, file=sys.stderr)
    if done.returncode == 0 and "-o" in command:
        target = command[command.index("-o") + 1]
        Path(f"{target}.ptxas").write_text("\n".join(report) + "\n")
    return done.returncode


def check(
    objects: list[Path], allowed_file: Path, summary_file: Path, report_only: bool = False
) -> int:
    """Writes the summary of all object files; returns 1 where a spill is not allowed.

    With `report_only` spills are told all the same, and returned is 0.
    """
    reports = [Path(f"{path}.ptxas") for path in objects]
    usages = [u for p in reports if p.is_file() for u in parse_usage(p.read_text().splitlines())]
    names = demangle([usage.name for usage in usages])
    summary_file.write_text(summary(usages, names))
    try:
        allowed = parse_allowed(allowed_file.read_text())
    except ValueError as error:
        print(f"error: {allowed_file}: {error}", file=sys.stderr)
        return 1
    spills = find_spills(usages, names, allowed)
    kind = "note" if report_only else "error"
    for usage, name in spills:
        print(
            f"{kind}: {name}: spills {usage.spill_stores} bytes of stores and "
            f"{usage.spill_loads} bytes of loads on {usage.architecture}; none are allowed unless "
            f"{allowed_file.name} gives a reason",
            file=sys.stderr,
        )
    return 1 if spills and not report_only else 0


def main() -> int:
    """Runs the subcommand `compile` or `check`."""
    if sys.argv[1:3] == ["compile", "--"]:
        return run_compiler(sys.argv[3:])
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(required=True)
    checking = commands.add_parser("check", help="write the summary and look for spills")
    checking.add_argument("--allowed", type=Path, required=True, help="list of allowed spills")
    checking.add_argument("--summary", type=Path, required=True, help="table to write")
    checking.add_argument("--report-only", action="store_true", help="tell spills, do not fail")
    checking.add_argument("objects", type=Path, nargs="*", help="object files of the library")
    arguments = parser.parse_args()
    return check(arguments.objects, arguments.allowed, arguments.summary, arguments.report_only)


if __name__ == "__main__":
    sys.exit(main())
