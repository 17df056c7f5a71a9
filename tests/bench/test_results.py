"""The JSON: its fields, its sums, its file."""

import json
from pathlib import Path

import pytest
from bench_samples import timed, untimed
from ragged_attention.bench import results


def stratum(floor_ms, **methods):
    return {"floor_ms": floor_ms, "methods": methods}


def test_fields_of_a_run(measured):
    """The names that readers of result files rely on."""
    text = json.dumps(measured, allow_nan=False)
    data = json.loads(text)
    assert {"card", "commit", "command", "ceilings", "strata"} <= set(data)
    assert set(data["ceilings"]) == {"mma_tflops", "copy_tbps"}
    assert data["command"] == "command"
    assert data["complete"] is False
    assert {"driver", "sm_clock", "torch"} <= set(data["machine"])
    for entry in data["strata"]:
        assert {"name", "logits", "floor_ms", "methods"} <= set(entry)
        for method in entry["methods"].values():
            assert {"ms", "ok", "errors", "ms_min", "ms_max", "tflops", "of_floor"} <= set(method)
            assert {"kernels", "status", "reason"} <= set(method)
        assert set(entry["methods"]["eager"]["errors"]) == {"out", "dq", "dk", "dv"}
        assert isinstance(entry["methods"]["eager"]["ms"], float)


def test_summary_is_of_geometric_means():
    found = results.summary(
        [
            stratum(1.0, a=timed(2.0), b=timed(6.0)),
            stratum(2.0, a=timed(16.0), b=timed(96.0)),
        ]
    )
    assert found["a"]["over_floor"] == pytest.approx(4)  # of 2 and 8
    assert found["a"]["worst_over_floor"] == 8
    assert found["a"]["speedup"] == {"b": pytest.approx(18**0.5)}  # of 3 and 6
    assert found["b"]["speedup"] == {"a": pytest.approx(18**-0.5)}


def test_an_ordinary_build_stands_for_no_other_card(measured):
    assert measured["timing_build"] is None
    for repeat in (1, None):
        assert results.timing_build([], {"mma_tflops": 600.0}, repeat) is None


def test_parts_of_a_slower_cards_peak():
    """By hand: 1 G logits are 1.44e12 and 1.28e12 FLOP, the peak is 600 / 2 TFLOP/s."""
    gemms = {"row_kernel": 4.5, "key_kernel": 4.0}
    strata = [
        {
            **{"name": "long", "logits": 10**9, "sm86_gemms": gemms},
            "methods": {
                "ours_sm86": timed(
                    20.0, ok=False, kernels={"row_kernel": 0.5, "key_kernel": 0.4, "other": 0.1}
                ),
                "flash_attn_2": timed(30.0, kernels=None),
                # fewer products than are counted, so no part of a peak
                "ours_sm90": timed(
                    15.0, kernels={"row_kernel": 0.5, "key_kernel": 0.5, "other": 0}
                ),
            },
        },
        {"name": "untimed", "logits": 10**9, "methods": {"ours_sm86": untimed()}},
        {"name": "left out", "logits": 10**9, "methods": {}},
    ]
    found = results.timing_build(strata, {"mma_tflops": 600.0}, 2)
    assert found["mma_repeat"] == 2
    assert list(found["of_peak"]) == ["ours_sm86"]
    assert list(found["of_peak"]["ours_sm86"]) == ["long"]
    parts = found["of_peak"]["ours_sm86"]["long"]
    assert parts == {
        "call": pytest.approx(2.72e12 / 20e-3 / 300e12),
        "row_kernel": pytest.approx(1.44e12 / 10e-3 / 300e12),
        "key_kernel": pytest.approx(1.28e12 / 8e-3 / 300e12),
    }


@pytest.mark.parametrize("entry", [timed(1.0, ok=False), {**timed(1.0), "ms": None}])
def test_summary_leaves_out_what_is_not_right_everywhere(entry):
    found = results.summary(
        [stratum(1.0, a=timed(2.0), b=entry), stratum(1.0, a=timed(2.0), b=timed(1.0))]
    )
    assert list(found) == ["a"]
    assert found["a"]["speedup"] == {}
    assert results.summary([]) == {}


@pytest.mark.parametrize(
    ("entry", "wrong"),
    [
        (timed(1.0), False),
        (timed(1.0, ok=False), True),
        (timed(1.0, ok=None, status="failed"), True),
        (timed(1.0, ok=None, status="absent"), False),
    ],
)
def test_wrong_is_what_is_not_right_and_not_absent(entry, wrong):
    report = {"strata": [stratum(1.0, a=timed(1.0), b=entry)]}
    assert results.any_wrong(report, ["b"]) is wrong
    assert results.any_wrong(report, ["a", "not there"]) is False


def test_file_is_named_by_card_date_and_commit(gpu_report):
    report = {**gpu_report, "card": "NVIDIA H200 (80/96)"}
    file = results.default_file(report, Path("results"))
    assert file == Path("results/nvidia-h200-80-96/2025-01-02-abc.json")
    part = results.default_file({**report, "complete": False, "commit": None}, Path("results"))
    assert part.name == "2025-01-02-unknown-part.json"


def test_written_and_read_again(gpu_report, tmp_path):
    file = tmp_path / "new" / "folder" / "file.json"
    results.write(gpu_report, file)
    assert results.read(file) == gpu_report


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, r"^show: .*file\.json cannot be read \(.*\); a result file is needed$"),
        ("{", r"^show: .*file\.json cannot be read \(.*\); a result file is needed$"),
        ("[]", r"^show: .*file\.json has no card, commit, .*; a result file is needed$"),
        ('{"card": 1, "commit": 1, "command": 1, "strata": []}', r"has no ceilings;"),
    ],
)
def test_files_that_are_no_results(tmp_path, text, message):
    file = tmp_path / "file.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ValueError, match=message):
        results.read(file)
