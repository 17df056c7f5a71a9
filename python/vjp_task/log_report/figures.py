"""The report's charts, each in light and dark, for wide and narrow screens."""

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator

from vjp_task.log_report.history import (
    KEPT,
    MARKS,
    NO_SCORE,
    REVERTED,
    TURNING,
    History,
    Version,
)

SHAPES = {TURNING: "*", KEPT: "o", REVERTED: "v", NO_SCORE: "X"}
_SIZES = {TURNING: 230, KEPT: 62, REVERTED: 62, NO_SCORE: 62}
_NOTE_LENGTH = 34  # characters of a note in a chart; the page's table has the whole
_CROWDED = 40  # versions above which only turning points and the last are named


@dataclass(frozen=True)
class Look:
    """How a chart is drawn."""

    dark: bool
    narrow: bool

    @property
    def ink(self) -> str:
        """Of text and axes."""
        return "#e6e9ef" if self.dark else "#1c2330"

    @property
    def faint(self) -> str:
        """Of grids."""
        return "#39414f" if self.dark else "#d9dee7"

    @property
    def ground(self) -> str:
        """Behind all of it; the page's own."""
        return "#14181f" if self.dark else "#ffffff"

    @property
    def colours(self) -> dict[str, str]:
        """By mark."""
        if self.dark:
            names = ("#ffb454", "#5aa9ff", "#9aa4b2", "#ff7b72")
        else:
            names = ("#c96a00", "#0b62c4", "#6b7482", "#c62828")
        return dict(zip(MARKS, names, strict=True))


Draw = Callable[[Look], Figure]


def by_time(history: History) -> Draw:
    """Speedup against hours since the first row."""
    return lambda look: _progress(history, look, "hours since the first version", _hours)


def by_version(history: History) -> Draw:
    """Speedup against version."""
    return lambda look: _progress(history, look, "version", _number)


def by_case(history: History, judged: dict[str, float]) -> Draw:
    """Speedup of each case: the visible panel's, and the held-out panel's where it was judged."""

    def draw(look: Look) -> Figure:
        best = history.with_cases
        series = {f"visible, {best.row.version}": best.cases} if best else {}
        series |= {"held out": judged} if judged else {}
        names = list(dict.fromkeys(name for values in series.values() for name in values))
        with _canvas(look, 3.6 + 0.25 * len(names) * (len(series) - 1)) as (figure, axes):
            height = 0.8 / max(1, len(series))
            colours = (look.colours[KEPT], look.colours[TURNING])
            for number, (label, values) in enumerate(series.items()):
                places = [i + (number - (len(series) - 1) / 2) * height for i in range(len(names))]
                lengths = [values.get(name, 0.0) for name in names]
                colour = colours[label == "held out"]
                bars = axes.barh(places, lengths, 0.92 * height, color=colour, label=label)
                axes.bar_label(
                    bars, [f"{x:.2f}x" for x in lengths], padding=4, color=look.ink, fontsize=9
                )
            axes.set_yticks(range(len(names)), names)
            axes.invert_yaxis()
            axes.margins(x=0.16)
            axes.axvline(1, color=look.ink, linewidth=1, linestyle=":")
            axes.set_xlabel("speedup over the baseline")
            axes.grid(axis="y", visible=False)
            if len(series) > 1:
                _legend(axes, look)
        return figure

    return draw


def last_versions(versions: list[Version]) -> Draw:
    """What each of the last versions gained, above the hours that it took."""

    def draw(look: Look) -> Figure:
        names = [v.row.version for v in versions]
        gains = [100 * ((v.gain or 1.0) - 1) for v in versions]
        with _canvas(look, 3.8, rows=2) as (figure, (top, bottom)):
            colours = [look.colours[v.mark] for v in versions]
            bars = top.bar(names, gains, 0.7, color=colours)
            labels = [
                f"{g:+.0f} %" if v.gain else "no score"
                for v, g in zip(versions, gains, strict=True)
            ]
            top.bar_label(bars, labels, padding=2, color=look.ink, fontsize=8)
            top.set_ylabel("gain on the best, %")
            top.margins(y=0.25)
            hours = bottom.bar(names, [v.spent for v in versions], 0.7, color=look.faint)
            spent = [f"{v.spent:.2g} h" for v in versions]
            bottom.bar_label(hours, spent, padding=2, color=look.ink, fontsize=8)
            bottom.set_ylabel("hours spent")
            bottom.margins(y=0.25)
            for axes in (top, bottom):
                axes.grid(axis="x", visible=False)
        return figure

    return draw


