"""Rows and keys shared out over a grid as large as the card: everything once, equal shares."""

import itertools
from types import ModuleType
from typing import NamedTuple

import numpy as np
import pytest

BLOCK = 16  # rows of a tile
LARGEST_TEAM = 4  # CTAs that read rows together
RESIDENT_KEYS = 90  # where a tile's cost changes
ROOM = (50, 10, 4)  # in all, for the keys and for the weights of a step: three steps have both
TURN_COST = 125  # that of one and a quarter blocks of 32 rows
COSTS = [(0, 0, 49, 17), (64, 70, 100, 0)]  # of key tiles: narrow keys, narrow, wide, per 32 keys


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
        cu_q, cu_k, total_q, total_k, heads, BLOCK, RESIDENT_KEYS, ROOM, ctas
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
    """Tiles without keys only write zeros; a step is 16 keys, and dearer without weights."""
    keys = np.array([0, 1, 16, 17, 48, 49, 64, 65, RESIDENT_KEYS - 10, RESIDENT_KEYS + 1])
    cu_q, cu_k = offsets(np.full(len(keys), 16), 0), offsets(keys, 0)
    total_q = 16 * len(keys)
    shares = Shares(*partition_rows(kernels_host, cu_q, cu_k, total_q, int(keys.sum()), 1, 1).T)
    none, one, full, two, three, some, same, without, more, streamed = shares.cost
    assert none < one == full < two < three < some == same < without == more < streamed
    assert two - full == (three - two) == 4  # steps with weights
    assert some - three == 5 + 1  # a step without, and one of those before: two have room
    assert without - some == 5 + 2


def test_no_rows(kernels_host: ModuleType) -> None:
    nothing = np.zeros(4, np.int32)
    assert partition_rows(kernels_host, nothing, nothing, 0, 0, 48, 9).shape == (0, 5)
    table = kernels_host.partition_keys(nothing, nothing, 0, 0, 48, 96, LARGEST_TEAM, COSTS[0], 9)
    assert table.shape == (0, 10)


class Parts(NamedTuple):
    """Some rows of a tile of keys each; every field (parts) int64."""

    cta: np.ndarray
    sequence: np.ndarray
    first_key: np.ndarray
    end_key: np.ndarray
    computed_keys: np.ndarray  # from the first on, those that are not the tile's included
    begin: np.ndarray  # rows
    end: np.ndarray
    turn: np.ndarray
    turns: np.ndarray  # of the tile
    slot: np.ndarray


def check_tile(of_tile: list[np.ndarray], rows: int) -> Parts:
    """Its CTAs see all rows once, and none waits for one launched after it."""
    of = Parts(*np.array(of_tile).T)
    for same in (of.end_key, of.slot, of.computed_keys):
        assert len(set(same)) == 1
    assert (of.turns == len(of_tile)).all()
    order = np.argsort(of.turn)
    assert (of.turn[order] == np.arange(len(of_tile))).all()
    assert (np.diff(of.cta[order]) > 0).all()
    spans = sorted(zip(of.begin, of.end, strict=True))
    assert spans[0][0] == 0 and spans[-1][1] == rows
    assert all(a[1] == b[0] for a, b in itertools.pairwise(spans))
    return of


