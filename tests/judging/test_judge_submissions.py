"""The program that judges all cheats and honest solvers: what it makes of the judge's figures."""

import sys

import judge_submissions
import pytest
from judge_submissions import Verdict, blame, was_upset

FAILED = {"passed": False, "what": "dq", "failure": {"what": "dq", "reason": "too far"}}


def verdict(name="workspace", kind="honest", what="", right=True):
    return Verdict(name, kind, not what, what, "because", right, 1.0)


def test_blame():
    rule = {"file": "solver.py", "line": 9, "rule": "call-order", "what": "counts"}
    cases = [{"failure": None}, FAILED]
    static = {"passed": False, "static_findings": [rule], "cases": cases}
    assert blame(static) == ("call-order", "solver.py:9: counts")
    assert blame({**static, "static_findings": []}) == ("dq", "too far")
    assert blame({"passed": True, "cases": cases, "score": 2.5}) == ("", "2 cases, score 2.50x")


def test_only_what_a_crowded_machine_brings_about_is_judged_again():
    assert was_upset(verdict(what="patched-timer"))
    assert not was_upset(verdict(what="dq"))
    assert not was_upset(verdict(kind="cheat, run", what="patched-timer"))
    assert not was_upset(verdict())


@pytest.mark.parametrize(("right", "code"), [(True, 0), (False, 1)])
def test_a_wrong_verdict_is_its_exit_code(right, code, monkeypatch, tmp_path, capsys):
    verdicts = {
        "workspace": verdict(right=right),
        "fused_hidden": verdict("fused_hidden", "cheat, run", "fused-attention"),
    }
    monkeypatch.setattr(judge_submissions, "judged", lambda manifest, name: verdicts[name])
    call = ["x", "manifest.json", "workspace", "fused_hidden", "--json", str(tmp_path / "all")]
    monkeypatch.setattr(sys, "argv", call)
    assert judge_submissions.run() == code
    printed = capsys.readouterr().out
    assert printed.splitlines()[-1] == f"{code} wrong verdicts of 2"
    assert ("passed WRONGLY" in printed) is not right
    assert printed.index("fused_hidden") < printed.index("workspace")  # cheats first
    assert '"name": "fused_hidden"' in (tmp_path / "all").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nobody"], "name: nobody; known are fused_function, "),
        (["--jobs", "0"], "--jobs: 0; a number of at least 1 is needed"),
    ],
)
def test_wrong_call(words, message, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["x", "manifest.json", *words])
    with pytest.raises(SystemExit):
        judge_submissions.run()
    assert message in capsys.readouterr().err
