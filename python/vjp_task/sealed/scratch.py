"""Copies of a submitted folder: what the judge reads, scans and runs."""

import hashlib
import os
import shutil
import stat
from pathlib import Path

SOLVER_FILE = "solver.py"
_SKIPPED_FOLDERS = ("__pycache__", ".git")
_MOST_BYTES = 256 << 20


def copy_submission(source: Path, target: Path) -> None:
    """Copies regular files and folders; caches of compiled Python are left out.

    Raises ValueError for a link, a special file, more than 256 MiB, or no `solver.py`.
    """
    if source.is_symlink() or not source.is_dir():
        raise ValueError(f"solver: {source} is no folder; one with a {SOLVER_FILE} is needed")
    target.mkdir(parents=True)
    total = 0
    for folder, names, files in os.walk(source):
        here = Path(folder)
        names[:] = sorted(name for name in names if name not in _SKIPPED_FOLDERS)
        for name in [*names, *sorted(files)]:
            path = here / name
            mode = path.lstat().st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                kind = "a link" if stat.S_ISLNK(mode) else "a special file"
                shown = path.relative_to(source)
                raise ValueError(f"solver: {shown} is {kind}; only regular files are taken")
            copy = target / path.relative_to(source)
            if stat.S_ISDIR(mode):
                copy.mkdir()
                continue
            total += path.lstat().st_size
            if total > _MOST_BYTES:
                raise ValueError(f"solver: {total} bytes; at most {_MOST_BYTES} are taken")
            _copy_file(path, copy)
    if not (target / SOLVER_FILE).is_file():
        raise ValueError(f"solver: {source} has no {SOLVER_FILE}; one is needed")


def tree_digest(folder: Path) -> str:
    """SHA-256 over names and contents of all files under a folder."""
    total = hashlib.sha256()
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        total.update(f"{file.relative_to(folder)}\0{file.stat().st_size}\0".encode())
        total.update(file.read_bytes())
    return total.hexdigest()


def _copy_file(source: Path, target: Path) -> None:
    """Copies what was looked at: a link put in its place meanwhile is not followed."""
    handle = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(handle, "rb") as stream, target.open("xb") as copy:
        shutil.copyfileobj(stream, copy)