@pytest.mark.parametrize("costs", [*COSTS, (0, 1, 1, 0)])
@pytest.mark.parametrize("team", [1, LARGEST_TEAM])
@pytest.mark.parametrize("seed", range(6))
def test_all_keys_see_all_rows_once(
    kernels_host: ModuleType, seed: int, team: int, costs: tuple[int, ...]
) -> None:
    """Tiles cover a segment's keys without gap or overlap, as few as there can be."""
    rng = np.random.default_rng(seed)
    for _ in range(20):
        sequences, ctas = int(rng.integers(1, 90)), int(rng.integers(1, 40))
        heads, block = int(rng.choice([1, 3, 48, 96])), int(rng.choice([64, 96, 128]))
        queries, keys = lengths(rng, sequences), lengths(rng, sequences)
        before, after = rng.integers(0, 200, 2) * int(rng.random() < 0.3)
        cu_q, cu_k = offsets(queries, 0), offsets(keys, before)
        total_q, total_k = int(cu_q[-1]), int(cu_k[-1] + after)
        table = kernels_host.partition_keys(
            cu_q, cu_k, total_q, total_k, heads, block, team, costs, ctas
        )

        tiles: dict[tuple[int, int], list[np.ndarray]] = {}
        for row in table:
            tiles.setdefault((int(row[1]) + 1, int(row[2])), []).append(row)
        slots: list[int] = []
        for segment, tokens in enumerate([before, *keys, after]):
            firsts = sorted(first for of, first in tiles if of == segment)
            assert len(firsts) == -(-tokens // block)
            ends = [0]
            for first in firsts:
                rows = queries[segment - 1] * heads if 0 < segment <= sequences else 0
                of = check_tile(tiles[segment, first], rows)
                assert first == ends[-1] and first < of.end_key[0]
                assert of.end_key[0] - first <= of.computed_keys[0] <= block
                ends.append(int(of.end_key[0]))
                slots.append(int(of.slot[0]))
            assert ends[-1] == tokens
        assert len(slots) == len(set(slots)) == len(tiles)  # a counter of its own for each tile
        assert max(slots, default=0) < kernels_host.slot_bound(total_k, 1, block, sequences)
        assert (table[:, 0] < ctas).all()


def long_queries(rng: np.random.Generator, sequences: int, most_keys: int) -> np.ndarray:
    """(2,sequences): many queries, few keys."""
    return np.stack([
        rng.integers(1200, 2300, sequences), rng.integers(most_keys // 3, most_keys, sequences)
    ])  # fmt: skip


@pytest.mark.parametrize("ctas", [84, 132])
@pytest.mark.parametrize("most_keys", [160, 250, 384])
def test_teams_read_rows_together(kernels_host: ModuleType, most_keys: int, ctas: int) -> None:
    """Neighbouring CTAs, each with its tile, the same rows in the same order and at one pace."""
    for seed in range(10):
        queries, keys = long_queries(np.random.default_rng(seed), 24, most_keys)
        cu_q, cu_k = offsets(queries, 0), offsets(keys, 0)
        table = kernels_host.partition_keys(
            cu_q, cu_k, int(cu_q[-1]), int(cu_k[-1]), 48, 96, LARGEST_TEAM, COSTS[0], ctas
        )
        of_cta = {cta: table[table[:, 0] == cta] for cta in range(ctas)}
        cta = 0
        while cta < ctas and len(of_cta[cta]):
            tiles = -(-keys[of_cta[cta][0][1]] // 96)
            for member in range(tiles):
                first, other = Parts(*of_cta[cta].T), Parts(*of_cta[cta + member].T)
                for same in ("sequence", "begin", "end", "computed_keys", "turn", "turns"):
                    assert (getattr(first, same) == getattr(other, same)).all()
                # the tile at this place among those of the sequence
                assert (other.first_key == first.computed_keys * member).all()
            cta += tiles
        assert set(range(cta, ctas)) <= {c for c, parts in of_cta.items() if len(parts) == 0}

        parts = Parts(*table.T)
        cost = (parts.end - parts.begin) / 32 * (49 + 17 * -(-parts.computed_keys // 32))
        work = np.bincount(parts.cta, cost, minlength=ctas)
        assert work.max() <= 1.125 * work.sum() / ctas + 6 * 100


def test_a_team_is_no_larger_than_the_grid(kernels_host: ModuleType) -> None:
    """Fewer CTAs, and teams that would leave too many of them idle: each goes by itself."""
    cu_q, cu_k = offsets(np.array([2000]), 0), offsets(np.array([380]), 0)
    for ctas, together in [(3, False), (4, True), (7, False), (8, True)]:
        table = kernels_host.partition_keys(
            cu_q, cu_k, 2000, 380, 48, 96, LARGEST_TEAM, COSTS[0], ctas
        )
        parts = Parts(*table.T)
        assert len(set(parts.cta)) == ctas
        rows_of_tiles = {
            tuple(sorted(parts.begin[parts.first_key == first])) for first in parts.first_key
        }
        assert (len(rows_of_tiles) == 1) == together


def test_key_shares_are_equal(kernels_host: ModuleType) -> None:
    """Row blocks of tiles, cheaper where keys are few, but for tiles' overheads and turns."""
    keys = np.array([178, 130, 64, 250, 90, 201])
    queries = np.array([1900, 2100, 1700, 1500, 2300, 2000])
    cu_q, cu_k = offsets(queries, 0), offsets(keys, 0)
    table = kernels_host.partition_keys(
        cu_q, cu_k, int(cu_q[-1]), int(cu_k[-1]), 48, 128, 1, COSTS[1], 66
    )
    parts = Parts(*table.T)
    cost = (parts.end - parts.begin) / 32 * np.where(parts.computed_keys <= 64, 70, 100)
    of_cta = np.bincount(parts.cta, cost, minlength=66)
    assert of_cta.max() - of_cta.min() <= 4 * 100 + TURN_COST * (parts.turns.max() - 1)
    assert of_cta.mean() > 10_000


@pytest.mark.parametrize("queries", [1, 16, 64, 200, 1000])
@pytest.mark.parametrize(("keys", "tiles"), [(64, 1), (128, 1), (256, 2), (640, 5)])
def test_turns_take_as_long_as_the_rows_before_them(
    kernels_host: ModuleType, queries: int, keys: int, tiles: int
) -> None:
    """As many CTAs share a tile as pays; one has less to do than the next, whose turn is later."""
    cu_q, cu_k = offsets(np.array([queries]), 0), offsets(np.array([keys]), 0)
    table = kernels_host.partition_keys(cu_q, cu_k, queries, keys, 48, 128, 1, COSTS[1], 132)
    block = 70 if keys <= 64 else 100
    whole = (np.ceil(queries * 48 / 32) + 3) * block
    pays = min(np.sqrt(4 / 3 * whole / TURN_COST), 132 / tiles)
    parts = Parts(*table[np.lexsort([table[:, 7], table[:, 2]])].T)
    assert tiles * (pays - 1) <= len(set(parts.cta)) <= max(tiles * pays, 1)
    for first in set(parts.first_key):
        rows = (parts.end - parts.begin)[parts.first_key == first]
        assert rows.sum() == queries * 48
        # but for the last, which has the tile's overhead, and where a CTA has rows of two tiles
        steps = np.diff(rows / 32 * block)[1:-1]
        assert (np.abs(steps - TURN_COST) <= 2 * block).all()
        assert abs(steps.sum() - TURN_COST * len(steps)) <= 2 * block
        assert tiles > 1 or rows[0] >= rows.mean() / 4


@pytest.mark.parametrize("queries", [64, 200, 1000])
def test_teams_take_turns_as_long_as_their_rows(kernels_host: ModuleType, queries: int) -> None:
    """A team of two shares rows with as many teams as pays, as CTAs do."""
    cu_q, cu_k = offsets(np.array([queries]), 0), offsets(np.array([190]), 0)
    table = kernels_host.partition_keys(
        cu_q, cu_k, queries, 190, 48, 96, LARGEST_TEAM, COSTS[0], 132
    )
    whole = (np.ceil(queries * 48 / 32) + 3) * 100
    pays = min(np.sqrt(4 / 3 * whole / TURN_COST), 132 // 2)
    turns = Parts(*table.T).turns.max()
    assert pays - 1 <= turns <= pays


@pytest.mark.parametrize("others", [0, 4], ids=["without_queries", "few_queries"])
def test_a_costly_tile_among_cheap_ones(kernels_host: ModuleType, others: int) -> None:
    """Its CTAs are no more than pays for it, however cheap the others are."""
    queries, keys = np.array([300, *[others] * 20]), np.full(21, 128)
    cu_q, cu_k = offsets(queries, 0), offsets(keys, 0)
    table = kernels_host.partition_keys(
        cu_q, cu_k, int(queries.sum()), int(keys.sum()), 48, 128, 1, COSTS[1], 132
    )
    pays = np.sqrt(4 / 3 * (300 * 48 / 32 + 3) * 100 / TURN_COST)
    parts = Parts(*table[np.argsort(table[:, 7])].T)
    rows = (parts.end - parts.begin)[parts.sequence == 0]
    assert pays - 1 <= len(rows) <= pays + 1  # CTAs at its ends share other tiles, too
    assert rows[1:-1].min() >= rows.mean() / 4
