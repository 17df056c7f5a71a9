"""Times of a case from the main loops of its kernels."""

import pytest
from ragged_attention.bench.case import dense_case
from ragged_attention.bench.machine_code import predict
from ragged_attention.bench.machine_code.kernels import Tiles
from sm86_samples import RULE, loops_of, read_table


@pytest.fixture
def tiles(tmp_path) -> Tiles:
    return read_table(tmp_path)


def test_prediction_by_hand(tiles):
    loops = loops_of(tiles)
    spec = dense_case("case", (64,), (288,), heads=48)  # rows and keys fill their tiles
    found = predict.predict(spec, loops, tiles, RULE)
    rows = 64 * 48
    assert found.row.padding == found.key.padding == 1
    assert found.row.bound_ms == pytest.approx(5 * 320 * rows * 288 / 154.8e9)
    assert found.key.bound_ms == pytest.approx(4 * 320 * rows * 288 / 154.8e9)
    assert found.row.strict_ms > found.row.bound_ms
    assert found.row.bytes == rows * (4 * 320 + 8) + 288 * 640
    assert found.key.bytes == rows * (2 * 320 + 8) + 288 * 1280
    assert found.key.worst_bytes == rows * 3 * (2 * 320 + 8) + 288 * 1280  # three key tiles
    assert found.key_tiles == 3
    assert found.passes == pytest.approx(6 + 16 / 320)
    assert found.worst_passes == pytest.approx(10 + 32 / 320)
    assert found.slack == pytest.approx(6 * 2**20 / 28 / (640 * 32))
    assert found.row.memory_ms == pytest.approx(found.row.bytes / 768e6)
    assert found.ms(strict=False) == pytest.approx(
        max(found.row.bound_ms, found.row.memory_ms) + max(found.key.bound_ms, found.key.memory_ms)
    )
    assert found.ms(strict=True) >= found.ms(strict=False)


@pytest.mark.parametrize(
    ("keys", "products", "multiplied"),
    [
        (1, 4, 64 * 16),  # 63 rows are four blocks of 16
        (96, 4, 64 * 96),
        (97, 5 - 6 / 7, 64 * 112),  # weights of 6 of 7 steps
        (128, 5 - 4 / 8, 64 * 128),
        (144, 5 - 1 / 9, 64 * 144),
        (145, 5, 128 * 160),
        (256, 5, 128 * 256),
    ],
)
def test_resident_rows_by_the_keys_of_a_sequence(tiles, keys, products, multiplied):
    """Two sequences of 63 rows, one without keys: the other has its mode, not that of the mean."""
    spec = dense_case("case", (21, 21), (keys, 0), heads=3)
    row = predict.predict(spec, loops_of(tiles), tiles, RULE).row
    assert row.padding == pytest.approx(multiplied / (63 * keys))
    assert row.bound_ms == pytest.approx(products * 320 * multiplied / 154.8e9)


def test_each_sequence_takes_the_loops_of_its_modes(tiles):
    spec = dense_case("case", (64, 64, 64), (80, 128, 192), heads=48)
    row = predict.predict(spec, loops_of(tiles), tiles, RULE).row
    weighed = (2, 40, 20 + 16 + 2 + 3), (2, 40, 20 + 2 + 2)
    anew = (2, 40, 20 + 16 + 1), (3, 60, 30 + 16 + 1)
    streamed = (2, 80, 40 + 32 + 5 + 2), (3, 120, 60 + 32 + 5 + 1)
    # by keys: products, tensor instructions, and all others; of 128 keys half are weighed
    sweeps = ((80 + 64, weighed), (64, anew), (192, streamed))
    slowed = sum(  # 16 clocks of a scheduler's tensor core, and one slot for any other
        keys * products * (16 * hmma + other) / (16 * hmma)
        for keys, loops in sweeps
        for products, hmma, other in loops
    )
    assert row.strict_ms == pytest.approx(320 * 64 * 48 * slowed / 154.8e9)
    assert row.bound_ms == pytest.approx(320 * 64 * 48 * (4 * 144 + 5 * 256) / 154.8e9)


