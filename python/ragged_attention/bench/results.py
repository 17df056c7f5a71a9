"""The JSON of a run: assembled, summed up, written, read."""

import datetime
import json
import math
import re
from pathlib import Path
from typing import Any

from ragged_attention.bench.floor import FLOP_PER_GEMM

Report = dict[str, Any]

_NEEDED = ("card", "commit", "command", "ceilings", "strata")


def assemble(
    machine: dict[str, Any],
    command: str,
    ceilings: dict[str, float],
    strata: list[dict[str, Any]],
    extras: dict[str, Any] | None,
    complete: bool,
) -> Report:
    """All of a run as plain data. Complete: all strata and methods, with all samples."""
    return {
        "card": machine["card"],
        "commit": machine["commit"],
        "command": command,
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "machine": machine,
        "complete": complete,
        "ceilings": ceilings,
        "strata": strata,
        "summary": summary(strata),
        "timing_build": timing_build(strata, ceilings, machine["mma_repeat"]),
        "extras": extras,
    }


def summary(strata: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Figures over the strata, per method that has a right and timed result in all of them.

    `over_floor` is the geometric mean of time / floor and `worst_over_floor` the largest;
    `speedup` is the geometric mean of every other method's time over this one's, by its name.
    """
    times: dict[str, list[float]] = {}
    for name in strata[0]["methods"] if strata else ():
        entries = [stratum["methods"][name] for stratum in strata]
        if all(entry["ok"] and entry["ms"] for entry in entries):
            times[name] = [entry["ms"] for entry in entries]
    floors = [stratum["floor_ms"] for stratum in strata]
    return {
        name: {
            "over_floor": geometric_mean(ratios(ms, floors)),
            "worst_over_floor": max(ratios(ms, floors)),
            "speedup": {
                other: geometric_mean(ratios(other_ms, ms))
                for other, other_ms in times.items()
                if other != name
            },
        }
        for name, ms in times.items()
    }


_SLOWER_CARDS = ("ours_sm86",)  # methods whose products `sm86_gemms` counts


def timing_build(
    strata: list[dict[str, Any]], ceilings: dict[str, float], mma_repeat: int | None
) -> dict[str, Any] | None:
    """How much of a slower card's tensor peak the sm86 row reaches; None for an ordinary build.

    A build that issues each tensor instruction n times stands in for a card whose peak is the
    ceiling / n. Per method and stratum, `of_peak` is the part of that peak which the whole call and
    each kernel reach, with the products that they really compute counted once.
    """
    if mma_repeat in (None, 1):
        return None
    flop_per_ms = 1e9 * ceilings["mma_tflops"] / mma_repeat
    of_peak: dict[str, dict[str, dict[str, float]]] = {}
    for stratum in strata:
        for name in _SLOWER_CARDS:
            entry = stratum["methods"].get(name)
            if not entry or not entry["ms"] or not entry["kernels"]:
                continue
            ideal_ms = {
                kernel: stratum["logits"] * gemms * FLOP_PER_GEMM / flop_per_ms
                for kernel, gemms in stratum["sm86_gemms"].items()
            }
            of_peak.setdefault(name, {})[stratum["name"]] = {
                "call": sum(ideal_ms.values()) / entry["ms"],
                **{k: ms / (entry["ms"] * entry["kernels"][k]) for k, ms in ideal_ms.items()},
            }
    return {"mma_repeat": mma_repeat, "of_peak": of_peak}


def any_wrong(report: Report, names: list[str]) -> bool:
    """Whether one of these methods gave a wrong result somewhere, or none because it failed."""
    entries = [s["methods"][n] for s in report["strata"] for n in names if n in s["methods"]]
    return any(entry["ok"] is False or entry["status"] == "failed" for entry in entries)


def ratios(above: list[float], below: list[float]) -> list[float]:
    """Element by element."""
    return [a / b for a, b in zip(above, below, strict=True)]


def geometric_mean(values: list[float]) -> float:
    """Of at least one positive number."""
    return math.exp(sum(map(math.log, values)) / len(values))


def default_file(report: Report, folder: Path) -> Path:
    """`<folder>/<card>/<date>-<commit>.json`, in letters that every file system takes.

    A run that is not complete gets `-part` before the suffix, so that it replaces none that is.
    """
    card = re.sub(r"[^A-Za-z0-9]+", "-", report["card"]).strip("-").lower()
    part = "" if report["complete"] else "-part"
    return folder / card / f"{report['date'][:10]}-{report['commit'] or 'unknown'}{part}.json"


def write(report: Report, file: Path) -> None:
    """Writes the report; makes the folder where there is none."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(report, indent=2, allow_nan=False) + "\n")


def read(file: Path) -> Report:
    """Reads a report. Raises ValueError where the file is no report of this benchmark."""
    try:
        report = json.loads(file.read_text())
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        reason = f"{file} cannot be read ({error})"
        raise ValueError(f"show: {reason}; a result file is needed") from error
    missing = [name for name in _NEEDED if not isinstance(report, dict) or name not in report]
    if missing:
        raise ValueError(f"show: {file} has no {', '.join(missing)}; a result file is needed")
    return report
