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
def test_key_tiles_are_shared_where_they_are_few(kernels_host: ModuleType, sm90: bool) -> None:
    """Then the grid is as large as the card; else there is a CTA for each slot."""
    seen = set()
    for plan in plans(kernels_host, sm90):
        places = plan["multiprocessors"] * plan["ctas"]
        seen.add(plan["shared_keys"])
        assert plan["key_ctas"] == (places if plan["shared_keys"] else plan["key_slots"])
        if plan["total_k"] // plan["keys"] >= 2 * places:
            assert not plan["shared_keys"]
        if plan["key_slots"] <= places:
            assert plan["shared_keys"]
    assert seen == {False, True}  # the draw reaches both cases


@rows_of_table
def test_shape_follows_the_mean_number_of_keys(kernels_host: ModuleType, sm90: bool) -> None:
    short = kernels_host.make_plan(1000, 90 * 20, 20, 48, sm90, 132)
    long = kernels_host.make_plan(1000, 1500 * 20, 20, 48, sm90, 132)
    assert (short["short_keys"], long["short_keys"]) == (True, False)
    assert (short["resident_rows"], long["resident_rows"]) == (sm90, False)
