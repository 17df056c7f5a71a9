"""What is written beside the figures."""

import subprocess

import pytest
import torch
from ragged_attention.bench import machine


def git(folder, *arguments):
    identity = ("-c", "user.name=n", "-c", "user.email=e@example.org")
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_commit_says_when_files_differ(tmp_path):
    git(tmp_path, "init", "-q")
    (tmp_path / "file").write_text("1")
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "-q", "-m", "one")
    clean = git(tmp_path, "rev-parse", "--short=12", "HEAD")
    assert machine.commit(tmp_path) == clean
    (tmp_path / "untracked").write_text("1")
    assert machine.commit(tmp_path) == clean
    (tmp_path / "file").write_text("2")
    assert machine.commit(tmp_path) == clean + "-dirty"


def test_commit_outside_git_is_the_modules(monkeypatch, tmp_path):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.setattr(machine.native, "build_info", lambda: {"commit": "abc123"})
    assert machine.commit(tmp_path) == "abc123"

    def broken():
        raise ImportError("module")

    monkeypatch.setattr(machine.native, "build_info", broken)
    assert machine.commit(tmp_path) is None
    assert machine.describe(torch.device("cpu"), tmp_path)["mma_repeat"] is None


def test_how_often_the_module_issues_an_mma(monkeypatch, tmp_path):
    monkeypatch.setattr(machine.native, "build_info", lambda: {"commit": "abc", "mma_repeat": 2})
    assert machine.describe(torch.device("cpu"), tmp_path)["mma_repeat"] == 2


def test_gpu_state_is_what_nvidia_smi_prints(monkeypatch):
    line = "580.1, 1755 MHz, 1980 MHz, 3201 MHz, 700.00 W, 41"
    monkeypatch.setattr(machine, "_output", lambda command: line)
    monkeypatch.setattr(machine, "_smi_id", lambda device: "GPU-1")
    state = machine.smi_state(torch.device("cuda", 0))
    assert state["driver"] == "580.1"
    assert state["sm_clock"] == "1755 MHz"
    assert state["temperature"] == "41"
    for output in (None, "no devices were found"):
        monkeypatch.setattr(machine, "_output", lambda command, text=output: text)
        assert set(machine.smi_state(torch.device("cuda", 0)).values()) == {None}


@pytest.mark.parametrize(
    "command", [["no-such-command-anywhere"], ["false"]], ids=["missing", "fails"]
)
def test_command_that_gives_nothing(command):
    assert machine._output(command) is None
