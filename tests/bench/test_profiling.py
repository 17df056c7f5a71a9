"""Shares, launches and memory of a call, and the two ceilings."""

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
