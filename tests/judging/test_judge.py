"""Judging from end to end on the CPU: scores, failures, refusals, and what is taken in."""

import json
import os
import re

import pytest
from submissions import BASELINE, lay_out
from vjp_task import judge
from vjp_task.cli import main
from vjp_task.harness.transport import read_tensor, write_tensor
from vjp_task.sealed.manifest import Manifest, body_digest
from vjp_task.sealed.scratch import copy_submission, tree_digest


def run(sealed, solver, *options):
    call = ["judge", "--manifest", str(sealed[0]), "--solver", str(solver), "--device", "cpu"]
    return main([*call, *map(str, options)])


def test_a_right_solver_gets_its_score_and_reward(sealed, tmp_path, capsys):
    figures = tmp_path / "new" / "figures.json"
    assert run(sealed, BASELINE.parent, "--json", figures) == 0
    printed = capsys.readouterr().out
    data = json.loads(figures.read_text())
    speedups = [case["speedup"] for case in data["cases"]]
    assert data["passed"] is True
    assert (data["scale"] < 1) == ("lengths and batch are reduced" in printed)
    assert data["score"] == pytest.approx((speedups[0] * speedups[1]) ** 0.5)
    assert printed.splitlines()[-1] == f"score {data['score']:.2f}x"
    rewards = [case["reward"] for case in data["cases"]]
    assert data["reward"] == pytest.approx(sum(rewards) / 2)
    for case in data["cases"]:
        assert case["speedup"] == pytest.approx(case["baseline_ms"] / case["candidate_ms"])
        assert case["timing"]["samples"] == 20
        assert case["failure"] is None
    assert data["manifest_sha256"] == Manifest.read(sealed[0]).to_json()["sha256"]
    text = json.dumps(data)
    assert "lengths" not in text
    assert str(Manifest.read(sealed[0]).cases[0].spec.seed) not in text


def test_one_wrong_case_makes_the_score_zero(sealed, write_solver, capsys):
    wrong = write_solver("dq = dq * (1 + (q.dtype == torch.bfloat16))")
    assert run(sealed, wrong, "--json") == 1
    data = json.loads(capsys.readouterr().out)
    assert (data["score"], data["passed"]) == (0, False)
    right, failed = data["cases"]
    assert right["passed"]
    assert right["speedup"] > 0
    assert (failed["speedup"], failed["reward"]) == (0, 0)
    assert failed["failure"]["what"] == "dq"
    assert data["reward"] == right["reward"] / 2


def test_the_first_failure_may_end_the_run(sealed, write_solver, capsys):
    wrong = write_solver("dq = dq * (1 + (q.dtype == torch.float16))")
    assert run(sealed, wrong, "--first-failure", "--json") == 1
    first, second = json.loads(capsys.readouterr().out)["cases"]
    assert first["failure"]["what"] == "dq"
    assert second["failure"] == {"what": "not run", "reason": "an earlier case failed", "log": ""}


def test_a_crash_fails_its_case_and_no_other(sealed, write_solver, capsys):
    crash = write_solver("q.dtype == torch.float16 and os.abort()")
    assert run(sealed, crash) == 1
    printed = capsys.readouterr().out
    assert "FAILED h48_fp16_qlong: crash: the process was ended by SIGABRT" in printed
    assert re.search(r"h48_bf16_klong .*passed", printed)
    assert printed.splitlines()[-1] == "score 0"


