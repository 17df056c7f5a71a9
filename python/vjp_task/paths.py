"""Where the repository's data and solvers are."""

import sys
from pathlib import Path

_MARK = Path("problems") / "family.json"


def repository() -> Path:
    """The repository's top folder: above this package, the script that runs, or the working folder.

    Raises FileNotFoundError where none of them has `problems/family.json`.
    """
    starts = (Path(__file__).resolve(), Path(sys.argv[0]).resolve(), Path.cwd())
    for start in starts:
        for folder in (start, *start.parents):
            if (folder / _MARK).is_file():
                return folder
    raise FileNotFoundError(
        f"{_MARK}: not above any of {', '.join(map(str, starts))}; "
        "a working folder inside the repository is needed"
    )


def family_file() -> Path:
    """The problem family."""
    return repository() / _MARK


def visible_cases_file() -> Path:
    """The visible panel: one fixed draw of every stratum."""
    return repository() / "problems" / "visible_cases.json"


def baseline_solver() -> Path:
    """The frozen eager baseline that every speedup refers to."""
    return repository() / "methods" / "baseline" / "solver.py"


def main_solver() -> Path:
    """The solver that is checked when none is named."""
    return repository() / "methods" / "main" / "solver.py"
