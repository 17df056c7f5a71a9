"""Sealing: what is drawn, what the manifest holds, and that it notices a change."""

import json
import os
import re
import stat
from dataclasses import replace

import pytest
from vjp_task import seal
from vjp_task.cli import main
from vjp_task.draw import draw_panel
from vjp_task.family import load_family
from vjp_task.panel import load_visible_panel
from vjp_task.sealed import manifest
from vjp_task.sealed.manifest import Manifest, body_digest, check_facts
from vjp_task.sealed.options import scale_of
from vjp_task.solver import file_digest

MEASURED = ("median_ms", "spread", "min_ms", "max_ms")


def test_manifest_holds_what_judging_needs(sealed, tiny_cases):
    file, printed = sealed
    data = json.loads(file.read_text())
    assert [case["spec"]["name"] for case in data["cases"]] == [c.name for c in tiny_cases]
    for case in data["cases"]:
        baseline = case["baseline"]
        assert all(baseline[name] >= 0 for name in MEASURED)
        assert baseline["min_ms"] <= baseline["median_ms"] <= baseline["max_ms"]
        assert baseline["samples"] == seal.SAMPLES
        assert {"card", "driver", "sm_clock", "memory_clock"} <= baseline.keys()
        assert baseline["card"] == data["machine"]["card"]
        assert set(case["facts"]["truth"]) == {"out", "dq", "dk", "dv"}
        assert all(re.fullmatch("[0-9a-f]{16}", d) for d in case["facts"]["inputs"].values())
        assert case["human_reference"] == 2
    assert {c["spec"]["name"]: c["upper_proxy"] for c in data["cases"]} == {
        "h48_fp16_qlong": 9,
        "h48_bf16_klong": 5,
    }
    assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
    assert printed.splitlines()[-1] == f"SHA-256 {data['sha256']}"
    assert re.match(r"^h48_fp16_qlong: [\d.]+ ms, spread [\d.]+%$", printed.splitlines()[0])
    assert json.loads(json.dumps(Manifest.read(file).to_json())) == data


def test_six_strata_unlike_the_visible_ones():
    cases = seal.draw_sealed(20260101, 1.0)
    visible = load_visible_panel().cases
    assert [case.name for case in cases] == [case.name for case in visible]
    for case, known in zip(cases, visible, strict=True):
        assert case.seed != known.seed
        assert case.q_lengths != known.q_lengths
        assert (case.heads, case.dtype, case.batch) == (known.heads, known.dtype, known.batch)


def test_a_draw_that_equals_a_visible_case_is_refused():
    visible = load_visible_panel().cases
    same = draw_panel(load_family(), load_visible_panel().seed).cases
    with pytest.raises(
        ValueError, match=r"^seed-file: h48_fp16_qlong gets the seed of the visible"
    ):
        seal.refuse_visible(same, visible)
    lengths = (replace(visible[4], seed=1),)
    with pytest.raises(ValueError, match=r"h80_fp16_klong gets the lengths of the visible h80"):
        seal.refuse_visible(lengths, visible)


def test_the_seed_follows_from_all_of_the_file(tmp_path):
    file = tmp_path / "seed"
    seeds = set()
    for text in ("correct horse", "correct horsf", "correct horse\n"):
        file.write_text(text)
        seeds.add(seal.read_seed(file))
    assert len(seeds) == 3
    file.write_text("1234567\n")
    with pytest.raises(ValueError, match=r"^seed-file: 7 bytes; at least 8 are needed$"):
        seal.read_seed(file)


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d["cases"][0]["baseline"].update(median_ms=1e3),
        lambda d: d["cases"][1]["spec"].update(seed=7),
        lambda d: d["machine"].update(card="another"),
        lambda d: d["cases"].pop(),
        lambda d: d.update(sha256="0" * 64),
    ],
    ids=["latency", "seed", "card", "case", "digest"],
)
def test_a_changed_manifest_is_noticed(change, sealed, tmp_path):
    data = json.loads(sealed[0].read_text())
    change(data)
    file = tmp_path / "manifest.json"
    file.write_text(json.dumps(data))
    with pytest.raises(
        ValueError, match=r"^manifest: SHA-256 \w+; its own says \w+, so it was cha"
    ):
        Manifest.read(file)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"sha256": "1"}', "nonsense"])
def test_no_manifest(text, tmp_path):
    file = tmp_path / "manifest.json"
    file.write_text(text)
    with pytest.raises(
        ValueError, match=r"^manifest: .* cannot be read .*; one of seal is needed$"
    ):
        Manifest.read(file)


