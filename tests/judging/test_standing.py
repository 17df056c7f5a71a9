"""What a solver leaves behind, or replaces, that would run outside its calls."""

import gc
import signal
import time

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from vjp_task.harness.pristine import Pristine
from vjp_task.harness.standing import Standing

MODE = ("patched-module", "leaves a mode on that sees or replaces operators of torch")


@pytest.mark.parametrize("kind", [TorchFunctionMode, TorchDispatchMode])
def test_modes(kind):
    standing = Standing()
    with kind():
        assert list(standing.left()) == [MODE]
    assert list(standing.left()) == []


def test_signals():
    standing = Standing()
    before = signal.signal(signal.SIGALRM, lambda *_: None)
    try:
        assert list(standing.left()) == [("background-work", "leaves a handler of a signal")]
        signal.setitimer(signal.ITIMER_REAL, 600)
        assert ("background-work", "leaves a timer running") in standing.left()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert list(standing.left()) == []


def test_callbacks_of_the_collector(monkeypatch):
    standing = Standing()
    callback = print
    gc.callbacks.append(callback)
    try:
        what = "leaves a callback of the garbage collector"
        assert list(standing.left()) == [("background-work", what)]
    finally:
        gc.callbacks.remove(callback)
    assert list(standing.left()) == []


@pytest.mark.parametrize(
    ("owner", "name", "told"),
    [
        (time, "perf_counter", "time.perf_counter"),
        (torch.Tensor, "__eq__", "torch.Tensor.__eq__"),
        (torch.Tensor, "detach", "torch.Tensor.detach"),  # inherited: only put in front of it
        (torch.cuda.Event, "elapsed_time", "torch.cuda.streams.Event.elapsed_time"),
        (torch, "randn", "torch.randn"),
        (gc, "disable", "gc.disable"),
    ],
)
def test_what_is_replaced_is_named(owner, name, told, monkeypatch):
    pristine = Pristine()
    assert pristine.replaced() == []
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, lambda *arguments: None)
        replaced = pristine.replaced()
    assert replaced == [told]
    if name in vars(owner):
        assert pristine.replaced() == []
