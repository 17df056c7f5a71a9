"""The report's page: one HTML file that needs no other."""

import base64
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Any

from vjp_task.log_report.figures import Draw, Look, as_svg
from vjp_task.log_report.history import (
    ANY_CARD,
    KEPT,
    NO_SCORE,
    REVERTED,
    TURNING,
    TURNING_POINT,
    History,
    Version,
)
from vjp_task.reward import reward

# As published for the sealed panel, measured on another card and another draw than ours.
PUBLISHED_CARD = "RTX A6000"
REFERENCE, UPPER = 13.78, 210.39  # speedups

LAST = 8  # versions that the last section looks at

_SYMBOLS = {TURNING: "★", KEPT: "●", REVERTED: "▼", NO_SCORE: "✕"}
_CLASSES = {TURNING: "turning", KEPT: "kept", REVERTED: "reverted", NO_SCORE: "none"}

Cell = tuple[str, str]  # HTML, class


def make_page(history: History, judged: dict[str, Any] | None, charts: dict[str, Draw]) -> str:
    """The page's text; `charts` by name: time, version, last, and case where there are figures."""
    sections = [
        _heading(history, judged),
        _section(
            "Speedup against time",
            _picture(charts["time"], "speedup against elapsed time"),
            "<p class=soft>A turning point is a kept version at least "
            f"{TURNING_POINT:g} times as fast as all before it. The line is the best kept so far; "
            "versions without a score stand below it. Every point's note is in the table.</p>",
        ),
        _section("Speedup against version", _picture(charts["version"], "speedup against version")),
        _section("Versions", _versions(history)),
        _section("Held-out panel", _held_out(judged)),
    ]
    if "case" in charts:
        picture = _picture(charts["case"], "speedup of each case")
        sections.append(_section("Speedup by case", picture))
    if history.last(1):
        picture = _picture(charts["last"], "gain and time of the last versions")
        sections.append(
            _section("What the last versions bought", _bought(history), picture, _gains(history))
        )
    style = Path(__file__).with_name("page.css").read_text()
    return (
        "<!doctype html>\n<html lang=en>\n<head>\n<meta charset=utf-8>\n"
        '<meta name=viewport content="width=device-width, initial-scale=1">\n'
        f"<title>Experiment log</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        + "\n".join(sections)
        + "\n</body>\n</html>\n"
    )


def held_out_rows(judged: dict[str, Any] | None) -> list[tuple[str, str, str]]:
    """The held-out table: who, speedup, reward."""
    rows = [
        ("baseline (by definition)", "1.00x", f"{reward(1.0, REFERENCE, UPPER):.2f}"),
        (
            f"human reference (published, {PUBLISHED_CARD})",
            f"{REFERENCE:.2f}x",
            f"{reward(REFERENCE, REFERENCE, UPPER):.2f}",
        ),
        (
            f"upper proxy (published, {PUBLISHED_CARD})",
            f"{UPPER:.2f}x",
            f"{reward(UPPER, REFERENCE, UPPER):.2f}",
        ),
    ]
    if judged is None:
        return [*rows, ("this run", "not judged yet", "-")]
    who = f"this run ({judged['machine']['card']})"
    return [*rows, (who, f"{judged['score']:.2f}x", f"{_reward_of(judged):.2f}")]


def _reward_of(judged: dict[str, Any]) -> float:
    """The judge's; where its panel has no marks, by the published ones, averaged over the cases."""
    if judged["reward"] is not None:
        return judged["reward"]
    rewards = [reward(case["speedup"], REFERENCE, UPPER) for case in judged["cases"]]
    return sum(rewards) / len(rewards) if rewards else 0.0


def _heading(history: History, judged: dict[str, Any] | None) -> str:
    best, versions = history.best, history.versions
    facts = {
        "best version": best.row.version,
        "its speedup": f"{best.speedup:.2f}x",
        "versions": str(len(versions)),
        "elapsed": _duration(versions[-1].hours),
    }
    if judged:
        facts["held-out score"] = f"{judged['score']:.2f}x"
    boxes = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>"
        for name, value in facts.items()
    )
    others = len(versions) - len(history.shown)
    left_out = f" {others} versions of other settings are in the table only." if others else ""
    return (
        "<h1>Experiment log</h1>\n"
        "<p>Speedup over the frozen eager baseline, geometric mean over the visible panel's cases. "
        f"Charts show {escape(str(history.setting))}.{left_out}</p>\n"
        f"<dl class=facts>{boxes}</dl>"
    )