@pytest.mark.parametrize(
    ("longest", "multiplied"),
    [
        (448, 64 * 64 + 128 * 448),  # 256 keys on average are resident rows
        (449, 128 * 64 + 128 * 480),
    ],
)
def test_mean_of_keys_chooses_the_row_kernel(tiles, longest, multiplied):
    spec = dense_case("case", (8, 8), (64, longest), heads=8)
    found = predict.predict(spec, loops_of(tiles), tiles, RULE)
    assert found.row.padding == pytest.approx(multiplied / (64 * (64 + longest)))


def test_padding_counts_ends_of_tiles(tiles):
    spec = dense_case("case", (1,), (257,), heads=48)
    found = predict.predict(spec, loops_of(tiles), tiles, RULE)
    assert found.row.padding == pytest.approx(128 * 288 / (48 * 257))
    assert found.key.padding == pytest.approx(288 * 64 / (48 * 257))  # a team's tiles have 96 keys
    assert found.key_tiles == 3
    longer = predict.predict(
        dense_case("case", (1,), (385,), heads=48), loops_of(tiles), tiles, RULE
    )
    assert longer.key.padding == pytest.approx(400 * 64 / (48 * 385))  # pairs have 16 keys


@pytest.mark.parametrize(
    ("sequences", "keys", "shared"),
    [
        (30, 480, False),  # five tiles each: too few for a tile for each CTA, too large a team
        (31, 480, True),  # enough
        (30, 384, True),  # teams of four
    ],
)
@pytest.mark.parametrize("small_sums", [False, True])
def test_tiles_side_by_side_share_their_rows(tiles, sequences, keys, shared, small_sums):
    """With small sums, which many queries have, twice as many tiles are too few."""
    queries = 400 if small_sums else 64
    sequences *= 1 + small_sums
    spec = dense_case("case", (queries,) * sequences, (keys,) * sequences, heads=48)
    found = predict.predict(spec, loops_of(tiles), tiles, RULE)
    unshared = pytest.approx(4 + 2 * keys / 96 + (1 + keys / 96) * 8 / 320)
    assert found.worst_passes == unshared
    assert found.passes == (pytest.approx(6 + 16 / 320) if shared else unshared)


def test_the_larger_of_tensor_and_memory_time_counts(tiles):
    short = predict.predict(dense_case("", (128,), (32,)), loops_of(tiles), tiles, RULE)
    assert short.row.ms(strict=False) == short.row.memory_ms > short.row.bound_ms
    long = predict.predict(dense_case("", (128,), (960,)), loops_of(tiles), tiles, RULE)
    assert long.row.ms(strict=False) == long.row.bound_ms > long.row.memory_ms
    assert long.row.ms(strict=True) == long.row.strict_ms
    assert long.key.ms(strict=True) == long.key.worst_memory_ms > long.key.strict_ms


@pytest.mark.parametrize(
    ("keys", "missing"),
    [(256, "resident_row_kernel"), (257, "row_kernel"), (257, r"key_kernel {'kPairs': 6, .*}")],
)
def test_case_without_its_kernel(tiles, keys, missing):
    kind = missing.split("_kernel")[0]
    loops = {k: found for k, found in loops_of(tiles).items() if k.kind != kind}
    message = f"^library: no float16 bounded {missing}; rebuild it from these sources$"
    with pytest.raises(ValueError, match=message):
        predict.predict(dense_case("case", (1,), (keys,)), loops, tiles, RULE)


def test_a_shape_for_short_keys_is_not_foreseen(tiles):
    tiles.shapes["ShortKeys"] = {**tiles.shapes["LongKeys"], "kPairs": 2}
    message = "^tiles: ShortKeys differs from LongKeys; one shape is needed$"
    with pytest.raises(ValueError, match=message):
        predict.predict(dense_case("case", (1,), (40,)), {}, tiles, RULE)
