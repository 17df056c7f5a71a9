"""The score's mathematics on the host against float64."""

from types import ModuleType

import numpy as np
import pytest
import torch

LOG2_E = np.log2(np.e)
CAPS = [0.0, 0.5, 3.0, 4.0, 50.0]
SCALE = 0.75 / 160**0.5
FLOAT32_STEP = 2.0**-23

kinds = pytest.mark.parametrize(
    ("kind", "softcap"),
    [("general", cap) for cap in CAPS] + [("bounded", cap) for cap in (0.5, 3.0, 4.0)],
)


def exact_squash(dot: np.ndarray, softcap: float) -> np.ndarray:
    """t in float64; without a cap the log2 logit itself."""
    x = SCALE * dot.astype(np.float64)
    return np.tanh(x / softcap) if softcap else x * LOG2_E


def exact_gain(softcap: float) -> float:
    """Log2 logit per unit of t."""
    return softcap * LOG2_E if softcap else 1.0


@pytest.fixture(scope="module")
def dots() -> np.ndarray:
    """Products q.k, from tiny to huge, both signs."""
    magnitudes = np.concatenate([np.logspace(-6, 7, 400), np.linspace(0, 400, 401)])
    return np.concatenate([-magnitudes, magnitudes]).astype(np.float32)


@pytest.mark.parametrize("softcap", CAPS)
def test_constants(kernels_host: ModuleType, softcap: float) -> None:
    x_scale, gain, capped = kernels_host.score_constants(SCALE, softcap)
    assert capped == (softcap > 0)
    assert x_scale == pytest.approx(SCALE / softcap if softcap else SCALE * LOG2_E, rel=1e-6)
    assert gain == pytest.approx(exact_gain(softcap), rel=1e-6)


def test_kind_follows_the_cap(kernels_host: ModuleType) -> None:
    limit = np.float32(kernels_host.max_bounded_cap)
    bounded = [1e-30, 0.5, 3.0, limit]
    general = [0.0, np.nextafter(limit, np.float32(np.inf)), 50.0, np.inf]
    assert all(kernels_host.is_bounded(cap) for cap in bounded)
    assert not any(kernels_host.is_bounded(cap) for cap in general)


@kinds
def test_squash(kernels_host: ModuleType, kind: str, softcap: float, dots: np.ndarray) -> None:
    t = getattr(kernels_host, kind).squash(dots, SCALE, softcap)
    np.testing.assert_allclose(t, exact_squash(dots, softcap), rtol=4 * FLOAT32_STEP, atol=1e-12)
    if softcap:
        assert np.abs(t).max() <= 1.0


@kinds
def test_squash_of_infinities(kernels_host: ModuleType, kind: str, softcap: float) -> None:
    infinities = np.array([-np.inf, np.inf], np.float32)
    t = getattr(kernels_host, kind).squash(infinities, SCALE, softcap)
    assert t.tolist() == ([-1.0, 1.0] if softcap else [-np.inf, np.inf])


@kinds
def test_derivative_against_autograd(
    kernels_host: ModuleType, kind: str, softcap: float, dots: np.ndarray
) -> None:
    functions = getattr(kernels_host, kind)
    x = (SCALE * torch.from_numpy(dots).double()).requires_grad_()
    capped = softcap * torch.tanh(x / softcap) if softcap else x
    (expected,) = torch.autograd.grad(capped.sum(), x)
    t = functions.squash(dots, SCALE, softcap)
    weight = np.float32(-2.5)
    weighted = functions.times_squash_derivative(weight, t, SCALE, softcap)
    # 1 - t^2 has the absolute error of t
    np.testing.assert_allclose(weighted, weight * expected.numpy(), rtol=1e-6, atol=1e-6)


@kinds
def test_derivative_is_of_the_same_logit(
    kernels_host: ModuleType, kind: str, softcap: float
) -> None:
    """To first order, a step of x moves the host's own logit by log2(e) (1 - t^2) the step."""
    functions = getattr(kernels_host, kind)
    reach = 3 * (softcap or 10.0) / SCALE
    dots = np.linspace(-reach, reach, 1001, dtype=np.float32)
    step = np.float32(reach / 512)
    neg_slope, distance = np.float32(-0.3), np.float32(7)

    def logit(dot: np.ndarray) -> np.ndarray:
        t = functions.squash(dot, SCALE, softcap)
        return functions.logit(t, neg_slope, distance, SCALE, softcap).astype(np.float64)

    above, below = dots + step, dots - step
    dx = SCALE * (above.astype(np.float64) - below)
    difference = (logit(above) - logit(below)) / dx / LOG2_E
    t = functions.squash(dots, SCALE, softcap)
    derivative = functions.times_squash_derivative(1.0, t, SCALE, softcap)
    np.testing.assert_allclose(derivative, difference, atol=1e-3)


