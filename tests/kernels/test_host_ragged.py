"""The ragged scheduler on the host: which tile each CTA finds, over random batches."""

from types import ModuleType
from typing import NamedTuple

import numpy as np
import pytest

SPARE_SLOTS = 40  # asked for beyond the bound


class Batch(NamedTuple):
    """Lengths as a caller gives them; both totals may exceed what the lengths describe."""

    cu_q: np.ndarray  # (batch + 1) int32
    cu_k: np.ndarray  # (batch + 1) int32
    total_q: int
    total_k: int
    heads: int


class Tiles(NamedTuple):
    """What each slot finds; every field (slots) int64."""

    sequence: np.ndarray
    block: np.ndarray
    q_begin: np.ndarray
    k_begin: np.ndarray
    queries: np.ndarray
    keys: np.ndarray


def draw_lengths(rng: np.random.Generator, sequences: int) -> np.ndarray:
    """Short, long, equal or mostly empty ones."""
    style = rng.integers(4)
    if style == 0:
        return rng.integers(0, 5, sequences)
    if style == 1:
        return rng.integers(0, 300, sequences)
    if style == 2:
        return np.full(sequences, rng.integers(0, 70))
    return rng.integers(0, 200, sequences) * (rng.random(sequences) < 0.3)


def draw_axis(rng: np.random.Generator, sequences: int) -> tuple[np.ndarray, int]:
    """Offsets of one token axis and its total, with spare tokens before and after."""
    spare_before, spare_after = rng.integers(0, 40, 2) * (rng.random(2) < 0.3)
    cu = np.concatenate([[0], np.cumsum(draw_lengths(rng, sequences))]) + spare_before
    return cu.astype(np.int32), int(cu[-1] + spare_after)


def draw_batch(rng: np.random.Generator, sequences: int) -> Batch:
    heads = int(rng.choice([1, 2, 3, 7, 48, 64, 80, 96, 128]))
    cu_q, total_q = draw_axis(rng, sequences)
    cu_k, total_k = draw_axis(rng, sequences)
    return Batch(cu_q, cu_k, total_q, total_k, heads)


def slots_of(module: ModuleType, batch: Batch, by_rows: bool, block: int) -> int:
    total, items = (batch.total_q, batch.heads) if by_rows else (batch.total_k, 1)
    return module.slot_bound(total, items, block, batch.cu_q.size - 1)


def find_tiles(module: ModuleType, batch: Batch, by_rows: bool, block: int) -> Tiles:
    slots = slots_of(module, batch, by_rows, block) + SPARE_SLOTS
    return Tiles(*module.find_tiles(*batch, by_rows, block, slots).T)


def items_of(tiles: Tiles, batch: Batch, by_rows: bool, block: int) -> tuple[np.ndarray, ...]:
    """First item on the whole axis, and items of each tile: rows or keys, as kernels count."""
    begin, length, items = (
        (tiles.q_begin, tiles.queries, batch.heads) if by_rows else (tiles.k_begin, tiles.keys, 1)
    )
    left = length * items - tiles.block * block
    return begin * items + tiles.block * block, np.clip(left, 0, block)


def assert_covered_once(batch: Batch, tiles: Tiles, by_rows: bool, block: int, slots: int) -> None:
    items = batch.total_q * batch.heads if by_rows else batch.total_k
    first, count = items_of(tiles, batch, by_rows, block)
    assert (count[slots:] == 0).all()  # the bound is enough, and slots beyond have nothing
    used = count > 0
    changes = np.zeros(items + 1, int)
    np.add.at(changes, first[used], 1)
    np.add.at(changes, (first + count)[used], -1)
    assert (np.cumsum(changes)[:-1] == 1).all()


def assert_right_partners(batch: Batch, tiles: Tiles, by_rows: bool, block: int) -> None:
    """A tile of a sequence has its tokens of both axes; spare tokens have no partner."""
    _, count = items_of(tiles, batch, by_rows, block)
    sequences = batch.cu_q.size - 1
    for i in np.flatnonzero(count):
        s = tiles.sequence[i]
        own_begin, other = (
            (tiles.q_begin[i], tiles.keys[i]) if by_rows else (tiles.k_begin[i], tiles.queries[i])
        )
        own_cu = batch.cu_q if by_rows else batch.cu_k
        if 0 <= s < sequences:
            assert (tiles.q_begin[i], tiles.k_begin[i]) == (batch.cu_q[s], batch.cu_k[s])
            assert tiles.queries[i] == batch.cu_q[s + 1] - batch.cu_q[s]
            assert tiles.keys[i] == batch.cu_k[s + 1] - batch.cu_k[s]
        else:
            assert other == 0
            assert own_begin == (0 if s < 0 else own_cu[-1])


def check_batch(module: ModuleType, batch: Batch, by_rows: bool, block: int) -> Tiles:
    tiles = find_tiles(module, batch, by_rows, block)
    slots = slots_of(module, batch, by_rows, block)
    assert_covered_once(batch, tiles, by_rows, block, slots)
    assert_right_partners(batch, tiles, by_rows, block)
    return tiles


axes = pytest.mark.parametrize("by_rows", [True, False], ids=["rows", "keys"])


@axes
@pytest.mark.parametrize("seed", range(10))
def test_every_item_once(kernels_host: ModuleType, by_rows: bool, seed: int) -> None:
    """200 batches a seed."""
    rng = np.random.default_rng(seed)
    for _ in range(200):
        batch = draw_batch(rng, int(rng.integers(1, 40)))
        check_batch(kernels_host, batch, by_rows, int(rng.choice([64, 96, 128, 256])))