def as_svg(draw: Draw, look: Look) -> str:
    """The chart as SVG text, letters as shapes, so that it looks the same everywhere."""
    stream = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "path", "svg.hashsalt": "report"}):
        figure = draw(look)
        figure.savefig(stream, format="svg", metadata={"Date": None})
    plt.close(figure)
    return stream.getvalue()


def as_png(draw: Draw) -> bytes:
    """The wide, light chart at 160 dots an inch."""
    stream = io.BytesIO()
    figure = draw(Look(dark=False, narrow=False))
    figure.savefig(stream, format="png", dpi=160)
    plt.close(figure)
    return stream.getvalue()


def _hours(version: Version) -> float:
    return version.hours


def _number(version: Version) -> float:
    return float(version.row.version[1:])


def _progress(
    history: History, look: Look, label: str, place: Callable[[Version], float]
) -> Figure:
    """Points by mark, the best kept so far as a line, and names beside the points."""
    scored = [v for v in history.shown if v.speedup is not None]
    with _canvas(look, 4.6) as (figure, axes):
        top = max(v.speedup for v in scored)
        bottom = min(v.speedup for v in scored)
        if top > 5 * bottom:
            axes.set_yscale("log")
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        floor = bottom / (top / bottom) ** 0.18 if top > bottom else 0.9 * bottom
        line, best = [], 0.0
        for version in history.kept:
            best = max(best, version.speedup)
            line.append((place(version), best))
        last = max(place(v) for v in history.shown)
        line.append((last, best))
        axes.step(*zip(*line, strict=True), where="post", color=look.colours[KEPT], linewidth=1.4)
        for mark in reversed(MARKS):
            group = [v for v in history.shown if v.mark == mark]
            if group:
                axes.scatter(
                    [place(v) for v in group],
                    [v.speedup or floor for v in group],
                    s=_SIZES[mark],
                    marker=SHAPES[mark],
                    color=look.colours[mark],
                    edgecolors=look.ground,
                    linewidths=0.8,
                    label=mark,
                    zorder=3,
                )
        _name_points(axes, history, look, place, floor)
        axes.margins(x=0.08, y=0.16)
        axes.set_xlabel(label)
        axes.set_ylabel("geometric mean speedup")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}x"))
        axes.yaxis.set_minor_formatter(FuncFormatter(lambda y, _: ""))
        if place is _number:
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
            axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"v{x:g}"))
        _legend(axes, look)
    return figure


def _name_points(
    axes: Axes, history: History, look: Look, place: Callable[[Version], float], floor: float
) -> None:
    """Each point's version; a turning point's note too, where there is room."""
    shown = history.shown
    for version in shown:
        turning = version.mark == TURNING
        if len(shown) > _CROWDED and not turning and version is not shown[-1]:
            continue
        text = version.row.version
        if turning and not look.narrow:
            text += f"  {_short(version.row.note)}"
        right = place(version) > 0.6 * max(place(v) for v in shown)
        # a long text goes where the line of the best does not: before it above, after it below
        below = turning if not right else version.mark == REVERTED
        axes.annotate(
            text,
            (place(version), version.speedup or floor),
            xytext=(-7 if right else 8, -14 if below else 6),
            textcoords="offset points",
            ha="right" if right else "left",
            fontsize=8.5,
            color=look.ink,
        )


def _short(note: str) -> str:
    if len(note) <= _NOTE_LENGTH:
        return note
    return note[: _NOTE_LENGTH - 3].rsplit(" ", 1)[0].rstrip(" ,;:") + " ..."


@contextmanager
def _canvas(look: Look, height: float, rows: int = 1) -> Iterator[tuple[Figure, Axes]]:
    """A figure of the look, laid out when the block ends; height in inches where it is wide."""
    width = 4.6 if look.narrow else 9.2
    style = {
        "font.size": 10,
        "text.color": look.ink,
        "axes.labelcolor": look.ink,
        "axes.edgecolor": look.faint,
        "axes.facecolor": look.ground,
        "figure.facecolor": look.ground,
        "savefig.facecolor": look.ground,
        "xtick.color": look.ink,
        "ytick.color": look.ink,
        "grid.color": look.faint,
        "axes.grid": True,
        "axes.axisbelow": True,
        "axes.spines.top": False,
        "axes.spines.right": False,
    }
    with matplotlib.rc_context(style):
        figure, axes = plt.subplots(
            rows, 1, figsize=(width, height), layout="constrained", sharex=rows > 1
        )
        yield figure, axes
        figure.draw_without_rendering()


def _legend(axes: Axes, look: Look) -> None:
    axes.legend(
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
        ncols=2 if look.narrow else 4,
        frameon=False,
        labelcolor=look.ink,
    )
