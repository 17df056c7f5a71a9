"""Writes files so that a kill or a power cut leaves the old content or the new, never a mix."""

import os
import shutil
from pathlib import Path

TEMPORARY = ".next"  # suffix of a file that is not in its place yet


def write_text(file: Path, text: str) -> None:
    """Replaces the file's content in one step, on the disk when this returns."""
    temporary = file.with_name(file.name + TEMPORARY)
    with temporary.open("w", encoding="utf-8", newline="") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(temporary, file)
    sync_folder(file.parent)


def copy_file(source: Path, target: Path) -> None:
    """Copies bytes into a new file, on the disk when this returns."""
    with source.open("rb") as reader, target.open("xb") as writer:
        shutil.copyfileobj(reader, writer)
        writer.flush()
        os.fsync(writer.fileno())


def move_folder(source: Path, target: Path) -> None:
    """Puts a finished folder in its place in one step; an old `target` is removed first."""
    sync_folder(source)
    shutil.rmtree(target, ignore_errors=True)
    os.replace(source, target)
    sync_folder(target.parent)


def sync_folder(folder: Path) -> None:
    """Makes the names in a folder as durable as the files' contents."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
