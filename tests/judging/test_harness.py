"""What goes into a solver's process: torch and the standard library, and a checked clock."""

import ast
import sys
from pathlib import Path

import pytest
import torch
from vjp_task import harness
from vjp_task.harness.clock import make_clock
from vjp_task.harness.names import is_attention_package
from vjp_task.harness.structure import CheckError, check_structure
from vjp_task.harness.values import redraw
from vjp_task.sealed import conversation

FILES = sorted(Path(harness.__file__).parent.glob("*.py"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_it_needs_torch_and_the_standard_library_only(file):
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module]
        else:
            continue
        assert {n.partition(".")[0] for n in names} <= {"torch", *sys.stdlib_module_names}


def check_clock(device_ms, host_ms):
    case = conversation._Case(None, Path(), torch.device("cpu"), 3, 1, lambda step: None)
    case._check_clock([{"ms": device_ms, "host_ms": host_ms}] * 3)


@pytest.mark.parametrize(("device_ms", "host_ms"), [(5.0, 5.0), (5.0, 5.1), (0.2, 1.2)])
def test_clocks_that_agree(device_ms, host_ms):
    check_clock(device_ms, host_ms)


@pytest.mark.parametrize(("device_ms", "host_ms"), [(0.5, 5.0), (0.0, 0.1), (5.0, 4.0)])
def test_clocks_that_disagree(device_ms, host_ms):
    with pytest.raises(Exception, match=r"^patched-timer: calls take .* ms by the host's clock"):
        check_clock(device_ms, host_ms)


def test_outputs_that_cannot_be_taken(tmp_path):
    (tmp_path / "exchange").mkdir()
    case = conversation._Case(None, tmp_path / "exchange", torch.device("cpu"), 3, 1, print)
    case.worker = type("Silent", (), {"ask": lambda *_: {}})
    with pytest.raises(Exception, match=r"^reply: out.out: .*; a regular file is needed$"):
        case._fetch()


def test_figures_of_samples():
    figures = conversation.figures([1.0, 2.0, 3.0, 4.0, 5.0], 7)
    assert (figures["median_ms"], figures["min_ms"], figures["max_ms"]) == (3, 1, 5)
    assert figures["spread"] == pytest.approx(2 / 3)
    assert (figures["samples"], figures["warm_up_calls"]) == (5, 7)


def test_the_clock_times_the_whole_call():
    import time

    ms, host_ms, result = make_clock(torch.device("cpu"))(lambda: time.sleep(0.02) or 5)
    assert 20 <= ms == host_ms < 200
    assert result == 5


def test_values_are_drawn_anew_in_place():
    storage = torch.full((6, 2, 5), float("nan"))
    views = {name: storage.clone()[::2, :, :3] for name in ("q", "k", "v", "dout")}
    slopes = torch.arange(8.0).reshape(4, 2)
    tensors = {**views, "alibi_slopes": slopes.clone()}
    addresses = {name: t.data_ptr() for name, t in tensors.items()}
    drawn = []
    for seed in (1, 2, 1):
        redraw(tensors, slopes, seed)
        drawn.append({name: t.clone() for name, t in tensors.items()})
    first, other, again = drawn
    assert all(torch.equal(first[name], again[name]) for name in tensors)
    assert not any(torch.equal(first[name], other[name]) for name in views)
    assert sorted(map(tuple, first["alibi_slopes"].tolist())) == list(map(tuple, slopes.tolist()))
    assert {name: t.data_ptr() for name, t in tensors.items()} == addresses
    assert views["q"]._base[1::2].isnan().all()


def test_memory_of_an_earlier_call_may_be_forbidden():
    q, k = torch.zeros(4, 2, 3), torch.zeros(5, 1, 3)
    held = torch.zeros(4, 2, 3)
    inputs = {"q": q, "k": k, "v": k.clone()}
    good = (torch.zeros(4, 2, 3), torch.zeros(4, 2, 3), torch.zeros(5, 1, 3), torch.zeros(5, 1, 3))
    assert check_structure(good, inputs, inputs) == good
    with pytest.raises(CheckError, match=r"^out: shares memory with held; memory of its own is ne"):
        check_structure((held, *good[1:]), inputs, {**inputs, "held": held})


@pytest.mark.parametrize(
    ("name", "own", "expected"),
    [
        ("flash_attn.ops", (), True),
        ("some_new_attention", (), True),
        ("xformers", (), True),
        ("ragged_attention.ops", ("ragged_attention",), False),
        ("kernels", ("kernels",), False),
        ("numpy.linalg", (), False),
        ("triton.language", (), False),
    ],
)
def test_attention_packages(name, own, expected):
    assert is_attention_package(name, frozenset(own)) is expected