@kinds
def test_probability(kernels_host: ModuleType, kind: str, softcap: float) -> None:
    functions = getattr(kernels_host, kind)
    rng = np.random.default_rng(1)
    count = 5000
    dot = rng.normal(scale=40.0, size=count).astype(np.float32)
    neg_slope = rng.uniform(-2.0, 2.0, count).astype(np.float32)
    distance = rng.integers(-40, 41, count).astype(np.float32)
    t = functions.squash(dot, SCALE, softcap)
    exact = exact_gain(softcap) * exact_squash(dot, softcap)
    exact += neg_slope.astype(np.float64) * np.abs(distance)
    logit = functions.logit(t, neg_slope, distance, SCALE, softcap)
    np.testing.assert_allclose(logit, exact, rtol=1e-6, atol=4e-5)

    reference = (exact + rng.uniform(-6.0, 6.0, count)).astype(np.float32)
    p = functions.probability(t, neg_slope, distance, -reference, SCALE, softcap)
    np.testing.assert_allclose(p, np.exp2(exact - reference), rtol=1e-4)


@pytest.mark.parametrize("softcap", CAPS)
def test_equal_huge_logits_cancel(kernels_host: ModuleType, softcap: float) -> None:
    """p of the row's largest logit is exactly 1, however huge that logit is."""
    functions = kernels_host.general
    rng = np.random.default_rng(2)
    dot = (rng.choice([-1, 1], 2000) * 10.0 ** rng.uniform(3, 30, 2000)).astype(np.float32)
    neg_slope = rng.uniform(-1e6, 1e6, dot.size).astype(np.float32)
    distance = rng.integers(-100_000, 100_000, dot.size).astype(np.float32)
    t = functions.squash(dot, SCALE, softcap)
    logit = functions.logit(t, neg_slope, distance, SCALE, softcap)
    assert np.isfinite(logit).all() and np.abs(logit).max() > 1e9
    assert (functions.probability(t, neg_slope, distance, -logit, SCALE, softcap) == 1.0).all()


@pytest.mark.parametrize("keys", [1, 2, 3, 64, 257])
@pytest.mark.parametrize("neg_slope", [-3.5, -0.011, 0.0, 0.011, 3.5])
def test_reference_is_the_largest_bias(
    kernels_host: ModuleType, keys: int, neg_slope: float
) -> None:
    """Rows stand left of the keys, among them and right of them."""
    positions = np.arange(-300, keys + 300, dtype=np.int32)
    slope = np.float32(neg_slope)
    distances = np.abs(positions[:, None] - np.arange(keys)).astype(np.float32)
    largest = (slope * distances).max(axis=1)
    maxima = -kernels_host.neg_bias_maximum(slope, positions, keys)
    np.testing.assert_array_equal(maxima, largest)


@pytest.mark.parametrize("softcap", [0.5, 3.0, 4.0])
def test_reference_bounds_every_logit(kernels_host: ModuleType, softcap: float) -> None:
    """No logit exceeds the reference by more than gain, and one of each row may come within it."""
    _, gain, _ = kernels_host.score_constants(SCALE, softcap)
    functions = kernels_host.bounded
    rng = np.random.default_rng(3)
    for _ in range(300):
        keys = int(rng.integers(1, 300))
        position = int(rng.integers(-400, keys + 400))
        neg_slope = np.float32(rng.choice([-1, 1]) * 2.0 ** rng.uniform(-9, 3))
        t = rng.uniform(-1, 1, keys).astype(np.float32)
        t[rng.integers(keys)] = 1.0
        neg_reference = kernels_host.neg_bias_maximum(neg_slope, position, keys)
        distance = np.float32(position) - np.arange(keys, dtype=np.float32)
        logit = functions.logit(t, neg_slope, distance, SCALE, softcap).astype(np.float64)
        slack = 2 * FLOAT32_STEP * (abs(neg_reference) + gain)
        assert (logit + neg_reference).max() <= gain + slack
        p = functions.probability(t, neg_slope, distance, neg_reference, SCALE, softcap)
        assert p.max() <= np.exp2(gain + slack) * (1 + 1e-6)
        # the nearest or farthest key alone: its whole bias is in the reference
        p = functions.probability(np.float32(1), neg_slope, distance, neg_reference, SCALE, softcap)
        assert p.max() == pytest.approx(np.exp2(gain), rel=2 * slack + 1e-6)


def test_slopes_are_negated_log2_and_honour_strides(kernels_host: ModuleType) -> None:
    storage = np.random.default_rng(4).normal(size=(6, 14)).astype(np.float32)
    for slopes in (storage, storage[::2, 1::3], storage.T, np.broadcast_to(storage[0], (5, 14))):
        expected = -LOG2_E * slopes.astype(np.float64)
        np.testing.assert_allclose(kernels_host.neg_log2_slopes(slopes), expected, rtol=1e-6)
    assert kernels_host.neg_log2_slope_without_slopes() == 0.0


@pytest.mark.parametrize("softcap", [0.5, 3.0, 4.0])
def test_weights_against_a_known_reference_stay_below_1(
    kernels_host: ModuleType, softcap: float
) -> None:
    """Where the bias is largest: they are kept in 16 bits and multiply dP."""
    assert softcap <= kernels_host.max_bounded_cap
    t = np.linspace(-1, 1, 2001, dtype=np.float32)
    p = kernels_host.bounded.probability(t, 0, 0, -kernels_host.reference_margin, SCALE, softcap)
    weights = kernels_host.bounded.times_squash_derivative(p, t, SCALE, softcap)
    assert 0 < weights.max() < 1
    assert p.min() > 6.2e-5  # no probability is subnormal in float16
