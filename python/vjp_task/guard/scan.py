"""The static scan: every file of a submission, by what it is."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from ragged_attention.bench.case import CaseSpec

from vjp_task.guard.names_scan import scan_names
from vjp_task.guard.rules import Finding
from vjp_task.guard.shapes_scan import scan_shapes
from vjp_task.guard.state_scan import scan_state
from vjp_task.guard.syntax import read_module
from vjp_task.guard.text_scan import CPP_ENDINGS, is_text, scan_binary, scan_cpp


def scan(folder: Path, cases: Iterable[CaseSpec] = ()) -> list[Finding]:
    """All breaches in a submitted folder, in order of file and line.

    `cases` are those whose totals and lengths must not occur. Nothing is imported or run.
    """
    known = list(cases)
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not _skipped(path))
    own = frozenset(_module_names(folder, files))
    found = {finding for file in files for finding in _scan_file(folder, file, own, known)}
    return sorted(found, key=lambda f: (f.file, f.line, f.rule, f.what))


def _scan_file(
    folder: Path, path: Path, own: frozenset[str], cases: list[CaseSpec]
) -> Iterator[Finding]:
    file = str(path.relative_to(folder))
    if path.suffix == ".so" or ".so." in path.name:
        yield from scan_binary(file, path.read_bytes())
    elif not is_text(path):
        yield Finding(file, 0, "hidden-code", "is neither text nor a compiled module")
    elif path.suffix in CPP_ENDINGS:
        yield from scan_cpp(file, path.read_text(encoding="utf-8"))
    elif path.suffix in (".py", ".pyi"):
        try:
            module = read_module(file, path.read_text(encoding="utf-8"), own)
        except (SyntaxError, ValueError, RecursionError) as error:
            yield Finding(
                file, getattr(error, "lineno", 0) or 0, "hidden-code", f"is no Python: {error}"
            )
            return
        yield from scan_names(module)
        yield from scan_state(module)
        yield from scan_shapes(module, cases)


def _module_names(folder: Path, files: list[Path]) -> Iterator[str]:
    """Top-level names that an import finds among the submitted files."""
    for file in files:
        first = file.relative_to(folder).parts[0]
        if first != file.name:
            yield first
        elif file.suffix in (".py", ".so"):
            yield first.partition(".")[0]


def _skipped(path: Path) -> bool:
    return "__pycache__" in path.parts
