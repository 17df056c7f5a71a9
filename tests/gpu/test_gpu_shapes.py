"""The kernels against float64 over head counts, tile edges, the family's strata and scores."""

import random

import pytest
import torch
from support import DTYPES, assert_correct, make_problem, poison, run

pytestmark = pytest.mark.gpu

EDGES = [1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 95, 96, 97, 127, 128, 129, 255, 256, 257]

# The family's strata: heads, dtype, query lengths, key lengths
STRATA = {
    "h48_fp16_qlong": (48, torch.float16, (1024, 2304), (96, 256)),
    "h64_bf16_qlong": (64, torch.bfloat16, (768, 1536), (48, 160)),
    "h96_fp16_qlong": (96, torch.float16, (512, 1024), (64, 192)),
    "h48_bf16_klong": (48, torch.bfloat16, (48, 160), (768, 1792)),
    "h80_fp16_klong": (80, torch.float16, (32, 128), (1024, 2048)),
    "h96_bf16_klong": (96, torch.bfloat16, (24, 96), (640, 1408)),
}


def check(problem):
    poison(problem)
    assert_correct(run(problem), problem)


@pytest.mark.parametrize("heads", [1, 3, 48, 64, 80, 96, 128])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_head_counts(gpu, heads, dtype):
    check(make_problem([(70, 90), (33, 129), (1, 300)], heads=heads, dtype=dtype, device=gpu))


@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize("heads", [1, 3, 48])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_lengths_around_tile_edges(gpu, edge, heads, dtype):
    lengths = [(edge, 45), (45, edge), (edge, edge), (edge, 257), (257, edge)]
    check(make_problem(lengths, heads=heads, dtype=dtype, device=gpu))


@pytest.mark.parametrize("edge", EDGES)
def test_a_sequence_alone(gpu, edge):
    """No neighbour whose results could hide what a tile reads or writes beyond its end."""
    check(make_problem([(edge, 40)], heads=48, device=gpu))
    check(make_problem([(40, edge + 1)], heads=48, device=gpu))


@pytest.mark.parametrize("stratum", STRATA)
def test_strata(gpu, stratum):
    """True lengths, a fifth of the sequences."""
    heads, dtype, query_range, key_range = STRATA[stratum]
    draw = random.Random(stratum)
    lengths = [(draw.randint(*query_range), draw.randint(*key_range)) for _ in range(6)]
    check(make_problem(lengths, heads=heads, dtype=dtype, device=gpu))


@pytest.mark.parametrize("softcap", [0.0, 0.5, 3.0, 5.0, 8.0, 20.0, 50.0])
@pytest.mark.parametrize("slope_sign", [1.0, -1.0, 0.0], ids=["plus", "minus", "none"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_scores(gpu, softcap, slope_sign, dtype):
    """At a scale where logits reach some 20, so that every cap bites."""
    problem = make_problem(
        [(130, 200), (65, 31), (5, 700)],
        heads=6,
        dtype=dtype,
        device=gpu,
        softcap=softcap,
        slope_sign=slope_sign,
        scale_multiplier=4.0,
    )
    check(problem)


@pytest.mark.parametrize("softcap", [3.0, 4.0, 8.0])
@pytest.mark.parametrize("keys", [200, 330, 500])
def test_large_gradients(gpu, keys, softcap):
    """|dP| near 16,000 leaves float16 little room: weights must not be much above 1."""
    problem = make_problem(
        [(150, keys)], heads=6, dtype=torch.float16, device=gpu, softcap=softcap,
        scale_multiplier=4.0,
    )  # fmt: skip
    problem["dout"] = problem["dout"] * 300
    check(problem)


@pytest.mark.parametrize("softcap", [0.0, 3.0, 8.0])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_short_and_long_keys_together(gpu, softcap, dtype):
    """Keys that fit shared memory with all weights beside them, with some, not at all, and none."""
    lengths = [
        (40, 700), (133, 353), (17, 352), (150, 20), (9, 0), (21, 257), (300, 256),
        (70, 96), (31, 97), (190, 144), (55, 145), (80, 0), (22, 112), (41, 128), (33, 272),
        (18, 304), (25, 336),
    ]  # fmt: skip
    check(make_problem(lengths, heads=6, dtype=dtype, device=gpu, softcap=softcap))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_many_key_tiles(gpu, dtype):
    """So many that none is shared between CTAs."""
    draw = random.Random(1)
    lengths = [(draw.randint(1, 8), draw.randint(300, 700)) for _ in range(120)]
    check(make_problem(lengths, heads=12, dtype=dtype, device=gpu))


def test_thousands_of_short_sequences(gpu):
    draw = random.Random(0)
    lengths = [(draw.randint(0, 9), draw.randint(0, 9)) for _ in range(3000)]
    check(make_problem(lengths, heads=5, device=gpu))


def test_one_long_sequence(gpu):
    check(make_problem([(3, 20_000)], heads=7, device=gpu))
    check(make_problem([(20_000, 3)], heads=7, device=gpu))
    check(make_problem([(3000, 3000)], heads=2, device=gpu))
