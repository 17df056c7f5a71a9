"""The experiment log as a history: what each version gave, when, and what it bought."""

import json
import math
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from vjp_task.audit import GEOMETRIC_MEAN
from vjp_task.experiment_log import Row, read_rows
from vjp_task.record import RESULT_FILE

# A kept version that beats all before it by this factor is a turning point.
TURNING_POINT = 1.25

KEPT, REVERTED, NO_SCORE, TURNING = "kept", "reverted", "no score", "turning point"
MARKS = (TURNING, KEPT, REVERTED, NO_SCORE)

ANY_CARD = "any"  # of a row that holds on every card: the baseline's


@dataclass(frozen=True)
class Setting:
    """What makes two speedups comparable."""

    card: str
    scale: float  # factor on the visible panel's lengths and batch

    def __str__(self) -> str:
        return self.card + (f", lengths and batch times {self.scale:g}" if self.scale != 1 else "")


@dataclass(frozen=True)
class Version:
    """One row of the log in its place in the history."""

    row: Row
    mark: str  # one of MARKS
    speedup: float | None  # None without a score
    hours: float  # from the first row's end to this one's, or to its start if it has no end
    spent: float  # hours since the row before it ended: its development and its run
    before: float  # best speedup kept before it, in its setting
    setting: Setting
    cases: dict[str, float]  # speedup by case; empty without figures
    latency_ms: float | None  # geometric mean over the cases; None without a figure for each

    @property
    def gain(self) -> float | None:
        """How far it moved the best speedup kept, as a factor; 1 unless it was kept and better."""
        if self.speedup is None:
            return None
        kept = self.mark in (KEPT, TURNING)
        return max(1.0, self.speedup / self.before) if kept else 1.0


@dataclass(frozen=True)
class History:
    """All versions, and the setting that the charts show."""

    versions: list[Version]
    setting: Setting

    @property
    def shown(self) -> list[Version]:
        """The versions of the shown setting, those that hold on every card, those without score."""
        return [
            v
            for v in self.versions
            if v.speedup is None or v.row.card == ANY_CARD or v.setting == self.setting
        ]

    @property
    def best(self) -> Version:
        """The fastest version shown that was kept."""
        return max(self.kept, key=lambda v: v.speedup)

    @property
    def kept(self) -> list[Version]:
        """The versions shown that were kept, in order."""
        return [v for v in self.shown if v.mark in (KEPT, TURNING)]

    @property
    def with_cases(self) -> Version | None:
        """The last kept version shown that has figures by case."""
        return next((v for v in reversed(self.kept) if v.cases), None)

    def last(self, count: int) -> list[Version]:
        """The last versions, without the first of all, which was inherited."""
        return self.versions[1:][-count:]


def read_history(methods: Path) -> History:
    """Reads the log and the results beside the snapshots.

    Raises ValueError where the log is not canonical or has no version that was kept with a score.
    """
    rows = read_rows(methods / "experiment_log.md")
    versions: list[Version] = []
    best: dict[Setting, float] = {}
    for row in rows:
        figures = _figures(methods / "versions" / row.version / RESULT_FILE)
        setting = Setting(row.card, figures.get("scale", 1.0))
        before = max(best.get(setting, 1.0), best.get(Setting(ANY_CARD, 1.0), 1.0))
        found = GEOMETRIC_MEAN.fullmatch(row.result)
        speedup = float(found[1]) if found else None
        mark = _mark(row, speedup, before)
        if mark in (KEPT, TURNING):
            best[setting] = max(before, speedup)
        cases = {case["name"]: case["speedup"] for case in figures.get("cases", [])}
        previous = versions[-1].row if versions else row
        versions.append(
            Version(
                row=row,
                mark=mark,
                speedup=speedup,
                hours=_hours(_end(rows[0]), _end(row)),
                spent=_hours(_end(previous), _end(row)),
                before=before,
                setting=setting,
                cases={name: value for name, value in cases.items() if value},
                latency_ms=_latency_ms(figures.get("cases", [])),
            )
        )
    scored = [v for v in versions if v.mark in (KEPT, TURNING)]
    if not scored:
        raise ValueError("experiment log: no version was kept with a score; one is needed")
    measured = [v for v in scored if v.row.card != ANY_CARD] or scored
    return History(versions, measured[-1].setting)


def read_judged(file: Path) -> dict[str, Any]:
    """What judge wrote: score, reward, machine, cases. Raises ValueError for another file."""
    try:
        judged = json.loads(file.read_text())
        missing = {"score", "reward", "passed", "machine", "cases"} - set(judged)
    except (OSError, ValueError, TypeError) as error:
        raise ValueError(f"judged: {file} ({error}); the JSON of judge is needed") from error
    if missing:
        raise ValueError(f"judged: {file} has no {sorted(missing)[0]}; the JSON of judge is needed")
    return judged


def _mark(row: Row, speedup: float | None, before: float) -> str:
    if speedup is None or row.status not in ("kept", "reverted"):
        return NO_SCORE if speedup is None else REVERTED
    if row.status == "reverted":
        return REVERTED
    return TURNING if speedup >= TURNING_POINT * before else KEPT


def _figures(file: Path) -> dict[str, Any]:
    return json.loads(file.read_text()) if file.is_file() else {}


def _latency_ms(cases: list[dict[str, Any]]) -> float | None:
    times = [case.get("candidate_ms") for case in cases]
    return math.exp(sum(map(math.log, times)) / len(times)) if times and all(times) else None


def _end(row: Row) -> str:
    return row.finished or row.started


def _hours(start: str, end: str) -> float:
    return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds() / 3600
