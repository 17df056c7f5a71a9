"""What a run prints."""

from typing import Any

from rich.table import Table

from ragged_attention.bench.results import Report

_TITLE = (
    "ms: median; TFLOP/s: at seven products; error: relative Frobenius, part of the budget; "
    "memory: beyond inputs and results, of q; row / key: the kernels' parts of the time"
)
_NOT_THERE = ("absent", "not run")
_NUMBERS = ("ms", "min to max", "TFLOP/s", "x floor", "largest error", "memory", "row / key")


def strata_table(report: Report) -> Table:
    """One row per stratum and method that ran: times, rate, distance from the floor, error."""
    table = Table(title=_TITLE)
    table.add_column("stratum")
    table.add_column("method")
    for heading in _NUMBERS:
        table.add_column(heading, justify="right")
    table.add_column("remark", max_width=44)
    for stratum in report["strata"]:
        first = f"{stratum['name']}\n{stratum['logits'] / 1e6:.0f} M logits\nfloor "
        first += f"{stratum['floor_ms']:.3f} ms"
        names = [n for n, e in stratum["methods"].items() if e["status"] not in _NOT_THERE]
        for name in names:
            cells = _cells(stratum["methods"][name])
            table.add_row(first, name, *cells, end_section=name == names[-1])
            first = ""
    return table


def lines(report: Report) -> list[str]:
    """What stands under the table: ceilings, summary, extras, machine."""
    ceilings = report["ceilings"]
    found = [
        f"ceilings: mma.sync {ceilings['mma_tflops']:.0f} TFLOP/s, "
        f"copy {ceilings['copy_tbps']:.2f} TB/s"
    ]
    found += _absent_lines(report)
    for name, figures in report["summary"].items():
        faster = ", ".join(f"{x:.2f}x over {other}" for other, x in figures["speedup"].items())
        found.append(
            f"{name}: {figures['over_floor']:.2f} x floor (worst "
            f"{figures['worst_over_floor']:.2f}){'; ' + faster if faster else ''}"
        )
    found += _timing_build_lines(report.get("timing_build"))
    for name, figures in (report["extras"] or {}).items():
        found += _extra_lines(name, figures)
    machine = report["machine"]
    facts = [f"{key} {x}" for key, x in machine.items() if x and key not in ("device", "card")]
    found.append(", ".join([report["card"], *facts]))
    return found


def _absent_lines(report: Report) -> list[str]:
    """The methods that did not run, each once with its reason."""
    absent = {
        f"{name}: {entry['status']}, {entry['reason']}": None
        for stratum in report["strata"]
        for name, entry in stratum["methods"].items()
        if entry["status"] in _NOT_THERE
    }
    return list(absent)


def _timing_build_lines(figures: dict[str, Any] | None) -> list[str]:
    """How much of a slower card's tensor peak a build that issues each mma often reaches."""
    if not figures:
        return []
    repeat = figures["mma_repeat"]
    found = [
        f"timing build: each mma is issued {repeat} times, results are wrong; below, parts of the "
        f"mma.sync ceiling / {repeat}: call (row kernel, key kernel)"
    ]
    for name, strata in figures["of_peak"].items():
        parts = [
            f"{stratum} {x['call']:.0%} ({x['row_kernel']:.0%}, {x['key_kernel']:.0%})"
            for stratum, x in strata.items()
        ]
        found.append(f"{name}: {', '.join(parts)}")
    return found


def _cells(entry: dict[str, Any]) -> list[str]:
    remark = ": ".join(filter(None, (entry["status"], entry["reason"])))
    remark = "" if entry["status"] == "timed" else remark
    if entry["ms"] is None:
        return ["-", "-", "-", "-", _error(entry), _memory(entry), "-", remark]
    return [
        f"{entry['ms']:.3f}",
        f"{entry['ms_min']:.3f} to {entry['ms_max']:.3f}",
        f"{entry['tflops']:.0f}",
        f"{1 / entry['of_floor']:.2f}",
        _error(entry),
        _memory(entry),
        _shares(entry),
        remark,
    ]


def _error(entry: dict[str, Any]) -> str:
    """The error that is nearest to its budget, with its output and the part of the budget."""
    errors, budgets = entry["errors"], entry["budgets"]
    if not errors:
        return "-"
    if None in errors.values():
        return "not finite"
    name = max(errors, key=lambda n: errors[n] / budgets[n] if budgets[n] else 0.0)
    part = errors[name] / budgets[name] if budgets[name] else 0.0
    return f"{name} {errors[name]:.1e}, {part:.0%}"


def _memory(entry: dict[str, Any]) -> str:
    """Peak memory beyond inputs and results, in parts of q."""
    extra = entry["extra_memory_of_q"]
    return "-" if extra is None else f"{extra:.1%}"


def _shares(entry: dict[str, Any]) -> str:
    kernels = entry["kernels"]
    if not kernels:
        return "-"
    return f"{kernels['row_kernel']:.0%} / {kernels['key_kernel']:.0%}"


def _extra_lines(name: str, figures: dict[str, Any]) -> list[str]:
    short = figures["short_sequences"]["times_slower_than"]
    launches = figures["launches"]
    found = figures.get("call_us_rounds")  # older files have none
    rounds = f" ({min(found):.1f} to {max(found):.1f})" if found else ""
    return [
        f"{name}: {figures['call_us']:.1f} us a small call, host included{rounds}; in it "
        f"{launches['kernels']:g} kernels and {launches['copies_and_fills']:g} copies or fills",
        f"{name}: 20,000 sequences of 8 x 8 take "
        + ", ".join(f"{x:.2f}x the time of {other}" for other, x in short.items()),
        f"{name}: time per logit above 50 M logits varies by "
        f"{figures['scaling']['spread_above_50M'] - 1:.0%}",
    ]
