"""`methods/main/solver.py` by path, from an empty folder, in a process of its own."""

import os
import shutil
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
import ragged_attention

ROOT = Path(__file__).resolve().parents[2]
SOLVER = ROOT / "methods" / "main" / "solver.py"
PACKAGE = Path(ragged_attention.__file__).parent

# What an evaluator does: loads the file by its path and calls by position.
EVALUATOR = """
import importlib.util, pathlib, sys, warnings
warnings.simplefilter("ignore")
spec = importlib.util.spec_from_file_location("solver", sys.argv[1])
solver = importlib.util.module_from_spec(spec)
spec.loader.exec_module(solver)
import ragged_attention, torch
q = torch.ones(3, 2, 160, dtype=torch.float16)
k = torch.ones(4, 1, 160, dtype=torch.float16)
cu_q, cu_k = torch.tensor([0, 3], dtype=torch.int32), torch.tensor([0, 4], dtype=torch.int32)
got = solver.attention_varlen_feature_full_vjp(
    q, k, k, cu_q, cu_k, torch.ones(1, 2), q, False, -1, -1, 3.0, 0.75)
assert [tuple(t.shape) for t in got] == [(3, 2, 160)] * 2 + [(4, 1, 160)] * 2
assert torch.equal(got[0], q)
print(pathlib.Path(ragged_attention.__file__).parent)
"""


def package_used_by(solver, folder, python_path=""):
    environment = {n: v for n, v in os.environ.items() if n != "PYTHONPATH"}
    if python_path:
        environment["PYTHONPATH"] = str(python_path)
    result = subprocess.run(
        [sys.executable, "-c", EVALUATOR, str(solver)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    return Path(result.stdout.strip())


def copy_package(folder):
    shutil.copytree(PACKAGE, folder / "ragged_attention")
    return folder / "ragged_attention"


@pytest.fixture
def empty(tmp_path):
    folder = tmp_path / "empty"
    folder.mkdir()
    return folder


def test_the_package_beside_it_comes_first(tmp_path, empty):
    beside = tmp_path / "bundle"
    beside.mkdir()
    solver = shutil.copy(SOLVER, beside)
    installed = tmp_path / "site"
    installed.mkdir()
    copy_package(installed)
    expected = copy_package(beside)
    assert package_used_by(solver, empty, python_path=installed) == expected


def test_then_an_installed_one(tmp_path, empty):
    installed = copy_package(tmp_path)
    assert package_used_by(SOLVER, empty, python_path=tmp_path) == installed


@pytest.mark.skipif(
    "ragged_attention" in packages_distributions(),
    reason="a ragged_attention is installed, and comes before that of a checkout",
)
def test_then_that_of_its_checkout(tmp_path, empty):
    main = tmp_path / "methods" / "main"
    main.mkdir(parents=True)
    solver = shutil.copy(SOLVER, main)
    (tmp_path / "python").mkdir()
    checkout = copy_package(tmp_path / "python")
    assert package_used_by(solver, empty) == checkout