def test_another_format(tmp_path):
    body = {"format": 99, "cases": []}
    file = tmp_path / "manifest.json"
    file.write_text(json.dumps({**body, "sha256": body_digest(body)}))
    with pytest.raises(ValueError, match=r"^manifest: format 99; 1 is needed$"):
        Manifest.read(file)


def test_facts_must_agree():
    def facts(q="aa", digest="cc", norm=1.0):
        return {"inputs": {"q": q}, "truth": {"out": {"digest": digest, "norm": norm}}}

    check_facts("case", facts(), facts())
    check_facts("case", facts(), facts(digest="dd", norm=1 + 1e-12))  # another library's last bits
    with pytest.raises(
        ValueError, match=r"^case: q has digest bb, aa was sealed; the sealing mach"
    ):
        check_facts("case", facts(), facts(q="bb"))
    with pytest.raises(ValueError, match=r"^case: the truth of out has norm 1.1; 1.0 was sealed$"):
        check_facts("case", facts(), facts(digest="dd", norm=1.1))


def test_marks_for_the_reward():
    names = ["a", "b"]
    assert manifest.read_marks(None, names, "x") == {}
    assert manifest.read_marks(["b=3", "2"], names, "x") == {"a": 2, "b": 3}
    with pytest.raises(ValueError, match=r"^upper-proxy: 'c'; one of a, b is needed$"):
        manifest.read_marks(["c=3"], names, "upper-proxy")
    with pytest.raises(ValueError, match=r"^upper-proxy: 'a=x'; X or NAME=X is needed$"):
        manifest.read_marks(["a=x"], names, "upper-proxy")
    manifest.check_pairs({"a": 2}, {"a": 3})
    with pytest.raises(ValueError, match=r"^upper-proxy: none for a; both marks are needed, or ne"):
        manifest.check_pairs({"a": 2}, {})
    with pytest.raises(ValueError, match=r"^u: 2; a finite number above s, 2, is needed$"):
        manifest.check_pairs({"a": 2}, {"a": 2})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--scale", "2"], "scale: 2; a number above 0 and at most 1 is needed"),
        (["--time-limit", "0"], "time-limit: 0; a number above 0 is needed"),
        (["--upper-proxy", "3"], "human-reference: none for h48_bf16_klong; both marks"),
    ],
)
def test_wrong_call(options, message, tmp_path, capsys):
    seed = tmp_path / "seed"
    seed.write_text("something long")
    call = ["seal", "--seed-file", str(seed), "--out", str(tmp_path), "--device", "cpu"]
    assert main([*call, *options]) == 2
    assert capsys.readouterr().err.startswith(f"error: {message}")


def test_no_manifest_is_written_over(sealed, tmp_path, capsys):
    seed = tmp_path / "seed"
    seed.write_text("something long")
    call = ["seal", "--seed-file", str(seed), "--out", str(sealed[0].parent), "--device", "cpu"]
    assert main(call) == 2
    assert "holds a manifest; another folder is needed" in capsys.readouterr().err


def test_a_baseline_that_fails_seals_nothing(tmp_path, monkeypatch, capsys, tiny_cases):
    broken = tmp_path / "baseline" / "solver.py"
    broken.parent.mkdir()
    broken.write_text("raise RuntimeError('broken')\n")
    monkeypatch.setattr(seal, "draw_sealed", lambda seed, scale: tiny_cases)
    monkeypatch.setattr(seal.paths, "baseline_solver", lambda: broken)
    seed = tmp_path / "seed"
    seed.write_text("something long")
    out = tmp_path / "out"
    assert main(["seal", "--seed-file", str(seed), "--out", str(out), "--device", "cpu"]) == 1
    assert (
        "baseline: h48_fp16_qlong failed: import: RuntimeError: broken" in capsys.readouterr().err
    )
    assert not out.exists()


def test_baseline_is_named_by_its_digest(sealed):
    assert Manifest.read(sealed[0]).baseline_sha256 == file_digest(seal.paths.baseline_solver())


def test_scale_by_device():
    import argparse

    import torch

    given = argparse.Namespace(scale=0.5)
    default = argparse.Namespace(scale=None)
    assert scale_of(given, torch.device("cuda", 0)) == 0.5
    assert scale_of(default, torch.device("cuda", 0)) == 1
    assert scale_of(default, torch.device("cpu")) < 1