def test_a_cheat_is_refused_before_it_runs(sealed, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(judge, "judge_cases", lambda *_: pytest.fail("was run"))
    assert run(sealed, lay_out("address_cache", tmp_path)) == 1
    printed = capsys.readouterr().out
    assert "REFUSED solver.py:10: identity-key: " in printed
    assert printed.splitlines()[-1] == "score 0"


def test_a_broken_rule_ends_the_run(sealed, tmp_path, capsys):
    assert run(sealed, lay_out("process_in_call", tmp_path), "--json") == 1
    first, second = json.loads(capsys.readouterr().out)["cases"]
    assert first["failure"]["what"] == "background-work"
    assert first["findings"] == [
        {
            "rule": "background-work",
            "file": "solver.py",
            "line": 9,
            "what": "starts a process (subprocess.Popen)",
        }
    ]
    assert second["failure"]["reason"] == "a rule was broken in an earlier case"


def test_what_is_built_on_import_is_built_once(sealed, tmp_path, capsys, monkeypatch):
    logs = []
    monkeypatch.setattr(judge, "CaseScore", lambda case, outcome: logs.append(outcome) or Score())

    class Score:
        outcome = type("Outcome", (), {"findings": ()})

    manifest = Manifest.read(sealed[0])
    copy_submission(lay_out("builds_on_import", tmp_path), tmp_path / "submission" / "solver")
    judge.judge_cases(manifest, tmp_path, judge.choose_device("cpu"), judge.process.Limits())
    assert [outcome.what for outcome in logs] == ["", ""]
    assert ["built" in outcome.log for outcome in logs] == [True, False]


def test_sealed_numbers_in_a_solver_are_found(sealed, tmp_path, capsys):
    lengths = Manifest.read(sealed[0]).cases[1].spec.k_lengths
    (tmp_path / "solver.py").write_text(f"LENGTHS = {list(lengths)}\n")
    assert run(sealed, tmp_path) == 1
    assert "solver.py:1: case-shape: lists lengths of h48_bf16_klong" in capsys.readouterr().out


def rewritten(sealed, folder, change):
    """The manifest changed, with a digest that fits."""
    data = json.loads(sealed[0].read_text())
    del data["sha256"]
    change(data)
    file = folder / "manifest.json"
    file.write_text(json.dumps({**data, "sha256": body_digest(data)}))
    return file, ""


def test_a_changed_manifest_judges_nobody(sealed, tmp_path, capsys):
    data = json.loads(sealed[0].read_text())
    data["cases"][0]["baseline"]["median_ms"] *= 100
    file = tmp_path / "manifest.json"
    file.write_text(json.dumps(data))
    assert run((file, ""), BASELINE.parent) == 2
    assert re.match(r"error: manifest: SHA-256 \w+; its own says \w+", capsys.readouterr().err)


def test_another_truth_judges_nobody(sealed, tmp_path, capsys):
    def change(data):
        data["cases"][0]["facts"]["truth"]["dk"] = {"digest": "0" * 16, "norm": 1.0}

    assert run(rewritten(sealed, tmp_path, change), BASELINE.parent) == 2
    assert "h48_fp16_qlong: the truth of dk has norm" in capsys.readouterr().err


def test_another_card_judges_nobody(sealed, tmp_path, capsys):
    changed = rewritten(sealed, tmp_path, lambda d: d["machine"].update(card="Some Card"))
    assert run(changed, BASELINE.parent) == 2
    assert "the panel was sealed on Some Card, which is needed" in capsys.readouterr().err


def special(folder, kind):
    target = folder / "odd"
    if kind == "link to a file":
        target.symlink_to("/etc/hostname")
    elif kind == "link to a folder":
        target.symlink_to(folder.parent)
    else:
        os.mkfifo(target)


@pytest.mark.parametrize("kind", ["link to a file", "link to a folder", "pipe"])
def test_links_and_special_files_are_refused(kind, sealed, tmp_path, capsys):
    folder = lay_out("submodules", tmp_path)
    special(folder / "parts", kind)
    assert run(sealed, folder) == 2
    what = "a special file" if kind == "pipe" else "a link"
    message = f"error: solver: parts/odd is {what}; only regular files are taken\n"
    assert capsys.readouterr().err == message


def test_what_is_no_submission(sealed, tmp_path, capsys):
    assert run(sealed, tmp_path / "none") == 2
    assert "is no folder; one with a solver.py is needed" in capsys.readouterr().err
    (tmp_path / "link").symlink_to(BASELINE.parent)
    assert run(sealed, tmp_path / "link") == 2
    assert "is no folder" in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    assert run(sealed, tmp_path / "empty") == 2
    assert "has no solver.py; one is needed" in capsys.readouterr().err


def test_caches_of_compiled_python_stay_behind(tmp_path):
    source = lay_out("submodules", tmp_path)
    before = tree_digest(source)
    (source / "__pycache__").mkdir()
    (source / "__pycache__" / "solver.cpython-311.pyc").write_bytes(b"other code")
    copy_submission(source, tmp_path / "copy")
    assert tree_digest(tmp_path / "copy") == before


def test_too_large_a_submission(tmp_path):
    folder = lay_out("submodules", tmp_path)
    with (folder / "large").open("wb") as stream:
        stream.truncate(257 << 20)
    with pytest.raises(ValueError, match=r"^solver: \d+ bytes; at most 268435456 are taken$"):
        copy_submission(folder, tmp_path / "copy")


def test_score():
    assert judge.score_of([2.0, 8.0]) == pytest.approx(4.0)
    assert judge.score_of([2.0, 0.0]) == 0
    assert judge.score_of([]) == 0


def test_tensors_cross_as_raw_bytes(tmp_path):
    import torch

    values = torch.randn(3, 4, 5).to(torch.bfloat16)[::2]
    file = tmp_path / "x"
    write_tensor(file, values)
    assert torch.equal(read_tensor(file, torch.bfloat16, values.shape), values)
    write_tensor(file, values[:0])
    assert read_tensor(file, torch.bfloat16, (0, 4, 5)).shape == (0, 4, 5)
    with pytest.raises(ValueError, match=r"^x: 0 bytes; 8 are needed$"):
        read_tensor(file, torch.float32, (2,))
    (tmp_path / "link").symlink_to(file)
    with pytest.raises(ValueError, match=r"^link: .*; a regular file is needed$"):
        read_tensor(tmp_path / "link", torch.float32, (0,))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match=r"^pipe: a special file; a regular file is needed$"):
        read_tensor(tmp_path / "pipe", torch.float32, (0,))


def test_help_teaches_every_option(capsys):
    for command, options in {
        "seal": ("--seed-file", "--out", "--human-reference", "--upper-proxy", "--scale"),
        "judge": ("--manifest", "--solver", "--json", "--time-limit", "--memory-limit"),
        "reward": ("--speedup", "--s", "--u"),
        "guard": ("--solver", "--rules"),
    }.items():
        with pytest.raises(SystemExit):
            main([command, "--help"])
        printed = capsys.readouterr().out
        assert all(option in printed for option in options)
