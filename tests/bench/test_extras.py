"""The further figures, run on the CPU at small sizes with our operator's portable path."""

import pytest
import torch
from bench_samples import CEILINGS, scaling_points
from ragged_attention.bench import extras
from ragged_attention.bench.case import dense_case
from ragged_attention.bench.methods import METHODS, ours
from ragged_attention.bench.methods.method import Method

CPU = torch.device("cpu")


pytestmark = pytest.mark.filterwarnings("ignore:ragged_attention takes its portable path")


def method(name="mine"):
    return Method(name, lambda device: "", ours.SM86.prepare, lambda: "1", samples=3, tiles="sm86")


@pytest.fixture(autouse=True)
def small_call(monkeypatch):
    monkeypatch.setattr(extras, "BACK_TO_BACK", 3)
    monkeypatch.setattr(extras, "SMALL", dense_case("small", (4,), (4,), heads=2))


def test_figures_of_ours(monkeypatch):
    small = {"heads": 2}
    monkeypatch.setattr(extras, "SHORT", dense_case("short", (2,) * 8, (2,) * 8, **small))
    monkeypatch.setattr(extras, "LONG_ROWS", dense_case("rows", (16,), (2,), **small))
    monkeypatch.setattr(extras, "LONG_SQUARES", dense_case("squares", (4,) * 2, (4,) * 2, **small))
    monkeypatch.setattr(extras, "SCALING_LOGITS", (128, 512))
    monkeypatch.setattr(extras, "spread", lambda points: len(points))
    monkeypatch.setattr(extras.profiling, "kernels_of", lambda call, device: [])
    steps = []
    found = extras.run_extras([method(), METHODS["eager"]], CPU, CEILINGS, steps.append)
    assert list(found) == ["mine"]
    figures = found["mine"]
    assert figures["call_us"] == sorted(figures["call_us_rounds"])[2] > 0
    assert figures["launches"] == {"kernels": 0, "copies_and_fills": 0}
    short = figures["short_sequences"]
    assert set(short["points"]) == {"short", "rows", "squares"}
    expected = short["points"]["short"]["ms"] / short["points"]["rows"]["ms"]
    assert short["times_slower_than"]["rows"] == pytest.approx(expected)
    assert [p["logits"] for p in figures["scaling"]["points"]] == [128, 512]
    assert figures["scaling"]["spread_above_50M"] == 2
    assert len(steps) == 1 + 3 + 2


def test_profiled_last(monkeypatch):
    """A profiler that has run makes every later launch take longer on the host."""
    steps = []
    for name in ("_short_sequences", "_scaling"):
        monkeypatch.setattr(extras, name, lambda *_: steps.append("timed"))
    monkeypatch.setattr(
        extras.profiling, "kernels_of", lambda call, device: steps.append("profiled") or []
    )
    extras.run_extras([method("one"), method("two")], CPU, CEILINGS, steps.append)
    assert [step for step in steps if "back to back" in step] == [
        "one: 3 calls back to back",
        "two: 3 calls back to back",
    ]
    assert steps.index("profiled") == len(steps) - 2
    assert steps[-1] == "profiled"


def test_spread_leaves_small_calls_out():
    assert extras.spread(scaling_points(30, 29, 10, 12, 9)) == pytest.approx(12 / 9)


def test_absent_methods_have_no_figures():
    assert extras.run_extras(list(METHODS.values()), CPU, CEILINGS) == {}
