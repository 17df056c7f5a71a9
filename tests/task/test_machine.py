"""What is written beside the figures."""

import subprocess

import pytest
import torch
from vjp_task import machine, paths

CPU = torch.device("cpu")


def git(folder, *arguments):
    identity = ("-c", "user.name=n", "-c", "user.email=e@example.org")
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_cpu_is_described():
    facts = machine.describe(CPU)
    assert facts["device"] == "cpu"
    assert facts["card"]
    assert facts["torch"] == torch.__version__
    assert facts["driver"] is None
    assert facts["threads"] >= 1
    assert machine.backend(CPU) == {"backend": "portable", "tiles": None}


def test_commit_says_when_files_differ(monkeypatch, tmp_path):
    monkeypatch.setattr(paths, "repository", lambda: tmp_path)
    git(tmp_path, "init", "-q")
    (tmp_path / "file").write_text("1")
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "-q", "-m", "one")
    clean = git(tmp_path, "rev-parse", "--short=12", "HEAD")
    assert machine.commit() == clean
    (tmp_path / "untracked").write_text("1")
    assert machine.commit() == clean
    (tmp_path / "file").write_text("2")
    assert machine.commit() == clean + "-dirty"


def test_commit_outside_git_is_the_modules(monkeypatch, tmp_path):
    monkeypatch.setattr(paths, "repository", lambda: tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.setattr(machine.native, "build_info", lambda: {"commit": "abc123"})
    assert machine.commit() == "abc123"

    def broken():
        raise ImportError("module")

    monkeypatch.setattr(machine.native, "build_info", broken)
    assert machine.commit() is None


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


@pytest.mark.parametrize(
    ("forced", "tiles"), [(None, "sm90"), ("sm86", "sm86")], ids=["chosen", "forced"]
)
def test_backend_names_the_tiles(monkeypatch, forced, tiles):
    class Module:
        def choose_tiles(self, device):
            return "sm90"

    monkeypatch.setattr(machine.native, "load", Module)
    monkeypatch.delenv(machine.native.TILES_VARIABLE, raising=False)
    if forced:
        monkeypatch.setenv(machine.native.TILES_VARIABLE, forced)
    found = machine.backend(torch.device("cuda", 0))
    assert found == {"backend": "native", "tiles": tiles}


def test_backend_that_does_not_load(monkeypatch):
    def broken():
        raise ImportError("module")

    monkeypatch.setattr(machine.native, "load", broken)
    assert machine.backend(torch.device("cuda", 0)) == {"backend": "broken", "tiles": None}


@pytest.mark.gpu
def test_gpu_is_described():
    facts = machine.describe(torch.device("cuda", 0))
    assert facts["card"] == torch.cuda.get_device_name(0)
    assert facts["driver"]
    assert facts["sm_clock"].endswith("MHz")
