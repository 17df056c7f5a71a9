"""Measures the two ceilings of a card."""

import statistics

import torch

from ragged_attention import native
from ragged_attention.bench.floor import Ceilings

_MMA_MS = 100.0  # long enough for the clocks to settle
_MMA_RUNS = 3
_COPY_BYTES = 4 << 30  # far beyond any L2
_COPY_RUNS = 10


def measure_ceilings(device: torch.device) -> Ceilings:
    """Both ceilings of a GPU, as medians of a few runs.

    Raises RuntimeError where the compiled module, which holds the kernel for the first, is missing.
    """
    module = native.load()
    if module is None:
        raise RuntimeError(f"ceilings: {native.why_missing()}; build it first")
    rates = [module.mma_rate(device.index, _MMA_MS) for _ in range(_MMA_RUNS)]
    return Ceilings(statistics.median(rates), _copy_tbps(device))


def _copy_tbps(device: torch.device) -> float:
    free, _ = torch.cuda.mem_get_info(device)
    size = min(_COPY_BYTES, free // 3)
    source = torch.zeros(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    times = []
    for _ in range(_COPY_RUNS + 1):
        start = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        start.record()
        target.copy_(source)
        end.record()
        torch.cuda.synchronize(device)
        times.append(start.elapsed_time(end))
    return 2 * size / statistics.median(times[1:]) / 1e9
