"""Products that the sm86 row's kernels really compute."""

import pytest
from ragged_attention.bench.case import dense_case
from ragged_attention.bench.gemms import sm86_gemms, sm86_tiles
from ragged_attention.bench.profiling import OUR_KERNELS


@pytest.mark.parametrize(
    ("keys", "softcap", "row"),
    [
        ((96, 97), 3.0, 5 - 96 / 193),  # one of two sequences spares a product
        ((10, 20), 3.0, 4.0),
        ((96, 97), 8.0, 5.0),  # unbounded: a later maximum would change weights
        ((96, 97), 0.0, 5.0),
        ((96, 500), 3.0, 5.0),  # 298 keys on average: no resident rows
    ],
)
def test_products_of_the_row_kernel(keys, softcap, row):
    spec = dense_case("case", (30, 30), keys, heads=6)._replace(softcap=softcap)
    found = sm86_gemms(spec, sm86_tiles())
    assert tuple(found) == OUR_KERNELS
    assert found == {"row_kernel": pytest.approx(row), "key_kernel": 4.0}
