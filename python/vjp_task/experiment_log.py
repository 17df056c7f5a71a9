"""The experiment log: one table row per recorded version, in `methods/experiment_log.md`.

The table's canonical form: COLUMNS as its header, rows v0, v1, ... without a gap, one space on
either side of each cell, no `|` inside one, `-` for an empty one.
"""

from dataclasses import astuple, dataclass
from pathlib import Path

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
