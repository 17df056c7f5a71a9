"""The plots of a report, as PNG files: roofline, time over floor, scaling with size."""

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ragged_attention.bench.results import Report


def draw(report: Report, stem: Path) -> list[Path]:
    """Writes `<stem>-roofline.png`, `<stem>-floor.png` and, where extras were measured,
    `<stem>-scaling.png`; returns their paths."""
    plots = {"roofline": roofline, "floor": over_floor}
    if report["extras"]:
        plots["scaling"] = scaling
    files = []
    stem.parent.mkdir(parents=True, exist_ok=True)
    for name, make in plots.items():
        file = stem.with_name(f"{stem.name}-{name}.png")
        figure = make(report)
        figure.savefig(file, dpi=150)
        plt.close(figure)
        files.append(file)
    return files


def roofline(report: Report) -> Figure:
    """Rate against arithmetic intensity, all methods and strata, under the two ceilings."""
    figure, axes = plt.subplots(figsize=(8, 5), layout="constrained")
    mma, copy = report["ceilings"]["mma_tflops"], report["ceilings"]["copy_tbps"]
    intensities = [s["flop"] / s["bytes"] for s in report["strata"]]
    x = np.geomspace(min(intensities) / 2, max(intensities) * 2, 200)
    axes.plot(x, np.minimum(mma, copy * x), color="black", linewidth=1.5)
    axes.annotate(
        f"mma.sync {mma:.0f} TFLOP/s, copy {copy:.2f} TB/s",
        (x[-1], mma), xytext=(-4, -12), textcoords="offset points", ha="right", fontsize=8,
    )  # fmt: skip
    for color, name in zip(_colors(report), _timed(report), strict=True):
        points = [
            (s["flop"] / s["bytes"], s["methods"][name]["tflops"])
            for s in report["strata"]
            if s["methods"][name]["ms"]
        ]
        axes.plot(*zip(*points, strict=True), "o", color=color, markersize=6, label=name)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("FLOP per byte, each tensor moved once")
    axes.set_ylabel("TFLOP/s at seven products")
    _finish(axes, report, "Roofline")
    return figure


def over_floor(report: Report) -> Figure:
    """Time over floor, by stratum and method."""
    figure, axes = plt.subplots(figsize=(10, 5), layout="constrained")
    names, strata = _timed(report), report["strata"]
    width = 0.8 / max(1, len(names))
    for i, (color, name) in enumerate(zip(_colors(report), names, strict=True)):
        ratios = [
            s["methods"][name]["ms"] / s["floor_ms"] if s["methods"][name]["ms"] else np.nan
            for s in strata
        ]
        places = np.arange(len(strata)) + (i - (len(names) - 1) / 2) * width
        bars = axes.bar(places, ratios, width, color=color, label=name)
        labels = [f"{r:.1f}" if np.isfinite(r) else "" for r in ratios]
        axes.bar_label(bars, labels, fontsize=6, rotation=90, padding=2)
    axes.axhline(1, color="black", linewidth=1)
    axes.set_yscale("log")
    axes.margins(y=0.15)
    axes.set_ylim(bottom=0.8)
    axes.set_xticks(np.arange(len(strata)), [s["name"] for s in strata], fontsize=8)
    axes.set_ylabel("time / floor")
    _finish(axes, report, "Time over floor")
    return figure


def scaling(report: Report) -> Figure:
    """Time per logit against the number of logits."""
    figure, axes = plt.subplots(figsize=(8, 5), layout="constrained")
    for name, figures in report["extras"].items():
        points: list[dict[str, Any]] = figures["scaling"]["points"]
        logits = [p["logits"] for p in points]
        (line,) = axes.plot(logits, [p["ps_per_logit"] for p in points], "o-", label=name)
        floor = [1e9 * p["floor_ms"] / p["logits"] for p in points]
        axes.plot(logits, floor, "--", color=line.get_color(), linewidth=1, label=f"{name}: floor")
    axes.axvline(5e7, color="grey", linewidth=0.8, linestyle=":")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("logits in a call")
    axes.set_ylabel("ps per logit")
    _finish(axes, report, "Scaling with size")
    return figure


def _timed(report: Report) -> list[str]:
    """Methods with at least one time."""
    strata = report["strata"]
    return [n for n in strata[0]["methods"] if any(s["methods"][n]["ms"] for s in strata)]


def _colors(report: Report) -> list[Any]:
    return [plt.get_cmap("tab10")(i) for i in range(len(_timed(report)))]


def _finish(axes: Axes, report: Report, title: str) -> None:
    axes.set_title(f"{title}: {report['card']}, commit {report['commit']}", fontsize=10)
    axes.grid(True, which="both", linewidth=0.3)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=8)
