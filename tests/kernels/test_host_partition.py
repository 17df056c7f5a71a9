"""Rows shared out over a grid as large as the card: every tile once, equal shares."""

from types import ModuleType
from typing import NamedTuple

import numpy as np
import pytest

BLOCK = 16  # rows of a tile


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


def check_partition(
    module: ModuleType, rng: np.random.Generator, sequences: int, ctas: int
) -> Shares:
    """Draws a batch, some with spare tokens, and checks who gets what of it."""
    heads = int(rng.choice([1, 3, 48, 96]))
    queries, keys = lengths(rng, sequences), lengths(rng, sequences)
    before, after = rng.integers(0, 50, 2) * int(rng.random() < 0.3)
    cu_q, cu_k = offsets(queries, before), offsets(keys, 0)
    total_q, total_k = int(cu_q[-1] + after), int(cu_k[-1])
    table = module.partition_rows(cu_q, cu_k, total_q, total_k, heads, BLOCK, ctas)
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
    """Tiles without keys only write zeros; a step is 16 keys."""
    keys = np.array([0, 1, 16, 17, 256])
    cu_q, cu_k = offsets(np.full(5, 16), 0), offsets(keys, 0)
    shares = Shares(*kernels_host.partition_rows(cu_q, cu_k, 80, int(keys.sum()), 1, BLOCK, 1).T)
    none, one, full, over, most = shares.cost
    assert none < one == full < over < most
    assert over - full == 1 and most - full == 15


def test_no_rows(kernels_host: ModuleType) -> None:
    nothing = np.zeros(4, np.int32)
    assert kernels_host.partition_rows(nothing, nothing, 0, 0, 48, BLOCK, 9).shape == (0, 5)
