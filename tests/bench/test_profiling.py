"""Shares, launches and memory of a call, and the two ceilings."""

from types import SimpleNamespace

import pytest
import torch
from ragged_attention.bench import ceilings, profiling
from ragged_attention.bench.profiling import Kernel

KERNELS = [
    Kernel("void ragged_attention::row_kernel<T>(KernelParams)", 1, 60),
    Kernel("void ragged_attention::key_kernel<T, U>(KernelParams)", 2, 30),
    Kernel("Memset (Device)", 1, 10),
]


def test_shares_add_up_to_all():
    shares = profiling.shares(KERNELS)
    assert shares == {"row_kernel": 0.6, "key_kernel": 0.3, "other": pytest.approx(0.1)}


def test_no_shares_of_nothing():
    assert profiling.shares([]) is None
    assert profiling.shares([Kernel("row_kernel", 1, 0.0)]) is None


def test_launches_are_told_from_fills():
    assert profiling.launches(KERNELS) == {"kernels": 3, "copies_and_fills": 1}
    assert profiling.launches([]) == {"kernels": 0, "copies_and_fills": 0}


def test_ceilings_need_the_module(monkeypatch):
    monkeypatch.setattr(ceilings.native, "load", lambda: None)
    monkeypatch.setattr(ceilings.native, "why_missing", lambda: "no module")
    with pytest.raises(RuntimeError, match=r"^ceilings: no module; build it first$"):
        ceilings.measure_ceilings(torch.device("cuda", 0))


def test_mma_ceiling_is_the_median_of_the_card_asked_for(monkeypatch):
    rates = iter([500.0, 700.0, 600.0])

    class Module:
        def mma_rate(self, device, milliseconds):
            assert device == 3
            assert milliseconds >= 20
            return next(rates)

    monkeypatch.setattr(ceilings.native, "load", Module)
    monkeypatch.setattr(ceilings, "_copy_tbps", lambda device: 4.0)
    assert ceilings.measure_ceilings(torch.device("cuda", 3)) == (600.0, 4.0)


@pytest.mark.gpu
def test_kernels_and_memory_of_a_call():
    device = torch.device("cuda", 0)
    x = torch.ones(1 << 20, device=device)

    def call():
        scratch = x * 2
        return (scratch + x,)

    kernels = profiling.kernels_of(call, device)
    assert profiling.launches(kernels) == {"kernels": 2, "copies_and_fills": 0}
    assert all(kernel.microseconds > 0 for kernel in kernels)
    assert profiling.extra_memory(call, device) == 4 << 20


def test_extra_memory_leaves_results_and_inputs_out(monkeypatch):
    """The arithmetic, with a GPU that is not there."""
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: None)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda device: None)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 1000)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: 1700)
    results = (torch.zeros(100, dtype=torch.float16), torch.zeros(50))
    device = torch.device("cuda", 0)
    assert profiling.extra_memory(lambda: results, device) == 1700 - 1000 - 400
    assert profiling.extra_memory(lambda: 4 * results, device) == 0


def test_copy_ceiling_counts_reads_and_writes(monkeypatch):
    """Median of all runs but the first, with a GPU that is not there."""
    times = iter([99.0, *[2.0] * 4, *[1.0] * 6])

    class Event:
        def __init__(self, enable_timing):
            assert enable_timing

        def record(self):
            pass

        def elapsed_time(self, end):
            return next(times)

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: None)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (3_000_000, 0))
    assert ceilings._copy_tbps(torch.device("cpu")) == pytest.approx(2e6 / 1e-3 / 1e12)


def test_kernels_are_the_gpu_part_of_a_profile(monkeypatch):
    """What is kept of the profiler's events, with a GPU that is not there."""

    class Recorded:
        def __init__(self, activities):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *error):
            pass

        def key_averages(self):
            def event(key, device, count, total):
                values = {"device_type": device, "count": count, "self_device_time_total": total}
                return SimpleNamespace(key=key, **values)

            kinds = profiling.DeviceType
            return [
                event("aten::mm", kinds.CPU, 3, 0),
                event("row_kernel", kinds.CUDA, 3, 180),
                event("key_kernel", kinds.CUDA, 6, 90),
            ]

    monkeypatch.setattr(profiling, "profile", Recorded)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: None)
    calls = []
    found = profiling.kernels_of(lambda: calls.append(1), torch.device("cuda", 0))
    assert found == [Kernel("row_kernel", 1, 60), Kernel("key_kernel", 2, 30)]
    assert len(calls) == 1 + 3
