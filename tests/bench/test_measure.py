"""Interleaving, samples, and that a cold call is what is timed."""

import gc
import time

import pytest
import torch
from ragged_attention.bench import measure

CPU = torch.device("cpu")


def test_samples_are_interleaved_and_counted():
    order = []
    calls = {name: lambda n=name: order.append(n) for name in "ab"}
    times = measure.time_calls(calls, {"a": 4, "b": 2}, CPU)
    warm_up, timed = order[: 2 * measure.WARM_UP_CALLS], order[2 * measure.WARM_UP_CALLS :]
    assert warm_up == ["a"] * measure.WARM_UP_CALLS + ["b"] * measure.WARM_UP_CALLS
    assert timed.count("a") == 4
    assert timed[0] == timed[-1] == "a"
    assert "b" in timed[1:3]
    assert {name: len(t.samples) for name, t in times.items()} == {"a": 4, "b": 2}


def test_time_is_in_milliseconds():
    timing = measure.time_calls({"": lambda: time.sleep(0.01)}, {"": 3}, CPU)[""]
    assert 10 <= timing.median < 1000
    assert measure.Timing((1.0, 9.0, 2.0)).median == 2


def test_back_to_back_is_in_microseconds():
    found = measure.microseconds_back_to_back(lambda: time.sleep(0.001), 5, CPU, rounds=3)
    assert len(found) == 3
    assert all(1000 <= microseconds < 1e5 for microseconds in found)


def test_garbage_collection_is_off_only_within():
    assert gc.isenabled()
    with measure.no_garbage_collection():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_what_a_call_raises_comes_through():
    def broken():
        raise ValueError("this one")

    with pytest.raises(ValueError, match="this one"):
        measure.time_calls({"": broken}, {"": 1}, CPU)
    assert gc.isenabled()


@pytest.mark.gpu
def test_gpu_time_is_the_time_of_the_kernels():
    device = torch.device("cuda", 0)
    x = torch.zeros(1 << 28, device=device)  # 1 GiB: far more than L2

    def calls(n):
        return lambda: [x.add_(1) for _ in range(n)]

    once, five = measure.time_calls(
        {"once": calls(1), "five": calls(5)}, {"once": 5, "five": 5}, device
    ).values()
    assert five.median == pytest.approx(5 * once.median, rel=0.1)


def test_gpu_sample_is_the_call_between_events_after_a_flush(monkeypatch):
    """The order of things on the stream, with a GPU that is not there."""
    log = []

    class Event:
        def __init__(self, enable_timing):
            assert enable_timing

        def record(self):
            log.append("event")

        def elapsed_time(self, end):
            return 1.5

    class Buffer:
        def zero_(self):
            log.append("flush")

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: log.append("wait"))
    monkeypatch.setattr(measure, "flush_buffer", lambda device: Buffer())
    monkeypatch.setattr(measure, "WARM_UP_SECONDS", 0.0)
    timing = measure.time_calls({"": lambda: log.append("call")}, {"": 2}, torch.device("cuda", 0))
    assert timing[""].samples == (1.5, 1.5)
    assert log[: 2 * measure.WARM_UP_CALLS] == ["call", "wait"] * measure.WARM_UP_CALLS
    sample = ["wait", *["flush"] * measure._FLUSHES, "event", "call", "event", "wait"]
    assert log[2 * measure.WARM_UP_CALLS :] == 2 * sample