@axes
@pytest.mark.parametrize("excess", [-1, 0, 1, 2, 70])
def test_every_item_once_around_the_sorted_limit(
    kernels_host: ModuleType, by_rows: bool, excess: int
) -> None:
    """Segments are sorted up to a limit, and found by a search beyond."""
    rng = np.random.default_rng(100 + excess)
    sequences = kernels_host.max_sorted_segments - 2 + excess
    for _ in range(5):
        batch = draw_batch(rng, sequences)._replace(heads=3)
        check_batch(kernels_host, batch, by_rows, 128)


@axes
@pytest.mark.parametrize("sequences", [1_000, 20_000])
def test_every_item_once_with_many_sequences(
    kernels_host: ModuleType, by_rows: bool, sequences: int
) -> None:
    rng = np.random.default_rng(sequences)
    for _ in range(3):
        check_batch(kernels_host, draw_batch(rng, sequences)._replace(heads=2), by_rows, 96)


@axes
def test_no_tokens_at_all(kernels_host: ModuleType, by_rows: bool) -> None:
    for sequences in (1, 5, 400):
        nothing = np.zeros(sequences + 1, np.int32)
        check_batch(kernels_host, Batch(nothing, nothing, 0, 0, 48), by_rows, 128)


@axes
def test_only_spare_tokens(kernels_host: ModuleType, by_rows: bool) -> None:
    for sequences in (1, 400):
        cu = np.full(sequences + 1, 300, np.int32)
        check_batch(kernels_host, Batch(cu, cu, 700, 700, 5), by_rows, 64)


@axes
def test_costliest_blocks_come_first(kernels_host: ModuleType, by_rows: bool) -> None:
    """The length of the other axis is a block's cost; ties keep the order of the sequences."""
    rng = np.random.default_rng(7)
    for _ in range(200):
        batch = draw_batch(rng, int(rng.integers(1, 60)))
        tiles = find_tiles(kernels_host, batch, by_rows, 128)
        _, count = items_of(tiles, batch, by_rows, 128)
        used = count > 0
        cost = np.where(used, tiles.keys if by_rows else tiles.queries, 0)
        order = list(zip(-cost[used], tiles.sequence[used], tiles.block[used], strict=True))
        assert order == sorted(order)
        assert not used[used.sum() :].any()  # slots without work come last


def wrong_offsets(rng: np.random.Generator, size: int, total: int) -> np.ndarray:
    """Offsets that do not describe `total` tokens."""
    style = rng.integers(4)
    if style == 0:
        return rng.integers(-(2**31), 2**31, size).astype(np.int32)
    if style == 1:
        return rng.integers(-total - 5, 2 * total + 5, size).astype(np.int32)
    if style == 2:  # decreasing
        return np.sort(rng.integers(0, total + 1, size))[::-1].astype(np.int32)
    return np.sort(rng.integers(0, 3 * total + 1, size)).astype(np.int32)  # past the end


@axes
@pytest.mark.parametrize("most", [30, 400])
def test_wrong_lengths_stay_inside(kernels_host: ModuleType, by_rows: bool, most: int) -> None:
    rng = np.random.default_rng(8)
    for _ in range(1000 if most < 100 else 50):
        sequences = int(rng.integers(1, most))
        total_q, total_k = (int(total) for total in rng.integers(0, 400, 2))
        batch = Batch(
            wrong_offsets(rng, sequences + 1, total_q),
            wrong_offsets(rng, sequences + 1, total_k),
            total_q,
            total_k,
            int(rng.choice([1, 3, 16])),
        )
        block = int(rng.choice([64, 96, 128, 256]))
        tiles = find_tiles(kernels_host, batch, by_rows, block)
        first, count = items_of(tiles, batch, by_rows, block)
        used = count > 0
        assert (tiles.block[used] >= 0).all()
        assert (first[used] >= 0).all()
        items = total_q * batch.heads if by_rows else total_k
        assert ((first + count)[used] <= items).all()
        for begin, length, total in (
            (tiles.q_begin, tiles.queries, total_q),
            (tiles.k_begin, tiles.keys, total_k),
        ):
            assert (length[used] >= 0).all()
            assert (begin[used] >= 0).all()
            assert ((begin + length)[used] <= total).all()


@axes
@pytest.mark.parametrize("sequences", [3, 70, 300])
def test_a_block_of_threads_finds_what_one_thread_finds(
    kernels_host: ModuleType, by_rows: bool, sequences: int
) -> None:
    batch = draw_batch(np.random.default_rng(sequences), sequences)._replace(heads=4)
    slots = slots_of(kernels_host, batch, by_rows, 128) + 2
    by_one = kernels_host.find_tiles(*batch, by_rows, 128, slots)
    by_block = kernels_host.find_tiles_by_a_block(*batch, by_rows, 128, slots)
    np.testing.assert_array_equal(by_block, by_one)


def test_division_by_heads(kernels_host: ModuleType) -> None:
    """Every head count; small rows, multiples of it and their neighbours, and huge rows."""
    rng = np.random.default_rng(9)
    for heads in range(1, 129):
        quotients = np.concatenate([rng.integers(0, (2**31 - 1) // heads, 2000), range(100)])
        rows = (quotients[:, None] * heads + [-1, 0, 1]).clip(0).ravel().astype(np.int32)
        np.testing.assert_array_equal(kernels_host.divide_by_heads(rows, heads), rows // heads)


@pytest.mark.parametrize("heads", [1, 2, 7, 48, 80, 96, 128])
@pytest.mark.parametrize("step", [1, 8, 32, 96, 128, 256])
def test_cursor_against_division(kernels_host: ModuleType, heads: int, step: int) -> None:
    for row in (0, 1, 95, 12_345):
        walk = kernels_host.walk_rows(row, step, heads, 100)
        rows = row + step * np.arange(100)
        np.testing.assert_array_equal(walk, np.stack(np.divmod(rows, heads), axis=1))
