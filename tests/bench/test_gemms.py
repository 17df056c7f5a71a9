"""Products that the sm86 row's kernels really compute."""

from dataclasses import replace

import pytest
from ragged_attention.bench.case import dense_case
from ragged_attention.bench.gemms import sm86_gemms, sm86_tiles
from ragged_attention.bench.profiling import OUR_KERNELS


@pytest.mark.parametrize(
    ("keys", "softcap", "row"),
    [
        ((10, 96), 3.0, 4.0),
        ((96, 97), 3.0, 5 - (96 + 97 * 6 / 7) / 193),  # the second spares it in 6 of 7 steps
        ((128, 144), 3.0, 5 - (128 * 4 / 8 + 144 * 1 / 9) / 272),
        ((144, 145), 3.0, 5 - (144 * 1 / 9) / 289),  # the second is streamed
        ((0, 96), 3.0, 4.0),
        ((96, 97), 4.0, 5 - (96 + 97 * 6 / 7) / 193),
        ((96, 97), 8.0, 5.0),  # unbounded: a later maximum would change weights
        ((96, 97), 0.0, 5.0),
        ((96, 500), 3.0, 5.0),  # 298 keys on average: no resident rows
    ],
)
def test_products_of_the_row_kernel(keys, softcap, row):
    spec = replace(dense_case("case", (30, 30), keys, heads=6), softcap=softcap)
    found = sm86_gemms(spec, sm86_tiles())
    assert tuple(found) == OUR_KERNELS
    assert found == {"row_kernel": pytest.approx(row), "key_kernel": 4.0}
