"""Finding the CUDA compiler, and what is said where none can be used."""

import importlib.metadata
import sys
from pathlib import Path

import cuda_toolkit
import pytest
from cuda_toolkit import Toolkit, ToolkitError, find_toolkit


def program(path: Path, *lines: str) -> Path:
    """Writes an executable shell script."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)
    return path


def fake_toolkit(root: Path, version: str = "13.0.88", newest_gcc: int = 15) -> Path:
    """Lays out what find_toolkit looks at, and returns the toolkit's nvcc."""
    (root / "include" / "crt").mkdir(parents=True)
    (root / "include" / "cuda_runtime_api.h").touch()
    (root / "include" / "crt" / "host_config.h").write_text(f"#if __GNUC__ > {newest_gcc}\n")
    (root / "lib").mkdir()
    (root / "lib" / "libcudart_static.a").touch()
    return program(
        root / "bin" / "nvcc",
        f'if [ "$1" = --version ]; then echo "Cuda compilation tools, V{version}"; exit; fi',
        f'echo "#\\$ TOP={root}"',
    )


@pytest.fixture
def no_toolkit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, str]:
    """An environment without a toolkit, in a Python without the compiler's packages."""
    monkeypatch.setattr(cuda_toolkit, "DEFAULT_ROOT", tmp_path / "absent")
    monkeypatch.setattr(cuda_toolkit, "_packaged_nvcc", lambda: None)
    return {"PATH": str(tmp_path / "empty")}


def packages(monkeypatch: pytest.MonkeyPatch, **changes: str | None) -> None:
    """Makes the compiler's packages look installed, at their pinned versions but for `changes`."""
    installed = cuda_toolkit.package_requirements()
    installed |= {name.replace("_", "-"): version for name, version in changes.items()}

    def version(name: str) -> str:
        if installed.get(name) is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return installed[name]

    monkeypatch.setattr(importlib.metadata, "version", version)


def test_cuda_home_comes_first(no_toolkit: dict[str, str], tmp_path: Path) -> None:
    nvcc = fake_toolkit(tmp_path / "home")
    other = fake_toolkit(tmp_path / "other")
    environ = {"CUDA_HOME": str(tmp_path / "home"), "PATH": str(other.parent)}
    assert find_toolkit(environ=environ) == Toolkit(
        nvcc, "13.0.88", tmp_path / "home/include", tmp_path / "home/lib", 15, "CUDA_HOME"
    )
    del environ["CUDA_HOME"]
    assert find_toolkit(environ=environ).nvcc == other
    asked = find_toolkit(compiler=str(nvcc), environ=environ)
    assert (asked.nvcc, asked.origin) == (nvcc, "CMAKE_CUDA_COMPILER")


