"""Where the repository's data and solvers are."""

from pathlib import Path

from ragged_attention.bench.repository import repository

EXPERIMENT_LOG = "methods/experiment_log.md"  # seen from the repository


def family_file() -> Path:
    """The problem family."""
    return repository() / "problems" / "family.json"


def visible_cases_file() -> Path:
    """The visible panel: one fixed draw of every stratum."""
    return repository() / "problems" / "visible_cases.json"


def baseline_solver() -> Path:
    """The frozen eager baseline that every speedup refers to."""
    return repository() / "methods" / "baseline" / "solver.py"


def main_solver() -> Path:
    """The solver that is checked when none is named."""
    return repository() / "methods" / "main" / "solver.py"


def methods() -> Path:
    """The folder of solvers, recorded versions and the experiment log."""
    return repository() / "methods"
