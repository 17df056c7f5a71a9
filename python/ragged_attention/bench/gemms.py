"""Matrix products that the kernels of the sm86 row really compute for a case, per logit."""

from ragged_attention.bench.case import CaseSpec
from ragged_attention.bench.machine_code.kernels import Tiles, read_tiles
from ragged_attention.bench.repository import repository

_BOUNDED_SOFTCAP = 4.0  # up to which logits are bounded, and weights may wait between the sweeps


def sm86_tiles() -> Tiles:
    """The sm86 row of the tile table."""
    return read_tiles(repository() / "cutlass_kernels" / "tiles.h", "TilesSm86")


def sm86_gemms(spec: CaseSpec, tiles: Tiles) -> dict[str, float]:
    """Per kernel: S, O, S again, dP and dQ in the row kernel; S, dP, dK and dV in the key kernel.

    The row kernel spares the second S of sequences whose weights fit in shared memory.
    """
    resident = spec.total_k <= tiles.number("kResidentMeanKeys") * spec.batch
    bounded = 0 < spec.softcap <= _BOUNDED_SOFTCAP
    most = tiles.number("kWeighedKeys") if resident and bounded else 0
    pairs = zip(spec.q_lengths, spec.k_lengths, strict=True)
    weighed = sum(q * k for q, k in pairs if k <= most) * spec.heads
    return {"row_kernel": 5 - weighed / spec.logits, "key_kernel": 4.0}
