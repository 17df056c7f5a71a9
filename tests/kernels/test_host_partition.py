"""Rows and keys shared out over a grid as large as the card: everything once, equal shares."""

import itertools
from types import ModuleType
from typing import NamedTuple

import numpy as np
import pytest

BLOCK = 16  # rows of a tile
WEIGHED_KEYS, RESIDENT_KEYS = 40, 90  # where a tile's cost changes
COSTS = [(0, 0, 58, 7), (64, 70, 100, 0)]  # of key tiles: narrow keys, narrow, wide, per strip


class Shares(NamedTuple):
    """One stretch of a segment's tiles each; every field (shares) int64."""

    cta: np.ndarray
    sequence: np.ndarray
    begin: np.ndarray
    end: np.ndarray
    cost: np.ndarray  # of each tile


def lengths(rng: np.random.Generator, sequences: int) -> np.ndarray:
    most = rng.choice([3, 40, 300])
    return rng.integers(0, most, sequences) * (rng.random(sequences) > rng.choice([0.0, 0.5]))


def offsets(tokens: np.ndarray, spare: int) -> np.ndarray:
    return (spare + np.concatenate([[0], np.cumsum(tokens)])).astype(np.int32)


def partition_rows(
    module: ModuleType,
    cu_q: np.ndarray,
    cu_k: np.ndarray,
    total_q: int,
    total_k: int,
    heads: int,
    ctas: int,
) -> np.ndarray:
    return module.partition_rows(
        cu_q, cu_k, total_q, total_k, heads, BLOCK, WEIGHED_KEYS, RESIDENT_KEYS, ctas
    )


