"""selfcheck from end to end on the CPU: right solvers pass, planted faults fail by name."""

import argparse
import json
import math
import os
import re
import shlex
import subprocess
import sys

import pytest
import torch
from vjp_task import evaluate, paths, report, selfcheck
from vjp_task.cli import main
from vjp_task.evaluate import CaseResult, Failure, geometric_mean
from vjp_task.panel import load_visible_panel
from vjp_task.solver import file_digest

CASE = "h48_bf16_klong"
TINY = ["--device", "cpu", "--scale", "0.02"]
GEOMETRIC_MEAN = re.compile(r"^geometric mean \d+\.\d\dx$")

# A solver that is right but for what `{fault}` does, in a call of its own name.
FAULTY = """
import importlib.util
import torch

spec = importlib.util.spec_from_file_location("baseline_for_faults", {baseline!r})
baseline = importlib.util.module_from_spec(spec)
spec.loader.exec_module(baseline)
calls = []


def attention_varlen_feature_full_vjp(q, k, v, cu_q, cu_k, alibi_slopes, dout, *numbers):
    calls.append(0)
    out, dq, dk, dv = baseline.attention_varlen_feature_full_vjp(
        q, k, v, cu_q, cu_k, alibi_slopes, dout, *numbers
    )
    {fault}
    return out, dq, dk, dv
"""

# Name: (fault, what is blamed, part of the reason).
FAULTS = {
    "wrong_dv": ("dv = dv * 1.05", "dv", r"relative error .* is above"),
    "wrong_late_dv": ("dv = dv * (1 + (len(calls) > 6))", "dv", r"relative error .* is above"),
    "one_wrong_dq": ("dq[3, 2, 1] += 1", "dq", r"error .* is above"),
    "nan_in_dk": ("dk[0, 0, 7] = float('nan')", "dk", "NaN or infinity where the truth has none"),
    "unwritten_out": ("out = torch.full_like(out, float('nan'))", "out", "NaN or infinity"),
    "wrong_shape": ("dq = dq[:-1]", "dq", r"shape \(\d+, 48, 160\); .* is needed"),
    "wrong_dtype": ("out = out.float()", "out", r"dtype torch\.float32; torch\.bfloat16 is needed"),
    "three_results": ("return out, dq, dk", "result", "3 values; a tuple of out, dq, dk, dv is"),
    "mutated_k": ("k[0, 0, 0] += 1", "k", "this input was changed by the call"),
    "mutated_outside_q": ("q.new_empty(0).set_(q.untyped_storage()).fill_(0)", "q", "was changed"),
    "late_mutation": ("dout[0, 0, 0] += len(calls) > 6", "dout", "this input was changed"),
    "aliased_dv": ("dv = v", "dv", "shares memory with v; memory of its own is needed"),
    "exception": ("raise KeyError('lost it')", "call", "KeyError: 'lost it'"),
    "late_exception": ("assert len(calls) < 6, 'worn out'", "timed call", "Assert.*: worn out"),
}


def plant(folder, fault):
    file = folder / "solver.py"
    file.write_text(FAULTY.format(fault=fault, baseline=str(paths.baseline_solver())))
    return file


def run(*options):
    return main(["selfcheck", *TINY, *map(str, options)])


def last_line(text):
    return text.rstrip("\n").rpartition("\n")[2]


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_fault_fails_by_name(fault, tmp_path, capsys):
    code, what, reason = FAULTS[fault]
    file, figures = plant(tmp_path, code), tmp_path / "figures.json"
    assert run("--case", CASE, "--solver", file, "--json", figures) == 1
    output = capsys.readouterr().out
    assert re.match(f"^FAILED {CASE}: {re.escape(what)}: .*{reason}", last_line(output))
    assert "geometric mean" not in output
    data = json.loads(figures.read_text())
    assert data["passed"] is False
    assert data["geometric_mean"] == 0
    assert data["cases"][0]["failure"]["what"] == what
    assert data["cases"][0]["speedup"] is None


def test_solver_that_does_not_import_fails_every_case(tmp_path, capsys):
    file = tmp_path / "solver.py"
    file.write_text("import a_module_that_nobody_has\n")
    assert run("--solver", file) == 1
    lines = capsys.readouterr().out.splitlines()[-6:]
    names = [case.name for case in load_visible_panel().cases]
    assert [line.split(":")[0] for line in lines] == [f"FAILED {name}" for name in names]
    assert all("import: ModuleNotFoundError: No module named" in line for line in lines)


def test_one_failed_case_fails_the_run(tmp_path, capsys):
    file = plant(tmp_path, "dk = dk * (1 + (q.shape[1] == 80))")
    assert run("--case", CASE, "h80_fp16_klong", "--solver", file) == 1
    output = capsys.readouterr().out
    assert "geometric mean" not in output
    assert [line for line in output.splitlines() if line.startswith("FAILED")] == [
        last_line(output)
    ]
    assert last_line(output).startswith("FAILED h80_fp16_klong: dk: ")


