"""A warp's accumulators on their way to operands and to global memory, by CuTe's coordinates."""

from types import ModuleType

import numpy as np
import pytest
import torch

dtypes = pytest.mark.parametrize("dtype", ["float16", "bfloat16"])


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def rounded(values: np.ndarray, dtype: str) -> np.ndarray:
    """To nearest even in 16 bits, as fp32."""
    return torch.from_numpy(values).to(getattr(torch, dtype)).float().numpy()


@dtypes
def test_packed_accumulators_are_an_a_operand(kernels_host: ModuleType, dtype: str) -> None:
    matrix = normal(32, 32)
    packed = getattr(kernels_host, f"packed_{dtype}")(matrix)
    np.testing.assert_array_equal(packed, rounded(matrix, dtype))
    assert np.unique(packed).size > 500  # so that an element in the wrong place shows


@dtypes
def test_scaling_by_a_packed_operand(kernels_host: ModuleType, dtype: str) -> None:
    matrix, factors = normal(32, 32, seed=1), normal(32, 32, seed=2)
    scaled = getattr(kernels_host, f"scaled_{dtype}")(matrix, factors)
    np.testing.assert_array_equal(scaled, matrix * rounded(factors, dtype))


@dtypes
@pytest.mark.parametrize("valid_rows", [0, 1, 9, 31, 32])
def test_stored_rows(kernels_host: ModuleType, dtype: str, valid_rows: int) -> None:
    matrix, factor = normal(32, 160, seed=3), np.float32(0.37)
    stored = getattr(kernels_host, f"stored_rows_{dtype}")(matrix, factor, valid_rows)
    np.testing.assert_array_equal(stored[:valid_rows], rounded(matrix * factor, dtype)[:valid_rows])
    assert np.isnan(stored[valid_rows:]).all()  # nothing was written there


def test_sums_pass_from_turn_to_turn(kernels_host: ModuleType) -> None:
    first, middle, last = (normal(32, 160, seed=seed) for seed in (4, 5, 9))
    result = kernels_host.sums_in_turn(first, middle, last)
    np.testing.assert_array_equal(result, last + (first + middle))


def quad_order() -> np.ndarray:
    """The feature at each position: words of 2 features, transposed in blocks of 4 x 4."""
    features = np.arange(160).reshape(5, 4, 4, 2)  # (block, chunk, word, feature)
    return features.transpose(0, 2, 1, 3).reshape(160)


def test_tile_in_quad_order(kernels_host: ModuleType) -> None:
    matrix = normal(16, 160, seed=6)
    tile = kernels_host.quad_order_tile(matrix, 11)
    np.testing.assert_array_equal(tile[:11], rounded(matrix, "float16")[:11, quad_order()])
    assert (tile[11:] == 0).all()


def test_operand_in_quad_order(kernels_host: ModuleType) -> None:
    matrix = normal(16, 160, seed=7)
    operand = kernels_host.quad_order_operand(matrix)
    np.testing.assert_array_equal(operand, rounded(matrix, "float16")[:, quad_order()])


def test_stored_in_quad_order(kernels_host: ModuleType) -> None:
    matrix, factor = normal(16, 160, seed=8), np.float32(-1.7)
    stored = kernels_host.stored_in_quad_order(matrix, factor)
    np.testing.assert_array_equal(stored[:, quad_order()], rounded(matrix * factor, "float16"))