def test_default_folder_comes_last(
    no_toolkit: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvcc = fake_toolkit(tmp_path / "default")
    monkeypatch.setattr(cuda_toolkit, "DEFAULT_ROOT", tmp_path / "default")
    assert find_toolkit(environ=no_toolkit).nvcc == nvcc


@pytest.mark.parametrize(
    ("source", "looked"),
    [
        ("auto", "CUDA_HOME, CUDA_PATH, PATH, {default} and the packages of {python}"),
        ("machine", "CUDA_HOME, CUDA_PATH, PATH, {default}"),
        ("packages", "the packages of {python}"),
    ],
)
def test_none_found(source: str, looked: str, no_toolkit: dict[str, str]) -> None:
    with pytest.raises(ToolkitError) as error:
        find_toolkit(source, environ=no_toolkit)
    place = looked.format(default=cuda_toolkit.DEFAULT_ROOT, python=sys.executable)
    assert str(error.value) == (
        f"nvcc: none found in {place}; set CUDA_HOME to a toolkit of 12.4 or newer, or run "
        f"{sys.executable} -m pip install -r cmake/requirements-cuda.txt"
    )


def test_unknown_source() -> None:
    with pytest.raises(ToolkitError, match=r"^RAGGED_ATTENTION_CUDA: conda; one of auto, machine"):
        find_toolkit("conda")


def test_cuda_home_without_nvcc(no_toolkit: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(ToolkitError) as error:
        find_toolkit(environ={"CUDA_HOME": str(tmp_path)})
    assert str(error.value) == (
        f"CUDA_HOME: {tmp_path} has no bin/nvcc; set it to a toolkit, or unset it"
    )


@pytest.mark.parametrize("version", ["11.8.89", "12.3.107"])
def test_too_old(version: str, no_toolkit: dict[str, str], tmp_path: Path) -> None:
    nvcc = fake_toolkit(tmp_path / "old", version)
    with pytest.raises(ToolkitError) as error:
        find_toolkit(environ={"PATH": str(nvcc.parent)})
    assert str(error.value) == (
        f"nvcc: {nvcc} is {version}; 12.4 or newer is needed: set CUDA_HOME to such a toolkit, or "
        f"run {sys.executable} -m pip install -r cmake/requirements-cuda.txt"
    )


def test_oldest_that_will_do(no_toolkit: dict[str, str], tmp_path: Path) -> None:
    nvcc = fake_toolkit(tmp_path / "oldest", "12.4.99", newest_gcc=13)
    assert find_toolkit(environ={"PATH": str(nvcc.parent)}).newest_gcc == 13


def test_packages_replace_an_old_toolkit(
    no_toolkit: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environ = {"PATH": str(fake_toolkit(tmp_path / "old", "11.5.119").parent)}
    packaged = fake_toolkit(tmp_path / "packages")
    monkeypatch.setattr(cuda_toolkit, "_packaged_nvcc", lambda: packaged)
    assert find_toolkit(environ=environ).origin == "packages"
    with pytest.raises(ToolkitError, match=r"is 11\.5\.119"):
        find_toolkit("machine", environ=environ)


def test_does_not_run(no_toolkit: dict[str, str], tmp_path: Path) -> None:
    nvcc = program(tmp_path / "nvcc", "exit 3")
    with pytest.raises(ToolkitError, match=rf"^nvcc: {nvcc} does not run \(.*exit status 3"):
        find_toolkit(compiler=str(nvcc))
    with pytest.raises(ToolkitError, match=r"does not run \(.*No such file"):
        find_toolkit(compiler=str(tmp_path / "absent"))


def test_tells_no_version(tmp_path: Path) -> None:
    nvcc = program(tmp_path / "nvcc", "echo hello")
    with pytest.raises(ToolkitError, match=rf"^nvcc: {nvcc} does not tell its version"):
        find_toolkit(compiler=str(nvcc))


def test_incomplete_toolkit(tmp_path: Path) -> None:
    nvcc = fake_toolkit(tmp_path)
    (tmp_path / "lib" / "libcudart_static.a").unlink()
    with pytest.raises(ToolkitError) as error:
        find_toolkit(compiler=str(nvcc))
    assert str(error.value) == (
        f"nvcc: {nvcc} has no libcudart_static.a in {tmp_path}/lib; "
        "set CUDA_HOME to a complete toolkit"
    )


def test_packages_of_two_releases(monkeypatch: pytest.MonkeyPatch) -> None:
    packages(monkeypatch, nvidia_nvvm="13.4.12")
    with pytest.raises(ToolkitError) as error:
        find_toolkit("packages")
    assert str(error.value) == (
        "nvidia-nvvm: 13.4.12, but nvidia-cuda-nvcc is 13.0.88; the two must be of one release: "
        f"run {sys.executable} -m pip install -r cmake/requirements-cuda.txt"
    )


def test_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    packages(monkeypatch, nvidia_cuda_crt=None)
    with pytest.raises(ToolkitError, match=r"^nvidia-cuda-crt: not installed, but nvidia-cuda-nv"):
        find_toolkit("packages")


def test_pinned_packages_are_of_one_release() -> None:
    pinned = cuda_toolkit.package_requirements()
    assert len(pinned) == 5
    assert len({version.rsplit(".", 1)[0] for version in pinned.values()}) == 1


def test_host_compiler_too_new(tmp_path: Path) -> None:
    toolkit = find_toolkit(compiler=str(fake_toolkit(tmp_path / "cuda", newest_gcc=13)))
    version = 'if [ "$1" = --version ]; then echo "Free Software Foundation"; else echo {}; fi'
    newer = program(tmp_path / "newer", version.format("14.1.0"))
    with pytest.raises(ToolkitError) as error:
        cuda_toolkit.check_host_compiler(toolkit, str(newer))
    assert str(error.value) == (
        f"CMAKE_CUDA_HOST_COMPILER: {newer} is g++ 14.1.0; nvcc 13.0.88 takes g++ up to 13: "
        "set CMAKE_CUDA_HOST_COMPILER to such a g++"
    )
    cuda_toolkit.check_host_compiler(
        toolkit, str(program(tmp_path / "g++", version.format("13.2")))
    )
    clang = program(tmp_path / "clang++", "echo 18.1.0")
    cuda_toolkit.check_host_compiler(toolkit, str(clang))


def test_headers_without_a_compiler(
    no_toolkit: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    with pytest.raises(ToolkitError, match=r"^cuda_runtime_api\.h: found in no toolkit and no pa"):
        cuda_toolkit.find_headers(environ=no_toolkit)
    fake_toolkit(tmp_path / "nvidia" / "cuda_runtime")
    (tmp_path / "nvidia/cuda_runtime/include/crt/host_defines.h").touch()
    include = cuda_toolkit.find_headers(environ=no_toolkit)
    assert include == tmp_path / "nvidia/cuda_runtime/include"
