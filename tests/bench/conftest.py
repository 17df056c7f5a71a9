"""Reports that the tests of table, results and plots share."""

import pytest
import torch
from bench_samples import CASES, CEILINGS, scaling_points, timed, untimed
from ragged_attention.bench import cli
from ragged_attention.bench.methods import METHODS
from ragged_attention.bench.strata import Options


@pytest.fixture(scope="session")
def measured():
    """What a run on the CPU writes: some methods timed, the others absent."""
    options = Options(quick=True)
    return cli.run(CASES, list(METHODS.values()), torch.device("cpu"), CEILINGS, options, "command")


@pytest.fixture
def gpu_report():
    """A report with all kinds of entries, as a GPU gives it."""
    strata = [
        {
            **{"name": name, "dtype": "float16", "heads": 48, "batch": 2},
            **{"total_q": 10, "total_k": 10, "logits": 10**8, "flop": 10**11, "bytes": 10**9},
            **{"floor_ms": 1.0, "bound": "arithmetic"},
            "methods": {
                "ours_sm90": timed(ours),
                "flash_attn_2": timed(4 * ours, kernels=None),
                "flash_attn_cute": untimed(ok=False, status="wrong", reason="dq: too far"),
                "flex_attention": untimed(
                    ok=None, errors=None, status="not run", reason="not asked for"
                ),
            },
        }
        for name, ours in (("first", 2.0), ("second", 8.0))
    ]
    extras = {
        "ours_sm90": {
            "call_us": 33.25,
            "launches": {"kernels": 2.0, "copies_and_fills": 0.0},
            "short_sequences": {"points": {}, "times_slower_than": {"20_of_8000x8": 1.5}},
            "scaling": {"points": scaling_points(30, 9, 10, 11), "spread_above_50M": 1.1},
        }
    }
    return {
        **{"card": "NVIDIA Test", "commit": "abc", "command": "bench", "complete": True},
        **{"date": "2025-01-02T03:04:05+00:00", "ceilings": CEILINGS._asdict()},
        "machine": {"card": "NVIDIA Test", "commit": "abc", "driver": "580", "sm_clock": "1 MHz"},
        **{"strata": strata, "summary": {}, "extras": extras},
    }