def test_right_solver_passes_and_json_holds_all_of_it(tmp_path, capsys):
    figures = tmp_path / "new" / "figures.json"
    solver = paths.baseline_solver()
    assert run("--solver", solver.parent, "--json", figures) == 0
    output = capsys.readouterr().out
    assert GEOMETRIC_MEAN.match(last_line(output))
    assert "samples: baseline 5, candidate 20" in output

    data = json.loads(figures.read_text())
    assert last_line(output) == f"geometric mean {data['geometric_mean']:.2f}x"
    assert data["passed"] is True
    assert data["card"] == data["machine"]["card"]
    assert data["commit"] == data["machine"]["commit"]
    assert (data["backend"], data["tiles"], data["scale"]) == ("portable", None, 0.02)
    assert data["solver"] == "methods/baseline/solver.py"
    assert data["solver_sha256"] == file_digest(solver)
    cases = load_visible_panel().cases
    assert [case["name"] for case in data["cases"]] == [case.name for case in cases]
    for case in data["cases"]:
        assert case["passed"] is True
        assert case["failure"] is None
        assert case["logits"] > 0
        assert case["speedup"] == pytest.approx(case["baseline_ms"] / case["candidate_ms"])
        assert case["timing"]["candidate"]["samples"] >= 20
        for names, bounds in (("errors", "budgets"), ("max_errors", "max_budgets")):
            assert list(case[names]) == list(case[bounds]) == ["out", "dq", "dk", "dv"]
            assert all(0 < case[names][n] <= case[bounds][n] for n in case[names])
    product = math.prod(case["speedup"] for case in data["cases"])
    assert data["geometric_mean"] == pytest.approx(product ** (1 / 6))


@pytest.mark.filterwarnings("ignore:ragged_attention takes its portable path")
def test_main_solver_passes_from_another_folder(tmp_path):
    script = paths.repository() / "selfcheck.py"
    figures = tmp_path / "figures.json"
    options = [*TINY, "--case", CASE, "--json", str(figures)]
    command = [sys.executable, str(script), *options]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert GEOMETRIC_MEAN.match(last_line(done.stdout))
    assert "solver methods/main/solver.py" in done.stdout
    assert CASE in done.stderr  # the progress bar
    recorded = shlex.split(json.loads(figures.read_text())["command"])
    assert recorded == ["selfcheck.py", *options[:-1], "figures.json"]  # no folder of this machine


@pytest.mark.gpu
def test_main_solver_passes_on_the_gpu(tmp_path, capsys):
    figures = tmp_path / "figures.json"
    options = ["--device", "cuda", "--scale", "0.1", "--json", str(figures)]
    assert main(["selfcheck", *options]) == 0
    assert GEOMETRIC_MEAN.match(last_line(capsys.readouterr().out))
    data = json.loads(figures.read_text())
    assert data["card"] == torch.cuda.get_device_name(0)
    assert data["tiles"] in ("sm86", "sm90")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--case", "h1"], r"error: case: 'h1'; one of h48_fp16_qlong, .* is needed"),
        (["--scale", "2"], r"error: scale: 2; a number above 0 and at most 1 is needed"),
        (["--solver", "no/file.py"], r"error: solver: no/file.py is no file; a solver.py or its"),
        (["--device", "cuda"], r"error: device: cuda, but torch sees no GPU; cpu or auto is need"),
    ],
    ids=lambda x: x[0] if isinstance(x, list) else "",
)
def test_wrong_call_says_so(options, message, capsys, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert run(*options) == 2
    assert re.match(message, capsys.readouterr().err)


def test_cases_may_be_named_in_either_form():
    parser = argparse.ArgumentParser()
    selfcheck.add_arguments(parser)
    both = parser.parse_args(["--case", "a", "b", "--case", "c"])
    assert both.case == ["a", "b", "c"]


def test_help_teaches_every_option(capsys):
    with pytest.raises(SystemExit) as done:
        main(["selfcheck", "--help"])
    assert done.value.code == 0
    text = capsys.readouterr().out
    for option in ("--device", "--case", "--solver", "--scale", "--json"):
        assert option in text


def test_steps_of_the_progress_bar_are_those_taken():
    steps = []
    spec = selfcheck.scaled(load_visible_panel().cases[5], 0.01)
    baseline = selfcheck.load_solver(paths.baseline_solver())
    result = evaluate.evaluate_case(spec, baseline, baseline, torch.device("cpu"), steps.append)
    assert result.passed
    assert len(steps) == evaluate.STEPS


def test_a_lost_device_fails_the_cases_that_follow(monkeypatch):
    cases = load_visible_panel().cases[:3]
    monkeypatch.setattr(selfcheck, "_usable", lambda device: False)
    monkeypatch.setattr(
        selfcheck,
        "evaluate_case",
        lambda case, *rest: CaseResult(case, failure=Failure("call", "RuntimeError: fault")),
    )
    results = selfcheck.run_cases(list(cases), paths.baseline_solver(), torch.device("cpu"))
    assert report.failure_lines(results) == [
        f"FAILED {cases[0].name}: call: RuntimeError: fault",
        f"FAILED {cases[1].name}: device: lost in an earlier case; not run",
        f"FAILED {cases[2].name}: device: lost in an earlier case; not run",
    ]


def test_geometric_mean_is_zero_with_a_failed_case():
    spec = load_visible_panel().cases[0]
    fast = CaseResult(spec, baseline={"median_ms": 8.0}, candidate={"median_ms": 1.0})
    slow = CaseResult(spec, baseline={"median_ms": 4.0}, candidate={"median_ms": 2.0})
    failed = CaseResult(spec, failure=Failure("dv", "wrong"))
    assert geometric_mean([fast, slow]) == pytest.approx(4.0)
    assert geometric_mean([fast, failed]) == 0
    assert geometric_mean([]) == 0
