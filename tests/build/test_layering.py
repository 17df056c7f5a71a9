"""The shape of the repository: layers in one direction, files where they belong."""

import os
import re
import subprocess
from pathlib import Path

import pytest
import ragged_attention
from building import ROOT

FRAMEWORKS = r"torch/|ATen/|c10/|pybind11/|Python\.h|nanobind/"


def includes(file: Path) -> list[str]:
    """Returns what a C++ file includes."""
    return re.findall(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', file.read_text(), re.MULTILINE)


def cpp_files(folder: str) -> list[Path]:
    """Returns the C++ and CUDA files below a folder; there must be some."""
    files = [f for f in (ROOT / folder).rglob("*") if f.suffix in {".h", ".cuh", ".cu", ".cpp"}]
    assert files
    return files


def test_no_framework_below_the_bindings() -> None:
    found = [
        (str(file.relative_to(ROOT)), name)
        for file in cpp_files("cutlass_kernels")
        for name in includes(file)
        if re.match(FRAMEWORKS, name)
    ]
    assert found == []


def test_api_is_free_of_cute() -> None:
    assert [
        n for n in includes(ROOT / "cutlass_kernels/api.h") if re.match("cute|cutlass/", n)
    ] == []


def test_bindings_include_one_header_of_the_kernels() -> None:
    names = [name for file in cpp_files("python/bindings") for name in includes(file)]
    assert [n for n in names if n.startswith("cutlass_kernels/")] == ["cutlass_kernels/api.h"]
    assert [n for n in names if re.match("torch|ATen|c10|cute|cutlass/", n)] == []


def test_task_is_unknown_to_the_operator() -> None:
    files = list((ROOT / "python/ragged_attention").rglob("*.py"))
    assert files
    assert [f.name for f in files if "vjp_task" in f.read_text()] == []


def test_top_level() -> None:
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True
    ).stdout.splitlines()
    if not tracked:
        pytest.skip("not a git checkout")
    assert {name.split("/")[0] for name in tracked} <= {
        *{"cutlass_kernels", "python", "methods", "problems", "tests", "docs", "results"},
        *{"cmake", "CMakeLists.txt", "Makefile", "pyproject.toml", "selfcheck.py"},
        *{"README.md", "CHANGELOG.md", "LICENSE"},
        *{".ci", ".clang-format", ".gitignore"},
    }


def test_ci_entry_can_be_run() -> None:
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


def test_one_version() -> None:
    project = re.search(r"project\(\w+ VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())
    assert ragged_attention.__version__ == project[1]
