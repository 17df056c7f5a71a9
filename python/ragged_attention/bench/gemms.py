"""Matrix products that the kernels of the sm86 row really compute for a case, per logit."""

import functools
import math

from ragged_attention.bench.case import CaseSpec
from ragged_attention.bench.machine_code.kernels import STEP, Tiles, read_tiles, weighed_steps
from ragged_attention.bench.repository import repository

_BOUNDED_SOFTCAP = 4.0  # up to which logits are bounded, and weights may wait between the sweeps


@functools.cache
def sm86_tiles() -> Tiles:
    """The sm86 row of the tile table."""
    return read_tiles(repository() / "cutlass_kernels" / "tiles.h", "TilesSm86")


def sm86_gemms(spec: CaseSpec, tiles: Tiles) -> dict[str, float]:
    """Per kernel: S, O, S again, dP and dQ in the row kernel; S, dP, dK and dV in the key kernel.

    The row kernel spares the second S of steps whose weights stay in shared memory.
    """
    resident = spec.total_k <= tiles.number("kResidentMeanKeys") * spec.batch
    bounded = 0 < spec.softcap <= _BOUNDED_SOFTCAP
    weighed = 0.0
    if resident and bounded:
        pairs = zip(spec.q_lengths, spec.k_lengths, strict=True)
        weighed = spec.heads * sum(q * k * _weighed_part(k, tiles) for q, k in pairs)
    return {"row_kernel": 5 - weighed / spec.logits, "key_kernel": 4.0}


def _weighed_part(keys: int, tiles: Tiles) -> float:
    """The part of a sequence's steps whose weights stay in shared memory."""
    if not 0 < keys <= tiles.number("kResidentKeys"):
        return 0.0
    steps = math.ceil(keys / STEP)
    return weighed_steps(steps, tiles) / steps
