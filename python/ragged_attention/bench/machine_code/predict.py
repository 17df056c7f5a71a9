"""Time of a case on an RTX A6000 from its kernels' machine code: the larger of tensor and memory.

Tensor time counts the tiles that the kernels really multiply, ends of sequences included, at the
predicted part of the tensor peak. Memory time counts what has to cross the memory bus given 6 MB
of L2. Left out: how CTAs fill the last wave, warps without rows at the end of a CTA's share, what
rows cost beside their main loops, launches, the sums of shared tiles (a few percent of the bytes).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from ragged_attention.bench.case import CaseSpec
from ragged_attention.bench.floor import Ceilings
from ragged_attention.bench.machine_code.kernels import (
    ROW_BYTES,
    STEP,
    Kernel,
    Mode,
    Tiles,
    weighed_steps,
)
from ragged_attention.bench.machine_code.loops import MainLoop
from ragged_attention.bench.machine_code.sharing import SharingRule
from ragged_attention.checks import HEAD_DIM

A6000 = Ceilings(mma_tflops=154.8, copy_tbps=0.768)  # data sheet
MULTIPROCESSORS = 84
L2_BYTES = 6 << 20

_STATISTICS_BYTES = 8  # lse and delta of a row

Loops = dict[Kernel, list[MainLoop]]


@dataclass(frozen=True)
class KernelTime:
    """One kernel on one case."""

    padding: float  # logits multiplied over logits there are
    bound_ms: float  # tensor time at the bound: perfect overlap
    strict_ms: float  # tensor time at the strict part of the peak
    bytes: int  # that cross the memory bus at least
    worst_bytes: int  # the same where CTAs never share what they stream

    @property
    def memory_ms(self) -> float:
        """Milliseconds of `bytes`."""
        return _memory_ms(self.bytes)

    @property
    def worst_memory_ms(self) -> float:
        """Milliseconds of `worst_bytes`."""
        return _memory_ms(self.worst_bytes)

    def ms(self, strict: bool) -> float:
        """The larger of tensor and memory time; strict: of the worse of both."""
        if strict:
            return max(self.strict_ms, self.worst_memory_ms)
        return max(self.bound_ms, self.memory_ms)


@dataclass(frozen=True)
class CaseTime:
    """Both kernels, one after the other."""

    spec: CaseSpec
    row: KernelTime
    key: KernelTime
    key_tiles: float  # of a sequence, on average over the rows
    slack: float  # iterations that the CTAs of one sequence may drift apart while L2 still helps

    @property
    def passes(self) -> float:
        """Row-sized tensors that cross the bus, lse and delta with them, where rows are shared."""
        return self._passes(self.row.bytes + self.key.bytes)

    @property
    def worst_passes(self) -> float:
        """The same where they don't."""
        return self._passes(self.row.worst_bytes + self.key.worst_bytes)

    def _passes(self, count: int) -> float:
        keys = 3 * 2 * ROW_BYTES * self.spec.total_k
        return (count - keys) / (ROW_BYTES * self.spec.total_q * self.spec.heads)

    def ms(self, strict: bool) -> float:
        """Both kernels' larger times, added."""
        return self.row.ms(strict) + self.key.ms(strict)


