"""Breaches of the rules seen while a solver runs, each with the solver's line at fault."""

import sys
import sysconfig
from pathlib import Path
from types import FrameType

_LIBRARY = tuple(str(Path(sysconfig.get_path(name)).resolve()) for name in ("stdlib", "platstdlib"))
PACKAGE_FOLDERS = ("site-packages", "dist-packages")


class Findings:
    """Collects breaches; the same one on the same line counts once."""

    def __init__(self, solver: Path) -> None:
        self._solver = str(solver) + "/"
        self._found: dict[tuple[str, str, int, str], None] = {}

    def add(self, rule: str, what: str, frame: FrameType | None = None) -> None:
        """Notes a breach, at the nearest line of the solver's own files from `frame` outwards."""
        file, line = self.place(frame or sys._getframe(1))
        self._found.setdefault((rule, file, line, what[:300]))

    def to_json(self) -> list[dict[str, str | int]]:
        """All of them so far."""
        return [
            {"rule": rule, "file": file, "line": line, "what": what}
            for rule, file, line, what in self._found
        ]

    def place(self, frame: FrameType | None) -> tuple[str, int]:
        """The solver's file and line; ("", 0) where no frame is the solver's."""
        while frame is not None:
            if self.is_solver(frame):
                return frame.f_code.co_filename.removeprefix(self._solver), frame.f_lineno
            frame = frame.f_back
        return "", 0

    def is_solver(self, frame: FrameType | None) -> bool:
        """Whether the frame runs a file of the solver's."""
        return frame is not None and frame.f_code.co_filename.startswith(self._solver)

    def caller(self, frame: FrameType | None) -> FrameType | None:
        """The nearest frame that belongs to no part of the standard library."""
        while frame is not None and _is_standard(frame.f_code.co_filename):
            frame = frame.f_back
        return frame


def _is_standard(file: str) -> bool:
    if file.startswith("<frozen"):
        return True
    return file.startswith(_LIBRARY) and not any(part in file for part in PACKAGE_FOLDERS)
