"""The manifest of a recorded version: digests of all that was evaluated, and the commit.

JSON: `version`, `commit` (None where unknown; "-dirty" appended where files differed from it),
`solver_sha256`, `module` (None, or `file`, `sha256` and the `commit` it was built from) and
`sources` (SHA-256 by path in the repository) of the operator's package, its binding and kernels.
"""

import json
from pathlib import Path
from typing import Any

import ragged_attention
from ragged_attention import native

from vjp_task import paths
from vjp_task.closure import imported_modules
from vjp_task.solver import file_digest

FILE = "manifest.json"

_CPP = {".h", ".cuh", ".cu", ".cpp"}


def make_manifest(
    version: str,
    commit: str | None,
    solver: Path,
    module: Path | None = None,
    sources: dict[str, Path] | None = None,
) -> dict[str, Any]:
    """The manifest of one version; `sources` are files by their path in the repository."""
    return {
        "version": version,
        "commit": commit,
        "solver_sha256": file_digest(solver),
        "module": module and _describe_module(module),
        "sources": {name: file_digest(file) for name, file in sorted((sources or {}).items())},
    }


def to_text(manifest: dict[str, Any]) -> str:
    """The manifest as a file's text."""
    return json.dumps(manifest, indent=2) + "\n"


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest in a version's folder. Raises ValueError where it is missing or no manifest."""
    file = folder / FILE
    try:
        manifest = json.loads(file.read_text())
    except FileNotFoundError:
        raise ValueError(f"{folder.name}: no {FILE}; one is needed") from None
    except ValueError as error:
        raise ValueError(f"{folder.name}: {FILE} is no JSON ({error}); JSON is needed") from error
    names = {"version", "commit", "solver_sha256", "module", "sources"}
    if not isinstance(manifest, dict) or set(manifest) != names:
        raise ValueError(
            f"{folder.name}: {FILE} has {sorted(manifest)}; {', '.join(sorted(names))} are needed"
        )
    return manifest


def operator_sources() -> dict[str, Path]:
    """The files that the operator is made of, by their path in the repository.

    The package is the one that is imported, wherever it is installed.
    """
    package = Path(ragged_attention.__file__).parent
    sources = {
        f"python/{package.name}/{file.relative_to(package).as_posix()}": file
        for file in imported_modules(package)
    }
    top = paths.repository()
    for root in (top / "python" / "bindings", top / "cutlass_kernels"):
        for file in root.rglob("*"):
            if file.suffix in _CPP:
                sources[file.relative_to(top).as_posix()] = file
    return sources


def operator_module() -> Path | None:
    """The compiled module that the operator's package loads, if any.

    Raises ImportError where one is there and does not load.
    """
    module = native.load()
    return None if module is None else Path(module.__file__)


def _describe_module(module: Path) -> dict[str, Any]:
    return {
        "file": module.name,
        "sha256": file_digest(module),
        "commit": native.build_info()["commit"],
    }
