"""Prints the include folder of pybind11: the package's, else the copy that torch ships."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path


def find_headers(packages: tuple[str, ...] = ("pybind11", "torch")) -> Path | None:
    """Returns the folder that holds pybind11/pybind11.h, or None; imports no package."""
    for package in packages:
        spec = importlib.util.find_spec(package)
        for folder in spec.submodule_search_locations or [] if spec else []:
            if (Path(folder) / "include" / "pybind11" / "pybind11.h").is_file():
                return Path(folder) / "include"
    return None


if __name__ == "__main__":
    include = find_headers()
    if include is None:
        sys.exit(
            f"pybind11: not installed in {sys.executable}; "
            f"run {sys.executable} -m pip install pybind11"
        )
    print(include)