def predict(spec: CaseSpec, loops: Loops, tiles: Tiles, rule: SharingRule) -> CaseTime:
    """The case's times. Raises ValueError where no kernel of its dtype and shape was found.

    ValueError, too, where the row has a shape of its own for short keys: none is foreseen here.
    """
    shape = tiles.shapes["LongKeys"]
    if tiles.shapes["ShortKeys"] != shape:
        raise ValueError("tiles: ShortKeys differs from LongKeys; one shape is needed")
    resident = spec.total_k <= tiles.number("kResidentMeanKeys") * spec.batch
    row = _find(loops, "resident_row" if resident else "row", spec.dtype, {})
    key = _find(loops, "key", spec.dtype, shape)
    rows = [length * spec.heads for length in spec.q_lengths]
    pairs = list(zip(rows, spec.k_lengths, strict=True))
    total_rows = sum(rows)
    keys_bytes = 2 * ROW_BYTES * spec.total_k  # K and V, or dK and dV
    row_time = _kernel_time(
        spec,
        loops[row],
        _logits(row, pairs, tiles),
        (4 * ROW_BYTES + _STATISTICS_BYTES) * total_rows + keys_bytes,
    )
    visits = [(r, math.ceil(k / key.own)) for r, k in pairs]  # of rows by key tiles
    streamed = 2 * ROW_BYTES + _STATISTICS_BYTES
    places = MULTIPROCESSORS * shape["kCtas"]
    # CTAs that share tiles form teams of as many as a sequence has tiles, up to a limit
    share_tiles = rule.shares(spec, key.own, places)
    team = tiles.number("kKeyTeam") if share_tiles else 1
    unshared = sum(r * count for r, count in visits)
    shared = sum(r * (count if share_tiles and count > team else 1) for r, count in visits)
    key_time = _kernel_time(
        spec,
        loops[key],
        _logits(key, [(r, _computed_keys(k, key.own, team)) for r, k in pairs], tiles),
        streamed * shared + 2 * keys_bytes,
        streamed * unshared + 2 * keys_bytes,
    )
    key_tiles = unshared / total_rows
    groups = max(1.0, places / key_tiles)
    slack = L2_BYTES / groups / (2 * ROW_BYTES * key.streamed)
    return CaseTime(spec, row_time, key_time, key_tiles, slack)


def _computed_keys(keys: int, tile: int, team: int) -> int:
    """Keys that a team of CTAs multiplies: tiles of one width. Without a team, those there are."""
    tiles = math.ceil(keys / tile)
    return tiles * _up(math.ceil(keys / tiles), STEP) if 1 < tiles <= team else keys


def _find(loops: Loops, kind: str, dtype: str, shape: dict[str, int]) -> Kernel:
    sought = kind, dtype, "bounded", shape
    for kernel in loops:
        if (kernel.kind, kernel.dtype, kernel.score, kernel.shape) == sought:
            return kernel
    what = f"{dtype} bounded {kind}_kernel" + (f" {shape}" if shape else "")
    raise ValueError(f"library: no {what}; rebuild it from these sources")


def _logits(kernel: Kernel, pairs: list[tuple[int, int]], tiles: Tiles) -> dict[Mode, int]:
    """Logits that each mode multiplies for sequences of (rows, keys), ends of blocks included.

    An approximation in the resident kernel's streamed mode: a CTA's share of a sequence may end
    anywhere, which ends one more block there.
    """
    counts = dict.fromkeys(kernel.modes, 0)
    for rows, keys in pairs:
        for mode, multiplied in _keys_by_mode(kernel, keys, tiles):
            counts[mode] += _up(rows, mode.rows) * multiplied
    return counts


def _keys_by_mode(kernel: Kernel, keys: int, tiles: Tiles) -> list[tuple[Mode, int]]:
    """Keys of a sequence that each of its modes multiplies, ends of blocks included."""
    mode, *others = (mode for mode in kernel.modes if keys <= mode.most_keys)
    if mode.name != "weighed":
        return [(mode, _up(keys, mode.keys))]
    steps = math.ceil(keys / STEP)
    weighed = weighed_steps(steps, tiles)
    return [(mode, weighed * STEP), (others[0], (steps - weighed) * STEP)]


def _kernel_time(
    spec: CaseSpec,
    loops: list[MainLoop],
    logits: dict[Mode, int],
    bytes_: int,
    worst_bytes: int | None = None,
) -> KernelTime:
    def tensor_ms(part: Callable[[MainLoop], float]) -> float:
        products = sum(logits[loop.mode] * loop.products / part(loop) for loop in loops)
        return 1e3 * products * 2 * HEAD_DIM / (1e12 * A6000.mma_tflops)

    return KernelTime(
        padding=sum(logits.values()) / spec.logits,
        bound_ms=tensor_ms(lambda loop: loop.clocks.bound),
        strict_ms=tensor_ms(lambda loop: loop.clocks.strict),
        bytes=bytes_,
        worst_bytes=bytes_ if worst_bytes is None else worst_bytes,
    )


def _up(count: int, block: int) -> int:
    return math.ceil(count / block) * block


def _memory_ms(count: int) -> float:
    return 1e3 * count / (1e12 * A6000.copy_tbps)
