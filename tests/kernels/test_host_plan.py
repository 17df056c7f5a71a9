"""Which kernels a call takes and with how many CTAs, from totals alone."""

from types import ModuleType
from typing import Any

import numpy as np
import pytest

rows_of_table = pytest.mark.parametrize("sm90", [False, True], ids=["sm86", "sm90"])


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
    """One CTA for each slot of rows; resident rows take the card, or less of it."""
    few = 0
    for plan in plans(kernels_host, sm90):
        if plan["resident_rows"]:
            blocks = kernels_host.slot_bound(plan["total_q"], plan["heads"], 16, plan["batch"])
            assert 1 <= plan["row_ctas"] <= plan["multiprocessors"]
            if plan["row_ctas"] < plan["multiprocessors"]:
                few += 1
                assert 4 * (plan["row_ctas"] - 1) <= blocks < 4 * plan["row_ctas"]
        else:
            assert plan["row_ctas"] == kernels_host.slot_bound(
                plan["total_q"], plan["heads"], plan["rows"], plan["batch"]
            )
    assert few > 10


@rows_of_table
def test_key_tiles_are_shared_where_they_are_few(kernels_host: ModuleType, sm90: bool) -> None:
    """Then the grid is as large as the card; else there is a CTA for each slot."""
    seen = set()
    for plan in plans(kernels_host, sm90):
        places = plan["multiprocessors"] * plan["ctas"]
        slots = kernels_host.slot_bound(plan["total_k"], 1, plan["keys"], plan["batch"])
        seen.add((plan["shared_keys"], plan["short_keys"]))
        assert plan["key_ctas"] == (places if plan["shared_keys"] else slots)
        assert plan["turn_count"] == (slots * plan["warps"] if plan["shared_keys"] else 0)
        waves = 4 if plan["total_q"] * plan["heads"] >= 40 * plan["total_k"] else 2
        if plan["total_k"] // plan["keys"] >= waves * places:
            assert not plan["shared_keys"]
        if slots < waves * places and not plan["short_keys"]:
            assert plan["shared_keys"]
        if slots <= places:
            assert plan["shared_keys"]
    # the draw reaches all cases; one row has no shorter shape
    assert seen == {(False, False), (True, False), *([(False, True)] if sm90 else [])}


@rows_of_table
def test_shape_follows_the_mean_number_of_keys(kernels_host: ModuleType, sm90: bool) -> None:
    """Finer tiles of keys, where a row has them, only if there are many of them."""
    short = kernels_host.make_plan(1000, 90 * 2000, 2000, 48, sm90, 132)
    few = kernels_host.make_plan(1000, 90 * 20, 20, 48, sm90, 132)
    long = kernels_host.make_plan(1000, 1500 * 2000, 2000, 48, sm90, 132)
    assert [plan["short_keys"] for plan in (short, few, long)] == [sm90, False, False]
    assert [plan["resident_rows"] for plan in (short, few, long)] == [True, True, False]
    # tiles of 64 keys, two CTAs a multiprocessor: 500 + 200 and 350 + 150; two waves are 528
    for batch, total_k, fills in ((400, 500 * 64, True), (300, 350 * 64, False)):
        plan = kernels_host.make_plan(1000, total_k, batch, 48, sm90, 132)
        assert plan["short_keys"] == (fills and sm90)


@pytest.mark.parametrize(("major", "overlap"), [(8, False), (9, True), (10, True)])
def test_kernels_overlap_where_the_card_can(
    kernels_host: ModuleType, major: int, overlap: bool
) -> None:
    """The sm86 row runs on cards of both kinds."""
    plan = kernels_host.make_plan(1000, 90 * 20, 20, 48, False, 132, major)
    assert plan["keys_overlap"] == overlap
