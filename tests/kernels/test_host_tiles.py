"""Tiles in shared memory: where elements lie, and what a warp's lanes copy and read of them."""

from types import ModuleType

import numpy as np
import pytest

FEATURES = 160
CHUNK = 8  # elements of 16 bytes
BANK_ELEMENTS = 64  # elements of 128 bytes: all 32 banks once

row_counts = pytest.mark.parametrize("rows", [16, 32, 256])
few_rows = pytest.mark.parametrize("rows", [16, 32])


def assert_no_conflict(offsets: np.ndarray) -> None:
    """Eight 16-byte accesses, offsets in elements, touch all 32 banks once."""
    assert (offsets % CHUNK == 0).all()
    assert sorted(offsets % BANK_ELEMENTS // CHUNK) == list(range(8))


@row_counts
def test_layout_is_a_bijection(kernels_host: ModuleType, rows: int) -> None:
    offsets = kernels_host.tile_offsets(rows)
    assert offsets.shape == (rows, FEATURES)
    np.testing.assert_array_equal(np.sort(offsets, axis=None), np.arange(rows * FEATURES))


@row_counts
def test_layout_keeps_chunks_together(kernels_host: ModuleType, rows: int) -> None:
    chunks = kernels_host.tile_offsets(rows).reshape(rows, -1, CHUNK)
    assert (chunks[..., 0] % CHUNK == 0).all()
    np.testing.assert_array_equal(chunks - chunks[..., :1], np.zeros_like(chunks) + range(CHUNK))


@row_counts
def test_copies_cover_the_tile_once(kernels_host: ModuleType, rows: int) -> None:
    """Four threads a row; each piece lands where the layout has its elements."""
    offsets = kernels_host.tile_offsets(rows)
    covered = np.zeros(rows * FEATURES, int)
    for row in range(rows):
        for chunk in range(4):
            for source, target, valid in kernels_host.row_copies(rows, row, chunk, True):
                assert valid
                assert source % CHUNK == 0
                assert target == offsets[row, source]
                covered[target : target + CHUNK] += 1
    assert (covered == 1).all()


@row_counts
def test_rows_that_are_not_valid_are_zero_filled(kernels_host: ModuleType, rows: int) -> None:
    """The same pieces, each with the mark that makes cp.async write zeros."""
    for row in (0, rows - 1):
        good = kernels_host.row_copies(rows, row, 3, True)
        bad = kernels_host.row_copies(rows, row, 3, False)
        assert [piece[:2] for piece in bad] == [piece[:2] for piece in good]
        assert not any(valid for *_, valid in bad)


@row_counts
def test_copies_have_no_bank_conflicts(kernels_host: ModuleType, rows: int) -> None:
    """Thread t copies chunk t % 4 of row t / 4; a quarter of a warp writes at a time."""
    copies = np.array(
        [
            [target for _, target, _ in kernels_host.row_copies(rows, row, chunk, True)]
            for row in range(rows)
            for chunk in range(4)
        ]
    )
    for quarter in copies.reshape(-1, 8, copies.shape[1]):
        for piece in quarter.T:
            assert_no_conflict(piece)


def moved(coordinates: np.ndarray, rows: int, features: int) -> np.ndarray:
    """The same places further on in a tile; last axis: row, feature."""
    return coordinates + np.array((rows, features))


def fragments(rows: int) -> list[tuple[int, int]]:
    """All (strip, step) of a tile."""
    return [(strip, step) for strip in range(rows // 16) for step in range(FEATURES // 16)]


@few_rows
@pytest.mark.parametrize("load", ["load_a", "load_b_over_features", "load_b_over_tokens"])
def test_ldmatrix_has_no_bank_conflicts(kernels_host: ModuleType, rows: int, load: str) -> None:
    for strip, step in fragments(rows):
        offsets, _ = getattr(kernels_host, load)(rows, strip, step)
        for phase in offsets.reshape(4, 8):
            assert_no_conflict(phase)


@row_counts
def test_a_operand(kernels_host: ModuleType, rows: int) -> None:
    """M = rows, K = features, as the MMA wants them."""
    wanted = kernels_host.mma_a()  # (lane, value, (m, k))
    for strip, step in fragments(rows):
        _, coordinates = kernels_host.load_a(rows, strip, step)
        np.testing.assert_array_equal(coordinates, moved(wanted, 16 * strip, 16 * step))


@row_counts
def test_b_operand_over_features(kernels_host: ModuleType, rows: int) -> None:
    """N = rows, in two tiles of 8, K = features."""
    one_tile = kernels_host.mma_b()  # (lane, value, (n, k))
    wanted = np.concatenate([one_tile, moved(one_tile, 8, 0)], axis=1)
    for strip, step in fragments(rows):
        _, coordinates = kernels_host.load_b_over_features(rows, strip, step)
        np.testing.assert_array_equal(coordinates, moved(wanted, 16 * strip, 16 * step))


@row_counts
def test_b_operand_over_tokens(kernels_host: ModuleType, rows: int) -> None:
    """K = rows, N = features, in two tiles of 8: read transposed."""
    one_tile = kernels_host.mma_b()[..., ::-1]  # (lane, value, (k, n))
    wanted = np.concatenate([one_tile, moved(one_tile, 0, 8)], axis=1)
    for strip, step in fragments(rows):
        _, coordinates = kernels_host.load_b_over_tokens(rows, strip, step)
        np.testing.assert_array_equal(coordinates, moved(wanted, 16 * strip, 16 * step))
