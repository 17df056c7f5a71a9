"""Where the repository is: its data, its baseline, its results."""

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
