"""What is shown of a report."""

import io
import re

import matplotlib.image
import pytest
from ragged_attention.bench import plots, results, table
from rich.console import Console


def shown(report):
    text = io.StringIO()
    Console(file=text, width=200).print(table.strata_table(report))
    return text.getvalue() + "\n".join(table.lines(report))


def test_table_of_a_gpu_run(gpu_report):
    gpu_report["summary"] = results.summary(gpu_report["strata"])
    text = shown(gpu_report)
    for part in ("first", "100 M logits", "floor 1.000 ms", "2.000", "1.800 to 2.200", "150"):
        assert part in text
    assert re.search(r"ours_sm90 .* 150 .* 2\.00 ", text)
    assert re.search(r"flash_attn_2 .* 38 .* 8\.00 ", text)
    for part in ("out 3.0e-04, 30%", "1.3%", "55% / 44%", "wrong: dq: too far"):
        assert part in text
    for line in (
        "ceilings: mma.sync 642 TFLOP/s, copy 4.30 TB/s",
        "flex_attention: not run, not asked for",
        "ours_sm90: 4.00 x floor (worst 8.00); 4.00x over flash_attn_2",
        "ours_sm90: 33.2 us a small call, host included; in it 2 kernels and 0 copies or fills",
        "ours_sm90: 20,000 sequences of 8 x 8 take 1.50x the time of 20_of_8000x8",
        "ours_sm90: time per logit above 50 M logits varies by 10%",
        "NVIDIA Test, commit abc, driver 580, sm_clock 1 MHz",
    ):
        assert line in text
    assert text.count("flex_attention") == 1


def test_table_of_a_cpu_run_names_what_is_absent_once(measured):
    text = shown(measured)
    for name in ("ours_sm90", "ours_sm86", "flash_attn_2", "flash_attn_cute"):
        assert text.count(f"{name}: absent, needs a GPU, not cpu") == 1


def test_a_timing_build_is_told(gpu_report):
    parts = {"call": 0.48, "row_kernel": 0.53, "key_kernel": 0.42}
    assert "timing build" not in shown(gpu_report)
    gpu_report["timing_build"] = {"mma_repeat": 2, "of_peak": {"ours_sm86": {"first": parts}}}
    lines = table.lines(gpu_report)
    assert (
        "timing build: each mma is issued 2 times, results are wrong; below, parts of the mma.sync "
        "ceiling / 2: call (row kernel, key kernel)"
    ) in lines
    assert "ours_sm86: first 48% (53%, 42%)" in lines


def test_error_that_is_not_finite(gpu_report):
    entry = gpu_report["strata"][0]["methods"]["flash_attn_cute"]
    entry["errors"] = dict.fromkeys(entry["errors"])
    assert "not finite" in shown(gpu_report)


def test_plots_are_pictures(gpu_report, tmp_path):
    files = plots.draw(gpu_report, tmp_path / "new" / "name")
    assert [f.name for f in files] == ["name-roofline.png", "name-floor.png", "name-scaling.png"]
    for file in files:
        pixels = matplotlib.image.imread(file)
        assert pixels.shape[0] > 500
        assert pixels[..., :3].std() > 0.05  # not blank


def test_plots_without_extras_and_of_a_cpu_run(measured, tmp_path):
    files = plots.draw(measured, tmp_path / "cpu.v1")
    assert [f.name for f in files] == ["cpu.v1-roofline.png", "cpu.v1-floor.png"]


def test_roofline_has_a_point_for_each_method_and_stratum(gpu_report):
    (axes,) = plots.roofline(gpu_report).axes
    points = {line.get_label(): line.get_xydata().tolist() for line in axes.lines[1:]}
    assert points == {
        "ours_sm90": [[100, 150], [100, pytest.approx(37.5)]],
        "flash_attn_2": [[100, pytest.approx(37.5)], [100, pytest.approx(9.375)]],
    }
    ceiling = axes.lines[0].get_xydata()
    assert ceiling[:, 1].max() == 642
    assert ceiling[0] == pytest.approx([50, 4.3 * 50])


def test_bars_are_time_over_floor(gpu_report):
    (axes,) = plots.over_floor(gpu_report).axes
    assert [bar.get_height() for bar in axes.patches] == [2, 8, 8, 32]
