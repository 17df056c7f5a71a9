"""What CMake says, in one sentence, where it cannot go on."""

import os
import sys
from pathlib import Path

import pytest
from building import configure
from cuda_toolkit import Toolkit
from pybind11_headers import find_headers


def refusal(folder: Path, *options: str, python: object = sys.executable) -> str:
    """Configures, which must fail, and returns the message."""
    output = configure(folder, *options, python=python, check=False)
    return output.split("(message): ")[1].split(" Call Stack")[0].split(" -- Config")[0]


def test_no_compiler(tmp_path: Path, bare_python: Path) -> None:
    assert refusal(tmp_path, "-DRAGGED_ATTENTION_CUDA=packages", python=bare_python) == (
        f"nvcc: none found in the packages of {bare_python}; set CUDA_HOME to a toolkit of 12.4 or "
        f"newer, or run {bare_python} -m pip install -r cmake/requirements-cuda.txt"
    )


def test_old_compiler(tmp_path: Path) -> None:
    nvcc = tmp_path / "nvcc"
    nvcc.write_text("#!/bin/sh\necho V11.8.89\n")
    nvcc.chmod(0o755)
    message = refusal(tmp_path / "build", f"-DCMAKE_CUDA_COMPILER={nvcc}")
    assert message.startswith(f"nvcc: {nvcc} is 11.8.89; 12.4 or newer is needed: set CUDA_HOME")


def test_host_compiler_too_new(tmp_path: Path, toolkit: Toolkit) -> None:
    compiler = tmp_path / "g++-99"
    compiler.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo "Free Software Foundation" || echo 99.1.0\n'
    )
    compiler.chmod(0o755)
    assert refusal(tmp_path / "build", f"-DCMAKE_CUDA_HOST_COMPILER={compiler}") == (
        f"CMAKE_CUDA_HOST_COMPILER: {compiler} is g++ 99.1.0; nvcc {toolkit.version} takes g++ up "
        f"to {toolkit.newest_gcc}: set CMAKE_CUDA_HOST_COMPILER to such a g++"
    )


@pytest.mark.skipif(os.path.exists("/dev/nvidia0"), reason="this machine has a GPU")
def test_native_without_a_gpu(tmp_path: Path, toolkit: Toolkit) -> None:
    assert refusal(tmp_path, "-DCMAKE_CUDA_ARCHITECTURES=native") == (
        "CMAKE_CUDA_ARCHITECTURES: native; numbers from 86 are needed, such as 86;90"
    )


def test_architecture_too_old(tmp_path: Path, toolkit: Toolkit) -> None:
    assert refusal(tmp_path, "-DCMAKE_CUDA_ARCHITECTURES=86;80") == (
        "CMAKE_CUDA_ARCHITECTURES: 80; numbers from 86 are needed, such as 86;90"
    )


@pytest.mark.parametrize("repeat", ["0", "2.5", "10", "ON"])
def test_how_often_an_mma_is_issued(repeat: str, tmp_path: Path, toolkit: Toolkit) -> None:
    assert refusal(tmp_path, f"-DRAGGED_ATTENTION_MMA_REPEAT={repeat}") == (
        f"RAGGED_ATTENTION_MMA_REPEAT: {repeat}; a number from 1 to 9 is needed"
    )


def test_no_cutlass(tmp_path: Path, toolkit: Toolkit, bare_python: Path) -> None:
    nvcc = f"-DCMAKE_CUDA_COMPILER={toolkit.nvcc}"
    assert refusal(tmp_path, nvcc, python=bare_python) == (
        f"CUTLASS_DIR: '' and the packages of {bare_python} have no cutlass/version.h; set "
        f"CUTLASS_DIR to CUTLASS 4.0.0 or newer, or run {bare_python} -m pip install nvidia-cutlass"
    )


def test_old_cutlass(tmp_path: Path, toolkit: Toolkit) -> None:
    header = tmp_path / "cutlass-3.5.1" / "include" / "cutlass" / "version.h"
    header.parent.mkdir(parents=True)
    header.write_text("#define CUTLASS_MAJOR 3\n#define CUTLASS_MINOR 5\n#define CUTLASS_PATCH 1\n")
    checkout = tmp_path / "cutlass-3.5.1"
    message = refusal(tmp_path / "build", f"-DCUTLASS_DIR={checkout}")
    assert message.startswith(
        f"CUTLASS_DIR: CUTLASS 3.5.1 in {checkout}/include; 4.0.0 or newer is needed: set CUTLASS_D"
    )


def test_no_kernels(tmp_path: Path, toolkit: Toolkit) -> None:
    message = refusal(tmp_path / "build", f"-DRAGGED_ATTENTION_KERNEL_DIR={tmp_path}/none")
    assert message == (
        f"RAGGED_ATTENTION_KERNEL_DIR: {tmp_path}/none has no .cu file; set it to the folder of "
        "the kernels"
    )


def test_no_pybind11(tmp_path: Path, toolkit: Toolkit, bare_python: Path) -> None:
    archive = tmp_path / "libragged_attention_kernels.a"
    archive.touch()
    (tmp_path / "libcudart_static.a").touch()
    prebuilt = f"-DRAGGED_ATTENTION_PREBUILT_KERNELS={archive}"
    assert refusal(tmp_path / "build", prebuilt, python=bare_python) == (
        f"pybind11: not installed in {bare_python}; run {bare_python} -m pip install pybind11"
    )


def test_torch_has_headers_where_pybind11_is_missing() -> None:
    include = find_headers(("no_such_package", "torch"))
    assert include is not None
    assert (include / "pybind11" / "pybind11.h").is_file()
    assert find_headers(("no_such_package",)) is None


@pytest.mark.parametrize("missing", ["libragged_attention_kernels.a", "libcudart_static.a"])
def test_no_prebuilt_library(missing: str, tmp_path: Path) -> None:
    for name in {"libragged_attention_kernels.a", "libcudart_static.a"} - {missing}:
        (tmp_path / name).touch()
    archive = tmp_path / "libragged_attention_kernels.a"
    assert refusal(tmp_path / "build", f"-DRAGGED_ATTENTION_PREBUILT_KERNELS={archive}") == (
        f"RAGGED_ATTENTION_PREBUILT_KERNELS: {archive}; {tmp_path / missing} does not exist, and "
        "both it and the run-time library that it was built with are needed"
    )
