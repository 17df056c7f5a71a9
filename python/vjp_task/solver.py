"""Loads the operator from a solver file, by path."""

import hashlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ENTRY_POINT = "attention_varlen_feature_full_vjp"

Operator = Callable[..., Any]


def solver_file(path: Path) -> Path:
    """The solver file that `path` names: itself, or `solver.py` in it where it is a folder.

    Raises ValueError where there is no such file.
    """
    file = path / "solver.py" if path.is_dir() else path
    if not file.is_file():
        raise ValueError(f"solver: {path} is no file; a solver.py or its folder is needed")
    return file.resolve()


def load_solver(file: Path) -> Operator:
    """Imports the file, with its own folder on the path, and returns its entry point.

    Raises ValueError where the file defines none; whatever the file itself raises comes through.
    """
    name = f"vjp_solver_{hashlib.sha256(str(file).encode()).hexdigest()[:12]}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ValueError(f"solver: {file.name}; a Python file is needed")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(file.parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(file.parent))
    operator = getattr(module, ENTRY_POINT, None)
    if not callable(operator):
        raise ValueError(f"solver: {file.name} has no function {ENTRY_POINT}; one is needed")
    return operator


def file_digest(file: Path) -> str:
    """SHA-256 of a file's bytes, as hex."""
    return hashlib.sha256(file.read_bytes()).hexdigest()