def check_partition(
    module: ModuleType, rng: np.random.Generator, sequences: int, ctas: int
) -> Shares:
    """Draws a batch, some with spare tokens, and checks who gets what of it."""
    heads = int(rng.choice([1, 3, 48, 96]))
    queries, keys = lengths(rng, sequences), lengths(rng, sequences)
    before, after = rng.integers(0, 50, 2) * int(rng.random() < 0.3)
    cu_q, cu_k = offsets(queries, before), offsets(keys, 0)
    total_q, total_k = int(cu_q[-1] + after), int(cu_k[-1])
    table = partition_rows(module, cu_q, cu_k, total_q, total_k, heads, ctas)
    shares = Shares(*table.T)

    # tiles of each segment: spare tokens, the sequences, spare tokens
    tokens = np.concatenate([[before], queries, [after]])
    tiles = -(-tokens * heads // BLOCK)
    covered = [[] for _ in tokens]
    for _, sequence, begin, end, _ in table:
        covered[sequence + 1].append((begin, end))
    for segment, stretches in enumerate(covered):
        ends = [0]
        for begin, end in stretches:
            assert begin == ends[-1] and end > begin  # in order, without gap or overlap
            ends.append(end)
        assert ends[-1] == tiles[segment]

    work = (shares.end - shares.begin) * shares.cost
    of_cta = np.bincount(shares.cta, work, minlength=ctas)
    largest = shares.cost.max(initial=0)
    assert (np.abs(of_cta - work.sum() / ctas) <= largest + 1).all()
    assert (np.diff(shares.cta) >= 0).all()
    return shares


@pytest.mark.parametrize("seed", range(10))
def test_every_tile_once_and_equal_shares(kernels_host: ModuleType, seed: int) -> None:
    """60 batches a seed."""
    rng = np.random.default_rng(seed)
    for _ in range(60):
        check_partition(kernels_host, rng, int(rng.integers(1, 50)), int(rng.integers(1, 20)))


@pytest.mark.parametrize("sequences", [61, 62, 63, 64, 127, 1000])
def test_more_segments_than_threads(kernels_host: ModuleType, sequences: int) -> None:
    """The block has 64 threads, one for each segment of a chunk."""
    rng = np.random.default_rng(sequences)
    for ctas in (1, 7, 33):
        check_partition(kernels_host, rng, sequences, ctas)


def test_grid_of_a_card(kernels_host: ModuleType) -> None:
    check_partition(kernels_host, np.random.default_rng(0), 40, 132)


def test_cost_grows_with_the_keys(kernels_host: ModuleType) -> None:
    """Tiles without keys only write zeros; a step is 16 keys, and dearer where keys are many."""
    keys = np.array(
        [0, 1, 16, 17, WEIGHED_KEYS, WEIGHED_KEYS + 1, RESIDENT_KEYS, RESIDENT_KEYS + 1]
    )
    cu_q, cu_k = offsets(np.full(len(keys), 16), 0), offsets(keys, 0)
    total_q = 16 * len(keys)
    shares = Shares(*partition_rows(kernels_host, cu_q, cu_k, total_q, int(keys.sum()), 1, 1).T)
    none, one, full, over, weighed, anew, resident, streamed = shares.cost
    assert none < one == full < over < weighed < anew < resident < streamed
    steps = -(-keys // 16)
    per_step = [(b - a) / (m - n) for a, b, n, m in [
        (full, over, steps[2], steps[3]), (over, weighed, steps[3], steps[4])
    ]]  # fmt: skip
    assert per_step[0] == per_step[1]


def test_no_rows(kernels_host: ModuleType) -> None:
    nothing = np.zeros(4, np.int32)
    assert partition_rows(kernels_host, nothing, nothing, 0, 0, 48, 9).shape == (0, 5)
    assert kernels_host.partition_keys(nothing, nothing, 0, 0, 48, 96, COSTS[0], 9).shape == (0, 9)


class Parts(NamedTuple):
    """Some rows of a tile of keys each; every field (parts) int64."""

    cta: np.ndarray
    sequence: np.ndarray
    first_key: np.ndarray
    keys: np.ndarray  # from the first on
    begin: np.ndarray  # rows
    end: np.ndarray
    turn: np.ndarray
    turns: np.ndarray  # of the tile
    slot: np.ndarray


@pytest.mark.parametrize("costs", [*COSTS, (0, 1, 1, 0)])
@pytest.mark.parametrize("seed", range(8))
def test_all_keys_see_all_rows_once(
    kernels_host: ModuleType, seed: int, costs: tuple[int, ...]
) -> None:
    """Turns of a tile follow the CTAs, so that none waits for one launched after it."""
    rng = np.random.default_rng(seed)
    for _ in range(30):
        sequences, ctas = int(rng.integers(1, 90)), int(rng.integers(1, 40))
        heads, block = int(rng.choice([1, 3, 48, 96])), int(rng.choice([64, 96, 128]))
        queries, keys = lengths(rng, sequences), lengths(rng, sequences)
        before, after = rng.integers(0, 200, 2) * int(rng.random() < 0.3)
        cu_q, cu_k = offsets(queries, 0), offsets(keys, before)
        total_q, total_k = int(cu_q[-1]), int(cu_k[-1] + after)
        table = kernels_host.partition_keys(cu_q, cu_k, total_q, total_k, heads, block, costs, ctas)
        parts = Parts(*table.T)

        tokens = np.concatenate([[before], keys, [after]])
        rows = np.concatenate([[0], queries, [0]]) * heads
        tiles: dict[tuple[int, int], list[np.ndarray]] = {}
        for row in table:
            tiles.setdefault((row[1] + 1, row[2]), []).append(row)
        assert set(tiles) == {
            (segment, first)
            for segment, count in enumerate(tokens)
            for first in range(0, count, block)
        }
        slots = set()
        for (segment, first), of_tile in tiles.items():
            of = Parts(*np.array(of_tile).T)
            assert (of.keys == tokens[segment] - first).all()
            assert (of.turns == len(of_tile)).all() and len(set(of.slot)) == 1
            slots.add(int(of.slot[0]))
            order = np.argsort(of.turn)
            assert (of.turn[order] == np.arange(len(of_tile))).all()
            assert (np.diff(of.cta[order]) > 0).all()
            spans = sorted(zip(of.begin, of.end, strict=True))
            assert spans[0][0] == 0 and spans[-1][1] == rows[segment]
            assert all(a[1] == b[0] for a, b in itertools.pairwise(spans))
        assert len(slots) == len(tiles)  # a counter of its own for each tile
        assert max(slots, default=0) < kernels_host.slot_bound(total_k, 1, block, sequences)
        assert (parts.cta < ctas).all()


def test_key_shares_are_equal(kernels_host: ModuleType) -> None:
    """Row blocks of tiles, cheaper where keys are few, within a tile's overhead of each other."""
    keys = np.array([178, 130, 64, 250, 90, 201])
    queries = np.array([1900, 2100, 1700, 1500, 2300, 2000])
    cu_q, cu_k = offsets(queries, 0), offsets(keys, 0)
    table = kernels_host.partition_keys(
        cu_q, cu_k, int(cu_q[-1]), int(cu_k[-1]), 48, 128, COSTS[1], 66
    )
    parts = Parts(*table.T)
    cost = (parts.end - parts.begin) / 32 * np.where(parts.keys <= 64, 70, 100)
    of_cta = np.bincount(parts.cta, cost, minlength=66)
    assert of_cta.max() - of_cta.min() <= 4 * 100
    assert of_cta.mean() > 10_000


def test_little_work_goes_to_few_ctas(kernels_host: ModuleType) -> None:
    """Each gets some hundred rows at least: turns cost time too."""
    cu_q, cu_k = offsets(np.array([64]), 0), offsets(np.array([64]), 0)
    table = kernels_host.partition_keys(cu_q, cu_k, 64, 64, 48, 128, COSTS[1], 132)
    assert 2 <= len(table) <= 64 * 48 // 256
