"""What files need: the modules of a package that it imports, the headers that sources include."""

import ast
import re
from collections.abc import Iterable
from pathlib import Path

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"\n]+)[>"]', re.MULTILINE)


def imported_modules(package: Path) -> list[Path]:
    """The files of a package that importing it loads, those imported inside functions included.

    `package` is its folder; the package's name is the folder's.
    """
    found: dict[Path, None] = {}
    waiting = [package / "__init__.py"]
    while waiting:
        file = waiting.pop()
        if file in found:
            continue
        found[file] = None
        for name in _imports(file, package.name):
            parts = name.split(".")[1:]
            for depth in range(len(parts) + 1):  # a sub-module loads the packages above it
                waiting += _module_files(package.joinpath(*parts[:depth]))
    return sorted(found)


def included_headers(
    sources: Iterable[Path], folders: Iterable[Path], left_out: str = r"(?!)"
) -> dict[str, Path]:
    """The headers below `folders` that the sources include, by their path in that folder.

    Every `#include` counts, whatever condition it stands under, so the set serves any compiler;
    only names that end in the pattern `left_out` don't. Names that are found neither beside the
    including file nor in a folder are taken for those of the compiler.
    """
    folders = [folder.resolve() for folder in folders]
    found: dict[str, Path] = {}
    waiting, seen = [source.resolve() for source in sources], set()
    while waiting:
        file = waiting.pop()
        if file in seen:
            continue
        seen.add(file)
        for folder in folders:
            if file.is_relative_to(folder):
                found[file.relative_to(folder).as_posix()] = file
        for name in _INCLUDE.findall(file.read_text(encoding="utf-8", errors="replace")):
            if re.search(f"(?:{left_out})$", name):
                continue
            places = (folder / name for folder in (file.parent, *folders))
            header = next((place for place in places if place.is_file()), None)
            if header:
                waiting.append(header.resolve())
    return dict(sorted(found.items()))


def _imports(file: Path, package: str) -> list[str]:
    """The dotted names below `package` that a file imports, absolute."""
    names = []
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return [name for name in names if name and name.split(".")[0] == package]


def _module_files(place: Path) -> list[Path]:
    files = (place.with_suffix(".py"), place / "__init__.py")
    return [file for file in files if file.is_file()]
