"""Makes a folder of the main solver that stands alone: nothing of this repository is needed there.

It holds solver.py; the operator's package, as far as importing it needs; the compiled module for
this Python, where there is one; and in kernels/ the kernels' sources with just the CUTLASS headers
that they include, from which the module is built on the first import on a machine whose Python or
card the one that came along does not suit. At the end the folder is imported and run from an empty
folder in a clean process.
"""

import argparse
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import ragged_attention
from ragged_attention.bench import machine

from vjp_task import paths
from vjp_task.closure import imported_modules, included_headers
from vjp_task.manifest import operator_module

HELP = "make a folder of the main solver that stands alone"

# Headers that CUTLASS includes only where a macro asks for instructions that no kernel uses.
_OPTIONAL_HEADERS = r"_ext\.hpp"
_CPP = {".h", ".cuh", ".cu", ".cpp"}
_VERSION_PARTS = ("MAJOR", "MINOR", "PATCH")
_TOOLS = ("cuda_toolkit.py", "pybind11_headers.py", "requirements-cuda.txt")
_CHECK = Path(__file__).with_name("bundle_check.py")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="a new or empty folder"
    )
    parser.add_argument(
        "--no-module",
        action="store_true",
        help="leave the compiled module out, so that every machine builds its own",
    )


def run(arguments: argparse.Namespace) -> int:
    """Makes and checks the bundle: 0 if it runs, 1 if it does not, 2 for a wrong call."""
    out = arguments.out
    try:
        module = None if arguments.no_module else operator_module()
        make_bundle(out, module)
    except (ValueError, ImportError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    files = [file for file in out.rglob("*") if file.is_file()]
    size = sum(file.stat().st_size for file in files) / 1e6
    print(f"{out}: {len(files)} files, {size:.1f} MB, {module.name if module else 'no module'}")
    failure = check_bundle(out)
    if failure:
        print(f"bundle FAILED: {failure}", file=sys.stderr)
        return 1
    print("imported and run from an empty folder: all outputs as the reference has them")
    return 0


def make_bundle(out: Path, module: Path | None) -> None:
    """Fills the folder. Raises ValueError where it is not empty or CUTLASS is missing."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ValueError(f"out: {out} is not empty; a new or empty folder is needed")
    top, package = paths.repository(), Path(ragged_attention.__file__).parent
    headers = cutlass_include()
    kernels, target = out / "kernels", out / package.name

    _copy(paths.main_solver(), out / "solver.py")
    for file in imported_modules(package):
        _copy(file, target / file.relative_to(package))
    if module:
        _copy(module, target / module.name)
    _copy(top / "LICENSE", out / "LICENSE")

    sources = [f for f in (top / "cutlass_kernels").rglob("*") if f.suffix in _CPP]
    for file in sources:
        _copy(file, kernels / file.relative_to(top))
    for file in (top / "python" / "bindings").rglob("*.cpp"):
        _copy(file, kernels / "bindings" / file.name)
    for name in _TOOLS:
        _copy(top / "cmake" / name, kernels / "tools" / name)
    for name, file in included_headers(sources, [headers], _OPTIONAL_HEADERS).items():
        _copy(file, kernels / "include" / name)
    mark = {"commit": machine.commit(top) or "unknown", "cutlass": _cutlass_version(headers)}
    (kernels / "bundle.json").write_text(json.dumps(mark, indent=2) + "\n")


def check_bundle(out: Path) -> str:
    """Imports and runs the bundle from an empty folder in a clean process; what fails, or ''."""
    with tempfile.TemporaryDirectory() as empty:
        program = shutil.copy(_CHECK, Path(empty) / "check.py")
        environment = {n: v for n, v in os.environ.items() if not n.startswith("PYTHON")}
        done = subprocess.run(
            [sys.executable, "-I", "-B", program, str(out.resolve() / "solver.py")],
            cwd=empty,
            env=environment,
            capture_output=True,
            text=True,
        )
    if done.returncode == 0:
        return ""
    lines = done.stderr.strip().splitlines() or [f"ended with {done.returncode}"]
    return lines[-1]


def cutlass_include() -> Path:
    """The folder of CUTLASS's headers: CUTLASS_DIR, or the package nvidia-cutlass.

    Raises ValueError where there is neither.
    """
    folders = []
    if named := os.environ.get("CUTLASS_DIR"):
        folders += [Path(named) / "include", Path(named)]
    spec = importlib.util.find_spec("cutlass_library")
    if spec and spec.submodule_search_locations:
        folders += [Path(spec.submodule_search_locations[0]) / "source" / "include"]
    for folder in folders:
        if (folder / "cutlass" / "version.h").is_file():
            return folder
    raise ValueError(
        f"cutlass: no cutlass/version.h in {', '.join(map(str, folders)) or 'any package'}; "
        f"run {sys.executable} -m pip install nvidia-cutlass, or set CUTLASS_DIR"
    )


def _cutlass_version(include: Path) -> str:
    text = (include / "cutlass" / "version.h").read_text()
    numbers = (re.search(rf"#define CUTLASS_{part} (\d+)", text) for part in _VERSION_PARTS)
    return ".".join(number[1] for number in numbers)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
