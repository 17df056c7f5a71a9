"""The floor's arithmetic, against figures that were worked out by hand for one draw."""

import pytest
from ragged_attention.bench.case import dense_case
from ragged_attention.bench.floor import FLOP_PER_LOGIT, Ceilings, Work

H200 = Ceilings(642, 4.3)
A6000 = Ceilings(154.8, 0.768)

# heads, total_q, total_k, logits in M; 1e12 FLOP, 1e9 bytes, floors in ms on H200 and A6000
DRAW = {
    "h48_fp16_qlong": (48, 31_353, 3_154, 260, 0.583, 1.93, 0.908, 3.77),
    "h64_bf16_qlong": (64, 32_135, 2_956, 220, 0.492, 2.64, 0.766, 3.43),
    "h96_fp16_qlong": (96, 18_243, 2_947, 215, 0.482, 2.25, 0.751, 3.12),
    "h48_bf16_klong": (48, 5_506, 67_549, 344, 0.771, 0.42, 1.200, 4.98),
    "h80_fp16_klong": (80, 2_900, 57_086, 369, 0.826, 0.37, 1.286, 5.33),
    "h96_bf16_klong": (96, 2_551, 44_883, 246, 0.550, 0.37, 0.857, 3.55),
}


@pytest.mark.parametrize("name", DRAW)
def test_floor_of_the_family(name):
    heads, total_q, total_k, logits, flop, gigabytes, h200, a6000 = DRAW[name]
    moved = Work.of(dense_case(name, (total_q,), (total_k,), heads)).bytes
    work = Work(logits * 10**6, moved)
    assert work.flop / 1e12 == pytest.approx(flop, rel=4e-3)  # logits are given to 1 M
    assert moved / 1e9 == pytest.approx(gigabytes, abs=0.006)
    assert work.floor_ms(H200) == pytest.approx(h200, rel=5e-3)
    assert work.floor_ms(A6000) == pytest.approx(a6000, rel=5e-3)


def test_memory_binds_where_keys_are_short_and_the_bus_slow():
    heads, total_q, total_k, logits, *_ = DRAW["h64_bf16_qlong"]
    work = Work(logits * 10**6, Work.of(dense_case("", (total_q,), (total_k,), heads)).bytes)
    assert work.floor_ms(A6000) == work.memory_ms(A6000) > work.compute_ms(A6000)
    assert work.floor_ms(H200) == work.compute_ms(H200) > work.memory_ms(H200)


def test_rate_is_flop_over_time():
    assert FLOP_PER_LOGIT == 2240
    assert Work(10**9, 0).tflops(2.24) == pytest.approx(1000)