def _versions(history: History) -> str:
    header = (
        "version",
        "mark",
        "result",
        "ms",
        "best x",
        "after",
        "spent",
        "card",
        "commit",
        "note",
    )
    rows = []
    for version in history.versions:
        row, gain = version.row, version.gain
        card = "any" if row.card == ANY_CARD else str(version.setting)
        rows.append(
            [
                (escape(row.version), "name"),
                (_mark(version), ""),
                (_result(version), "result"),
                (f"{version.latency_ms:.2f}" if version.latency_ms else "-", "number"),
                (f"{gain:.2f}" if gain and gain > 1 else "-", "number"),
                (_duration(version.hours), "number"),
                (_duration(version.spent), "number"),
                (escape(card), "small"),
                (escape(row.commit or "-"), "small"),
                (escape(row.note or "-"), "note"),
            ]
        )
    return _table(header, rows) + (
        "<p class=soft>ms: a call, geometric mean over the cases. A speedup is over the baseline "
        "as timed in the same run, and the baseline's many small launches depend on the machine's "
        "processor: between machines, latencies compare better than speedups.</p>"
    )


def _held_out(judged: dict[str, Any] | None) -> str:
    rows = [
        [(escape(who), "name"), (speedup, "number"), (value, "number")]
        for who, speedup, value in held_out_rows(judged)
    ]
    text = (
        "The published figures were measured on another card and another draw of the family. "
        "Rewards run from 0 at the baseline over 0.6 at the human reference to 1 at the upper proxy"
    )
    if judged is None:
        text += "."
    elif judged["reward"] is None:
        text += "; this run's is the mean over its cases, by the published figures."
    else:
        text += "; this run's is the mean over its cases, by its own panel's figures."
    return _table(("who", "speedup", "reward"), rows) + f"<p class=soft>{text}</p>"


def _bought(history: History) -> str:
    """One sentence on the last versions."""
    last = history.last(LAST)
    spent, total = sum(v.spent for v in last), 1.0
    for version in last:
        total *= version.gain or 1.0
    unscored = sum(v.speedup is None for v in last)
    tail = f"; {unscored} of them gave no score" if unscored else ""
    which = f"last {len(last)} versions" if len(last) > 1 else "last version"
    return (
        f"<p>The {which} took {_duration(spent)} and multiplied the best speedup "
        f"by {total:.2f}{tail}.</p>"
    )


def _gains(history: History) -> str:
    header = ("version", "mark", "speedup", "best before", "gain", "spent", "gain an hour")
    rows = []
    for version in history.last(LAST):
        gain = None if version.gain is None else 100 * (version.gain - 1)
        rate = gain / version.spent if gain and version.spent else 0.0
        rows.append(
            [
                (escape(version.row.version), "name"),
                (_mark(version), ""),
                ("-" if version.speedup is None else f"{version.speedup:.2f}x", "number"),
                (f"{version.before:.2f}x", "number"),
                ("-" if gain is None else f"{gain:.1f} %", "number"),
                (_duration(version.spent), "number"),
                (f"{rate:.1f} %" if rate else "-", "number"),
            ]
        )
    return _table(header, rows)


def _mark(version: Version) -> str:
    text = f"{_SYMBOLS[version.mark]} {version.mark}"
    return f'<span class="mark {_CLASSES[version.mark]}">{text}</span>'


def _result(version: Version) -> str:
    if version.row.status == "running":
        return "stopped before its end"
    return escape(version.row.result) if version.speedup is None else f"{version.speedup:.2f}x"


def _duration(hours: float) -> str:
    if hours < 1:
        return f"{60 * hours:.0f} min"
    return f"{hours:.1f} h"


def _section(title: str, *parts: str) -> str:
    return f"<section>\n<h2>{escape(title)}</h2>\n" + "\n".join(parts) + "\n</section>"


def _table(header: Iterable[str], rows: Iterable[list[Cell]]) -> str:
    """A table that becomes a list of cards on a narrow screen."""
    header = list(header)
    rows = list(rows)
    classes = [kind for _, kind in rows[0]]
    head = "".join(
        f'<th class="{kind}">{escape(name)}</th>'
        for name, kind in zip(header, classes, strict=True)
    )
    body = "\n".join(
        "<tr>"
        + "".join(
            f'<td class="{kind}{" empty" if html == "-" else ""}" data-label="{escape(name)}">'
            f"<span>{html}</span></td>"
            for name, (html, kind) in zip(header, row, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    return (
        f"<table class=stack>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"
    )


def _picture(draw: Draw, description: str) -> str:
    """The chart in four looks, of which the browser takes the one that suits."""
    narrow = "(max-width: 42rem)"
    sources = []
    for look, media in (
        (Look(dark=True, narrow=True), f"{narrow} and (prefers-color-scheme: dark)"),
        (Look(dark=False, narrow=True), narrow),
        (Look(dark=True, narrow=False), "(prefers-color-scheme: dark)"),
    ):
        sources.append(f'<source media="{media}" srcset="{_data(as_svg(draw, look))}">')
    plain = _data(as_svg(draw, Look(dark=False, narrow=False)))
    return (
        "<figure><picture>\n"
        + "\n".join(sources)
        + f'\n<img src="{plain}" alt="{escape(description)}">\n</picture></figure>'
    )


def _data(svg: str) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"
