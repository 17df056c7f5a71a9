"""The floor: the time that nobody can go below on a card with given ceilings."""

from dataclasses import dataclass
from typing import NamedTuple

import torch

from ragged_attention.bench.case import CaseSpec
from ragged_attention.checks import HEAD_DIM

GEMMS = 7  # S, O, dP, dV, dK, dQ, and S again once the row sums are known
FLOP_PER_GEMM = 2 * HEAD_DIM  # of a logit
FLOP_PER_LOGIT = GEMMS * FLOP_PER_GEMM


class Ceilings(NamedTuple):
    """What a card reaches where nothing else limits it."""

    mma_tflops: float  # 1e12 FLOP/s of mma.sync m16n8k16 with fp32 sums
    copy_tbps: float  # 1e12 B/s of a device-to-device copy, bytes read and bytes written


@dataclass(frozen=True)
class Work:
    """What one call has to do at least."""

    logits: int
    bytes: int  # q, dout, out, dq, k, v, dk, dv, each moved once

    @staticmethod
    def of(spec: CaseSpec) -> "Work":
        """The work of a case."""
        itemsize = torch.finfo(getattr(torch, spec.dtype)).bits // 8
        rows = spec.total_q * spec.heads + spec.total_k * spec.kv_heads
        return Work(spec.logits, 4 * rows * spec.head_dim * itemsize)

    @property
    def flop(self) -> int:
        """Floating-point operations at seven matrix products."""
        return self.logits * FLOP_PER_LOGIT

    def compute_ms(self, ceilings: Ceilings) -> float:
        """Milliseconds of the arithmetic alone."""
        return 1e3 * self.flop / (1e12 * ceilings.mma_tflops)

    def memory_ms(self, ceilings: Ceilings) -> float:
        """Milliseconds of the memory traffic alone."""
        return 1e3 * self.bytes / (1e12 * ceilings.copy_tbps)

    def floor_ms(self, ceilings: Ceilings) -> float:
        """The larger of the two."""
        return max(self.compute_ms(ceilings), self.memory_ms(ceilings))

    def tflops(self, ms: float) -> float:
        """1e12 FLOP/s of a call that takes so long."""
        return self.flop / ms / 1e9
