"""The commands record and audit from end to end, with the real selfcheck."""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest
from versions import commit_all, git, log_of, make_tree
from vjp_task import audit, paths
from vjp_task.cli import main
from vjp_task.experiment_log import read_rows
from vjp_task.record import Outcome, run_selfcheck
from vjp_task.solver import file_digest


def test_selfcheck_that_crashes_gives_its_signal(tmp_path):
    """In a process of its own: the record goes on."""
    solver = tmp_path / "solver.py"
    solver.write_text("import os\n\nos.kill(os.getpid(), 11)\n")
    assert run_selfcheck(solver, ["--device", "cpu", "--scale", "0.01"]) == Outcome(-11, None)


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """A git repository of what recording needs."""
    top = tmp_path_factory.mktemp("clone")
    for name in ("python", "cutlass_kernels", "problems", "selfcheck.py"):
        source = paths.repository() / name
        ignored = shutil.ignore_patterns("__pycache__", "*.so")
        if source.is_dir():
            shutil.copytree(source, top / name, ignore=ignored)
        else:
            shutil.copy(source, top / name)
    methods = make_tree(top)
    for name in ("baseline", "main"):
        shutil.copy(paths.methods() / name / "solver.py", methods / name)
    shutil.copy(paths.baseline_solver(), methods / "versions" / "v0")
    solver = methods / "versions" / "v0" / "solver.py"
    log = log_of(methods)
    row = replace(read_rows(log)[0], solver_sha256=file_digest(solver))
    log.write_text("\n".join([*log.read_text().splitlines()[:-1], row.to_line()]) + "\n")
    manifest = solver.with_name("manifest.json")
    text = re.sub(r'("solver_sha256": )"\w+"', rf'\1"{file_digest(solver)}"', manifest.read_text())
    manifest.write_text(text)
    (top / ".gitignore").write_text("__pycache__\n")
    commit_all(top)
    return top


def command(clone, *words):
    """Runs a command of the clone's own package, in the clone."""
    environment = {**os.environ, "PYTHONPATH": str(clone / "python"), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "-m", "vjp_task", *words],
        cwd=clone,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_record_then_audit_from_end_to_end(clone):
    """The real selfcheck on the real solver, then the audit, before and after a commit."""
    head = git(clone, "rev-parse", "--short=12", "HEAD")
    done = command(
        clone, "record", "--device", "cpu", "--scale", "0.01", "--note", "the first | one"
    )
    assert done.returncode == 0, done.stderr
    row = read_rows(log_of(clone / "methods"))[-1]
    assert re.fullmatch(r"geometric mean \d+\.\d\dx", row.result)
    assert f"recorded v1 as kept: {row.result}" in done.stdout
    assert row.note == "the first / one [lengths and batch times 0.01]"
    assert row.commit == head
    manifest = json.loads((clone / "methods/versions/v1/manifest.json").read_text())
    assert "cutlass_kernels/score.h" in manifest["sources"]
    assert "python/ragged_attention/native.py" in manifest["sources"]
    assert "python/bindings/module.cpp" in manifest["sources"]
    result = json.loads((clone / "methods/versions/v1/result.json").read_text())
    assert len(result["cases"]) == 6
    assert f"geometric mean {result['geometric_mean']:.2f}x" == row.result

    for commit in (False, True):
        if commit:
            commit_all(clone)
        done = command(clone, "audit")
        assert done.returncode == 0, done.stdout
        assert [line.split() for line in done.stdout.splitlines()] == [
            [rule, "ok"] for rule in audit.RULES
        ]


def test_wrong_calls_say_so(capsys, monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert main(["record", "--device", "cuda"]) == 2
    assert capsys.readouterr().err == (
        "error: device: cuda, but torch sees no GPU; cpu or auto is needed\n"
    )
