"""Making the environment: what is installed, and the one line where that cannot work."""

import sys
from pathlib import Path

import cuda_toolkit
import pytest
import setup_environment
from setup_environment import SetupError


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Records what would be installed instead of installing it."""
    names: list[str] = []
    monkeypatch.setattr(
        setup_environment, "install", lambda packages, otherwise, *options: names.extend(packages)
    )
    return names


def toolkit(origin: str) -> cuda_toolkit.Toolkit:
    return cuda_toolkit.Toolkit(Path("nvcc"), "13.0.88", Path(), Path(), 15, origin)


def test_requirements_come_from_the_project_file() -> None:
    names = setup_environment.project_requirements()
    for package in ("scikit-build-core", "nvidia-cutlass", "pybind11", "pytest", "rich"):
        assert any(name.startswith(package) for name in names)
    assert not any(name.startswith("torch") for name in names)


@pytest.mark.parametrize("present", [True, False])
def test_torch_only_where_there_is_none(
    present: bool, installed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setup_environment.importlib.util, "find_spec", lambda name: present or None)
    monkeypatch.setattr(setup_environment, "project_requirements", lambda: [])
    monkeypatch.setattr(cuda_toolkit, "find_toolkit", lambda source: toolkit("PATH"))
    setup_environment.install_all("torch==2.5.1", "auto")
    assert ("torch==2.5.1" in installed) == (not present)


def test_compiler_packages_where_the_machine_has_none(
    installed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def find_toolkit(source: str) -> cuda_toolkit.Toolkit:
        if source == "machine" or not any("nvcc" in name for name in installed):
            raise cuda_toolkit.ToolkitError("none")
        return toolkit("packages")

    monkeypatch.setattr(cuda_toolkit, "find_toolkit", find_toolkit)
    monkeypatch.setattr(setup_environment, "project_requirements", lambda: [])
    setup_environment.install_all("torch", "auto")
    pinned = [f"{name}=={v}" for name, v in cuda_toolkit.package_requirements().items()]
    assert installed[-5:] == pinned
    with pytest.raises(SetupError, match=r"^none$"):
        setup_environment.install_all("torch", "machine")


def test_nvrtc_goes_into_a_folder_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    monkeypatch.setattr(setup_environment, "install", lambda *arguments: calls.append(arguments))
    setup_environment.install_nvrtc()
    ((packages, _, *options),) = calls
    assert [name.split("==")[0] for name in packages] == [
        *("nvidia-cuda-nvrtc-cu12", "nvidia-cuda-runtime-cu12", "nvidia-cuda-cccl-cu12")
    ]
    assert options[-2:] == ["--target", f"{sys.prefix}/nvrtc"]


def test_set_up_goes_on_without_nvrtc(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(packages: list[str], otherwise: str, *options: str) -> None:
        raise SetupError(f"pip: {otherwise}")

    monkeypatch.setattr(setup_environment, "install", refuse)
    setup_environment.install_nvrtc()
    assert capsys.readouterr().out == "pip: tests/build/test_nvrtc.py will be skipped\n"


def test_nothing_reachable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pip = tmp_path / "python"
    pip.write_text("#!/bin/sh\necho 'ERROR: No matching distribution found'; exit 1\n")
    pip.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(pip))
    with pytest.raises(SetupError) as error:
        setup_environment.install(["a==1", "b"], "install a CUDA toolkit and set CUDA_HOME")
    assert str(error.value) == (
        "pip: cannot install a==1, b; install a CUDA toolkit and set CUDA_HOME "
        "(ERROR: No matching distribution found)"
    )


def test_old_python(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(setup_environment, "OLDEST_PYTHON", (99, 0))
    with pytest.raises(SetupError, match=r"^PYTHON: .* is 3\.\d+\.\d+\S*; 99\.0 or newer is need"):
        setup_environment.create(tmp_path / "venv")


def test_no_cpp_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(SetupError) as error:
        setup_environment.create(tmp_path / "venv")
    assert str(error.value) == (
        "CXX: no-such-compiler is not on PATH; install g++, or set CXX to a compiler"
    )


def test_no_venv_module(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 'No module named venv'; exit 1\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    with pytest.raises(SetupError) as error:
        setup_environment.create(tmp_path / "venv")
    assert str(error.value) == (
        f"venv: {python} cannot make {tmp_path / 'venv'}; install its venv module (python3-venv) "
        "(No module named venv)"
    )


def test_error_is_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    monkeypatch.setattr(sys, "argv", ["setup_environment.py", "--folder", str(tmp_path / "venv")])
    assert setup_environment.main() == 1
    assert capsys.readouterr().err == (
        "error: CXX: no-such-compiler is not on PATH; install g++, or set CXX to a compiler\n"
    )


def test_shares_the_torch_of_this_python(tmp_path: Path) -> None:
    import torch

    python = setup_environment.create(tmp_path / "venv")
    (shared,) = (tmp_path / "venv").glob("lib/python*/site-packages/shared_torch.pth")
    assert shared.read_text() == f"{Path(torch.__file__).parent.parent}\n"
    before = python.stat().st_mtime_ns
    assert setup_environment.create(tmp_path / "venv") == python  # made once
    assert python.stat().st_mtime_ns == before
