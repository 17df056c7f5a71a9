"""Which kernels a call takes and with how many CTAs, from totals alone; rows split over CTAs."""

from itertools import pairwise
from types import ModuleType
from typing import Any

import numpy as np
import pytest

rows_of_table = pytest.mark.parametrize("sm90", [False, True], ids=["sm86", "sm90"])


@pytest.mark.parametrize("block", [16, 32])
def test_splits_cover_all_rows_once(kernels_host: ModuleType, block: int) -> None:
    rng = np.random.default_rng(0)
    totals = [0, 1, block - 1, block, block + 1, 7 * block, *rng.integers(0, 300_000, 60)]
    for rows in map(int, totals):
        for splits in (1, 2, 3, 7, 64, 1000):
            ranges = [kernels_host.split_rows(rows, i, splits, block) for i in range(splits)]
            assert ranges[0][0] == 0
            assert ranges[-1][1] == rows
            for (_, end), (begin, _) in pairwise(ranges):
                assert end == begin
            for begin, end in ranges:
                assert begin <= end
                assert begin % block == 0 or begin == rows  # only the last block may be short


@pytest.mark.parametrize("splits", [1, 2, 5, 16])
def test_splits_share_evenly(kernels_host: ModuleType, splits: int) -> None:
    """No split has more than its share, rounded up to a block."""
    block = kernels_host.key_rows
    for rows in (1, 1000, 4096, 99_999):
        share = -(-rows // splits)
        for i in range(splits):
            begin, end = kernels_host.split_rows(rows, i, splits, block)
            assert end - begin < share + block


def plans(module: ModuleType, sm90: bool, count: int = 2000) -> list[dict[str, Any]]:
    """Plans of random problems, each with its problem."""
    rng = np.random.default_rng(1)
    results = []
    for _ in range(count):
        batch = int(2 ** rng.uniform(0, 16))
        problem = {
            "total_q": int(batch * 2 ** rng.uniform(0, 12)) * int(rng.random() > 0.05),
            "total_k": int(batch * 2 ** rng.uniform(0, 12)) * int(rng.random() > 0.05),
            "batch": batch,
            "heads": int(rng.integers(1, 129)),
            "multiprocessors": int(rng.choice([1, 84, 132])),
        }
        results.append({**problem, **module.make_plan(sm90=sm90, **problem)})
    return results


@rows_of_table
def test_grids_cover_all_blocks(kernels_host: ModuleType, sm90: bool) -> None:
    """One CTA for each slot of rows or keys; resident rows take the card as it is."""
    for plan in plans(kernels_host, sm90):
        slots = kernels_host.slot_bound(plan["total_k"], 1, plan["keys"], plan["batch"])
        assert plan["key_slots"] == slots
        if plan["resident_rows"]:
            assert plan["row_ctas"] == plan["multiprocessors"]
        else:
            assert plan["row_ctas"] == kernels_host.slot_bound(
                plan["total_q"], plan["heads"], plan["rows"], plan["batch"]
            )


@rows_of_table
def test_number_of_splits(kernels_host: ModuleType, sm90: bool) -> None:
    """At least one, none where tiles fill the card, and each with rows enough to be worth it."""
    seen = set()
    for plan in plans(kernels_host, sm90):
        splits = plan["splits"]
        seen.add(splits)
        assert splits >= 1
        places = plan["multiprocessors"] * plan["key_ctas"]
        if plan["total_k"] // plan["keys"] >= 2 * places:
            assert splits == 1
        if splits > 1:
            rows = plan["total_q"] * plan["heads"] // plan["batch"]
            assert rows // splits >= kernels_host.key_rows
    assert len(seen) > 5  # the draw reaches both cases


@rows_of_table
def test_few_keys_with_many_rows_are_split(kernels_host: ModuleType, sm90: bool) -> None:
    """One sequence of 48 keys and 1,500 tokens x 96 heads keeps the whole card busy."""
    plan = kernels_host.make_plan(1500, 48, 1, 96, sm90, 132)
    assert plan["splits"] * plan["key_slots"] >= 132


@rows_of_table
def test_shape_follows_the_mean_number_of_keys(kernels_host: ModuleType, sm90: bool) -> None:
    short = kernels_host.make_plan(1000, 100 * 20, 20, 48, sm90, 132)
    long = kernels_host.make_plan(1000, 1500 * 20, 20, 48, sm90, 132)
    assert (short["short_keys"], long["short_keys"]) == (True, False)
    assert (short["resident_rows"], long["resident_rows"]) == (sm90, False)
