"""The experiment log's canonical form, and the log itself."""

import pytest
from vjp_task import paths
from vjp_task.experiment_log import COLUMNS, Row, header_lines, read_rows
from vjp_task.solver import file_digest

LOG = paths.repository() / "methods" / "experiment_log.md"
ROW = Row("v0", "2030-01-02T03:04:05+00:00", "", "running", "a card", "abc", "f" * 64, "", "why")


def write(path, *rows, header=None):
    lines = header if header is not None else header_lines()
    path.write_text("\n".join(["# Log", "", *lines, *rows]) + "\n")
    return path


def test_log_is_canonical_and_every_version_has_its_solver():
    rows = read_rows(LOG)
    assert rows[0].version == "v0"
    assert rows[0].result == "geometric mean 1.00x"
    for row in rows:
        solver = paths.repository() / "methods" / "versions" / row.version / "solver.py"
        assert file_digest(solver) == row.solver_sha256


def test_row_comes_back_as_it_was_written(tmp_path):
    rows = [ROW, Row("v1", *["x"] * 2, "kept", *["y z"] * 5)]
    assert read_rows(write(tmp_path / "log.md", *(row.to_line() for row in rows))) == rows


def test_cells_hold_no_separator_and_no_line_break():
    row = Row("v0", "a", "b", "failed", "c", "d", "e", "f", "one | two\nthree")
    assert row.to_line().count("|") == len(COLUMNS) + 1
    assert Row.from_line(row.to_line()).note == "one / two three"


@pytest.mark.parametrize(
    "line",
    [
        "| v0 | too | few |",
        ROW.to_line().replace("| running |", "| started |"),
        ROW.to_line().replace("| running |", "|  running |"),
        ROW.to_line() + " x |",
    ],
)
def test_row_that_is_not_canonical_is_refused(line):
    with pytest.raises(ValueError, match=r"^experiment log: .*; a row of version, .* is needed$"):
        Row.from_line(line)


def test_gap_in_the_versions_is_refused(tmp_path):
    skipped = ROW.to_line().replace("v0", "v2")
    log = write(tmp_path / "log.md", ROW.to_line(), skipped)
    with pytest.raises(ValueError, match=r"^experiment log: v2 in row 1; v1 is needed$"):
        read_rows(log)


def test_other_header_is_refused(tmp_path):
    log = write(tmp_path / "log.md", ROW.to_line(), header=["| version |", "|---|"])
    with pytest.raises(ValueError, match=r"^experiment log: log\.md has another header; .* needed"):
        read_rows(log)
