"""The experiment log: one table row per recorded version, in `methods/experiment_log.md`.

The table's canonical form: COLUMNS as its header, rows v0, v1, ... without a gap, one space on
either side of each cell, no `|` inside one, `-` for an empty one.
"""

from dataclasses import astuple, dataclass
from pathlib import Path

from vjp_task import durable

COLUMNS = (
    "version",
    "started (UTC)",
    "finished (UTC)",
    "status",
    "card",
    "commit",
    "solver SHA-256",
    "result",
    "note",
)

# A row says `running` from before its run until it is completed, so a killed run shows.
STATUSES = ("running", "kept", "reverted", "failed")

EMPTY = "-"

UNFINISHED = "unfinished"  # the result of a row whose run has not ended, or was killed


@dataclass(frozen=True)
class Row:
    """One version; an empty string where nothing is known."""

    version: str  # "v0", "v1", ...
    started: str  # ISO 8601, UTC, seconds
    finished: str  # ISO 8601, UTC, seconds
    status: str  # one of STATUSES
    card: str
    commit: str
    solver_sha256: str  # of methods/versions/<version>/solver.py
    result: str  # "geometric mean <value>x", or what failed
    note: str

    def to_line(self) -> str:
        """The table row, canonical: `from_line` gives the same row back."""
        cells = (" ".join(cell.replace("|", "/").split()) or EMPTY for cell in astuple(self))
        return f"| {' | '.join(cells)} |"

    @staticmethod
    def from_line(line: str) -> "Row":
        """Reads a table row. Raises ValueError for one that is not canonical."""
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == len(COLUMNS):
            row = Row(*("" if cell == EMPTY else cell for cell in cells))
            if row.to_line() == line and row.status in STATUSES:
                return row
        raise ValueError(f"experiment log: {line!r}; a row of {', '.join(COLUMNS)} is needed")


def header_lines() -> tuple[str, str]:
    """The table's first two lines."""
    return f"| {' | '.join(COLUMNS)} |", "|" + "---|" * len(COLUMNS)


def read_rows(path: Path) -> list[Row]:
    """All rows, in order.

    Raises ValueError where the header or a row is not canonical, or a version is missing.
    """
    table = [line for line in path.read_text().splitlines() if line.startswith("|")]
    if tuple(table[:2]) != header_lines():
        raise ValueError(f"experiment log: {path.name} has another header; {COLUMNS} is needed")
    rows = [Row.from_line(line) for line in table[2:]]
    for number, row in enumerate(rows):
        if row.version != f"v{number}":
            raise ValueError(f"experiment log: {row.version} in row {number}; v{number} is needed")
    return rows


def append_row(path: Path, row: Row) -> None:
    """Adds the next version's row, in one durable step.

    Raises ValueError where the log is not canonical or the row's version is not the next.
    """
    rows = read_rows(path)
    if row.version != f"v{len(rows)}":
        raise ValueError(f"experiment log: {row.version} to append; v{len(rows)} is needed")
    lines = path.read_text().splitlines()
    last = max(n for n, line in enumerate(lines) if line.startswith("|"))
    _write(path, [*lines[: last + 1], row.to_line(), *lines[last + 1 :]])


def complete_row(path: Path, row: Row) -> None:
    """Replaces the last row, which must be this version's and still `running`, in one durable step.

    Raises ValueError for any other row: what is complete stays as it is.
    """
    rows = read_rows(path)
    if not rows or rows[-1].version != row.version or rows[-1].status != "running":
        raise ValueError(
            f"experiment log: {row.version} to complete; the last row, still running, is needed"
        )
    lines = path.read_text().splitlines()
    last = max(n for n, line in enumerate(lines) if line.startswith("|"))
    _write(path, [*lines[:last], row.to_line(), *lines[last + 1 :]])


def _write(path: Path, lines: list[str]) -> None:
    durable.write_text(path, "\n".join(lines) + "\n")
