"""What the kernels may touch: views beyond 2^31 elements, offsets that describe nothing."""

import math

import pytest
import torch
from support import (
    FEATURES,
    assert_correct,
    assert_same_bits,
    assert_well_formed,
    make_problem,
    poison,
    run,
)

pytestmark = pytest.mark.gpu

LIMIT = 2**31  # elements or bytes that a 32-bit offset reaches


def int32(*values):
    return torch.tensor(values, dtype=torch.int32, device="cuda")


@pytest.mark.parametrize("name", FEATURES)
def test_views_beyond_2_31_elements(gpu, name):
    """Few rows, far apart: the last starts past what a 32-bit offset reaches."""
    problem = make_problem([(300, 301)], heads=2, dtype=torch.bfloat16, device=gpu, strided=False)
    tokens, heads, width = problem[name].shape
    step = LIMIT // (tokens - 2) // 8 * 8
    elements = (tokens - 1) * step + heads * width
    assert (tokens - 1) * step > LIMIT
    free, _ = torch.cuda.mem_get_info(gpu)
    if free < 3 * elements:
        pytest.skip(f"{free / 2**30:.1f} GiB of GPU memory are free; needed are about 6")
    want = run(problem)
    storage = torch.empty(elements, dtype=torch.bfloat16, device=gpu)
    view = storage.as_strided((tokens, heads, width), (step, width, 1)).copy_(problem[name])
    got = run({**problem, name: view})
    assert_same_bits(got, want)
    assert_correct(got, problem)


def test_heads_far_apart(gpu):
    """The head stride alone passes 2^31 elements."""
    problem = make_problem([(3, 5)], heads=4, dtype=torch.bfloat16, device=gpu, strided=False)
    tokens, heads, width = problem["q"].shape
    step = LIMIT // (heads - 1) // 8 * 8 + 1600
    free, _ = torch.cuda.mem_get_info(gpu)
    if free < 3 * heads * step:
        pytest.skip(f"{free / 2**30:.1f} GiB of GPU memory are free; needed are about 8")
    storage = torch.empty(heads * step, dtype=torch.bfloat16, device=gpu)
    view = storage.as_strided((tokens, heads, width), (width, step, 1)).copy_(problem["q"])
    assert_same_bits(run({**problem, "q": view}), run(problem))


@pytest.mark.parametrize(
    ("cu_q", "cu_k"),
    [((0, 20, 30), (0, 18, 48)), ((0, 20, 32), (0, 18, 40)), ((0, 0, 7), (0, 3, 3)),
     ((0, 0, 0), (0, 0, 0)), ((5, 20, 30), (2, 18, 44))],
)  # fmt: skip
def test_spare_rows_are_zero(gpu, cu_q, cu_k):
    """32 tokens of q and 48 of k, more than the offsets cover; what they hold reaches nothing."""
    problem = make_problem([(20, 18), (12, 30)], device=gpu, dtype=torch.bfloat16)
    rows, keys = slice(cu_q[0], cu_q[-1]), slice(cu_k[0], cu_k[-1])
    for names, span in ((("q", "dout"), rows), (("k", "v"), keys)):
        for name in names:
            covered = problem[name][span].clone()
            problem[name].fill_(math.nan)
            problem[name][span] = covered
    problem["cu_q"], problem["cu_k"] = int32(*cu_q), int32(*cu_k)
    poison(problem)
    got = run(problem)
    assert_well_formed(got, problem)
    for result, span in zip(got, (rows, rows, keys, keys), strict=True):
        assert not result[: span.start].any()
        assert not result[span.stop :].any()
    part = {n: problem[n][rows] for n in ("q", "dout")} | {n: problem[n][keys] for n in ("k", "v")}
    part |= {"cu_q": problem["cu_q"] - cu_q[0], "cu_k": problem["cu_k"] - cu_k[0]}
    want = run({**problem, **part})
    assert_same_bits([r[s] for r, s in zip(got, (rows, rows, keys, keys), strict=True)], want)


@pytest.mark.parametrize("name", ["cu_q", "cu_k"])
@pytest.mark.parametrize(
    "values",
    [(0, 20, 96), (0, 60, 20), (0, 25, 20), (-3, 20, 32), (2**31 - 1, 0, 32), (0, -(2**31), 32),
     (-(2**31), 2**31 - 1, 32), (50, 60, 70), (-9, -5, -1), (0, 2**31 - 1, 2**31 - 1)],
)  # fmt: skip
def test_offsets_that_describe_nothing_stay_inside(gpu, name, values):
    """Not validated: nothing outside the tensors is read (it is NaN) and the device lives on."""
    problem = make_problem([(20, 18), (12, 30)], device=gpu)
    want = run(problem)
    poison(problem)
    got = run({**problem, name: int32(*values)})
    torch.cuda.synchronize()
    assert_well_formed(got, problem)
    for result in got:
        assert bool(torch.isfinite(result).all())
    assert_same_bits(run(problem), want)


def test_extra_memory_is_returned(gpu):
    problem = make_problem([(500, 400)] * 4, heads=16, device=gpu)
    before = torch.cuda.memory_allocated(gpu)
    for _ in range(3):
        results = run(problem)
        del results
        assert torch.cuda.memory_allocated(gpu) == before
