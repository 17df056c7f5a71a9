"""What the benchmark's tests share: small cases, and entries as a GPU gives them."""

from ragged_attention.bench.case import dense_case
from ragged_attention.bench.floor import Ceilings

CEILINGS = Ceilings(642.0, 4.3)
CASES = [
    dense_case("two_fp16", (9, 5), (12, 20), heads=3),
    dense_case("two_bf16", (4, 7), (40, 3), heads=2, dtype="bfloat16"),
]


def timed(ms: float, floor_ms: float = 1.0, **changes) -> dict:
    """A method's entry as a GPU gives it."""
    return {
        **{"ms": ms, "ms_min": 0.9 * ms, "ms_max": 1.1 * ms, "samples": 30},
        **{"tflops": 300.0 / ms, "of_floor": floor_ms / ms, "ok": True},
        "errors": dict.fromkeys(("out", "dq", "dk", "dv"), 3e-4),
        "budgets": dict.fromkeys(("out", "dq", "dk", "dv"), 1e-3),
        "extra_memory_of_q": 0.013,
        "kernels": {"row_kernel": 0.55, "key_kernel": 0.44, "other": 0.01},
        **{"version": "1", "status": "timed", "reason": ""},
        **changes,
    }


def untimed(**changes) -> dict:
    """A method's entry without a time."""
    return {**timed(1.0), "ms": None, "kernels": None, **changes}


def scaling_points(*ps: float) -> list[dict]:
    """Points of the scaling chart, from 25 M logits on, doubling."""
    return [
        {
            "name": f"case{i}",
            "logits": 25_000_000 << i,
            "ms": 1.0,
            "floor_ms": 0.5,
            "ps_per_logit": value,
        }
        for i, value in enumerate(ps)
    ]
