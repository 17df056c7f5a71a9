"""The few questions to git that the audit asks."""

import hashlib
import subprocess
from collections.abc import Iterable
from pathlib import Path


def is_checkout(folder: Path) -> bool:
    """Whether the folder is the top of a git checkout with at least one commit."""
    top = _git(folder, "rev-parse", "--show-toplevel")
    return bool(top) and Path(top.strip()).resolve() == folder.resolve() and has(folder, "HEAD")


def has(folder: Path, commit: str) -> bool:
    """Whether the checkout knows the commit."""
    return _git(folder, "cat-file", "-e", f"{commit}^{{commit}}") is not None


def versions_of(folder: Path, file: str) -> list[tuple[str, str]]:
    """Every committed text of a file, newest first, with the short hash of its commit."""
    commits = (_git(folder, "log", "--format=%h", "--", file) or "").split()
    texts = ((commit, _git(folder, "show", f"{commit}:{file}")) for commit in commits)
    return [(commit, text) for commit, text in texts if text is not None]


def rewritten(folder: Path, below: str) -> list[str]:
    """Files below a folder that a commit or the working tree changed, moved or removed."""
    kinds = ("--diff-filter=MDT", "--no-renames", "--name-only")
    committed = _git(folder, "log", "--format=", *kinds, "--", below) or ""
    uncommitted = _git(folder, "diff", *kinds, "HEAD", "--", below) or ""
    return sorted(set(committed.split("\n") + uncommitted.split("\n")) - {""})


def digests_at(folder: Path, commit: str, files: Iterable[str]) -> dict[str, str | None]:
    """SHA-256 of files as they were in a commit; None for one that it doesn't have."""
    files = list(files)
    request = "".join(f"{commit}:{file}\n" for file in files).encode()
    done = subprocess.run(
        ["git", "-C", str(folder), "cat-file", "--batch"], input=request, capture_output=True
    )
    digests, data = {}, done.stdout
    for file in files:
        header, _, data = data.partition(b"\n")
        if header.endswith(b" missing"):
            digests[file] = None
            continue
        size = int(header.split()[-1])
        digests[file] = hashlib.sha256(data[:size]).hexdigest()
        data = data[size + 1 :]
    return digests


def _git(folder: Path, *arguments: str) -> str | None:
    """What git prints; None where it fails or is missing."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout
