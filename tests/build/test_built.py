"""What the build leaves behind: module, archive, summary, install tree."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from building import COMMIT, ENVIRONMENT, HERE, ROOT, Build, ask, build_info, configure, run
from cuda_toolkit import Toolkit


def cuobjdump() -> str:
    """Path of cuobjdump, or skips the test."""
    beside_python = sorted(Path(p) for p in sys.path if (Path(p) / "nvidia").is_dir())
    packaged = [p for f in beside_python for p in f.glob("nvidia/*/bin/cuobjdump")]
    path = shutil.which("cuobjdump", path=ENVIRONMENT["PATH"]) or next(iter(packaged), None)
    if path is None:
        pytest.skip("cuobjdump is neither on PATH nor in this Python's packages")
    return str(path)


def test_imports_without_torch(module_file: Path) -> None:
    info, has_torch = json.loads(ask(module_file, "[native.build_info(), 'torch' in sys.modules]"))
    assert not has_torch
    assert info["compiler"].startswith("nvcc ")
    assert info["architectures"] == ";".join(map(str, info["sm"]))
    assert re.fullmatch(r"\d+\.\d+\.\d+", info["cutlass"])
    assert re.fullmatch(r"[0-9a-f]{10}(-dirty)?|unknown", info["commit"])
    assert info["python_module"] == f"cp{sys.version_info.major}{sys.version_info.minor}"


def test_no_undefined_symbols(module_file: Path) -> None:
    undefined = re.findall(r"undefined symbol: (\w+)", run("ldd", "-r", module_file))
    assert [name for name in undefined if not name.lstrip("_").startswith("Py")] == []


def test_needs_no_cuda_library(module_file: Path) -> None:
    libraries = re.findall(r"^\s*(lib\S+?)\.so", run("ldd", module_file), re.MULTILINE)
    assert "libc" in libraries
    assert not [name for name in libraries if re.match("libcuda|libtorch|libc10", name)]


def test_exports_only_the_module(module_file: Path) -> None:
    symbols = run("nm", "--dynamic", "--defined-only", module_file).splitlines()
    strong = [line.split()[2] for line in symbols if line.split()[1] not in "uVvWw"]
    assert strong == ["PyInit__native"]


def test_holds_code_for_each_architecture(module_file: Path) -> None:
    sm = build_info(module_file)["sm"]
    elf = run(cuobjdump(), "--list-elf", module_file)
    assert {int(n) for n in re.findall(r"sm_(\d+)", elf)} == set(sm)


def test_default_architectures(small_build: Build) -> None:
    info = build_info(small_build.module)
    assert (info["architectures"], info["sm"]) == ("86;90", [86, 90])
    assert info["mma_repeat"] == 1


def test_summary_of_ptxas(small_build: Build) -> None:
    lines = (small_build.folder / "ptxas.txt").read_text().splitlines()
    assert [line.split()[0] for line in lines] == ["arch", "sm_86", "sm_90"]
    for line in lines[1:]:
        _, registers, stack, stores, loads, static_smem, name = line.split()
        assert 0 < int(registers) < 64
        assert (stack, stores, loads, static_smem) == ("0", "0", "0", "128")
        assert name == "set_first"


def test_second_build_does_nothing(small_build: Build) -> None:
    assert "no work to do" in run("cmake", "--build", small_build.folder)
    before = small_build.module.stat().st_mtime_ns
    configure(small_build.folder)
    assert "no work to do" in run("cmake", "--build", small_build.folder)
    assert small_build.module.stat().st_mtime_ns == before


def test_commit_does_not_rebuild_kernels(small_build: Build) -> None:
    configure(small_build.folder, "-DRAGGED_ATTENTION_COMMIT=fedcba9876")
    output = run("cmake", "--build", small_build.folder)
    assert "build_info.cpp" in output
    assert "library.cu" not in output
    assert build_info(small_build.module)["commit"] == "fedcba9876"
    configure(small_build.folder, f"-DRAGGED_ATTENTION_COMMIT={COMMIT}")
    run("cmake", "--build", small_build.folder)


def test_spill_stops_the_build(toolkit: Toolkit, tmp_path: Path) -> None:
    allowed = tmp_path / "allowed.txt"
    allowed.write_text("# none\n")
    archive = tmp_path / "build" / "libragged_attention_kernels.a"
    configure(
        tmp_path / "build",
        f"-DRAGGED_ATTENTION_KERNEL_DIR={HERE / 'small_kernels'}",
        f"-DRAGGED_ATTENTION_ALLOWED_SPILLS={allowed}",
        "-DRAGGED_ATTENTION_BUILD_MODULE=OFF",
        "-DCMAKE_CUDA_ARCHITECTURES=86",
        "-DCMAKE_CUDA_FLAGS=-DWITH_SPILLS",
    )
    message = (
        r"error: spilling_kernel: spills \d+ bytes of stores and \d+ bytes of loads on sm_86; "
        r"none are allowed unless allowed\.txt gives a reason"
    )
    for _ in range(2):  # a second attempt must not find the archive done
        assert re.search(message, run("cmake", "--build", tmp_path / "build", check=False))
        assert not archive.exists()
    allowed.write_text("sm_86 spilling_kernel: it is here to spill\n")
    assert "library.cu" not in run("cmake", "--build", tmp_path / "build")
    assert archive.exists()
    allowed.write_text("sm_90 spilling_kernel: another architecture\n")
    assert re.search(message, run("cmake", "--build", tmp_path / "build", check=False))
    assert re.search(message, run("cmake", "--build", tmp_path / "build", check=False))


def test_timing_build(toolkit: Toolkit, tmp_path: Path) -> None:
    """Every source knows how often, the module says so, and a spill is told but stops nothing."""
    allowed = tmp_path / "allowed.txt"
    allowed.write_text("# none\n")
    build = Build(tmp_path / "build", HERE / "small_kernels")
    output = configure(
        build.folder,
        f"-DRAGGED_ATTENTION_KERNEL_DIR={build.kernels}",
        f"-DRAGGED_ATTENTION_ALLOWED_SPILLS={allowed}",
        "-DRAGGED_ATTENTION_MMA_REPEAT=2",
        "-DCMAKE_CUDA_ARCHITECTURES=86",
        "-DCMAKE_CUDA_FLAGS=-DWITH_SPILLS",
    )
    said = "RAGGED_ATTENTION_MMA_REPEAT: 2; this is a timing build, whose results are wrong"
    assert said in output
    output = run("cmake", "--build", build.folder)
    assert re.search(r"note: spilling_kernel: spills \d+ bytes of stores", output)
    assert build_info(build.module)["mma_repeat"] == 2
    kernels = [line.split() for line in (build.folder / "ptxas.txt").read_text().splitlines()]
    assert [row[5] for row in kernels if row[-1] == "set_first"] == ["256"]  # twice 128


def test_cpp_program_links_the_installed_library(small_build: Build, tmp_path: Path) -> None:
    install = ("cmake", "--install", small_build.folder, "--component", "development")
    run(*install, "--prefix", tmp_path / "installed")
    build = tmp_path / "build"
    run("cmake", "-S", HERE / "consumer", "-B", build, f"-DCMAKE_PREFIX_PATH={tmp_path}/installed")
    run("cmake", "--build", build)
    compiler = build_info(small_build.module)["compiler"]
    assert run(build / "consumer") == f"{compiler}, 86;90\n"


def test_runs_without_a_driver(small_build: Build) -> None:
    """Where there is no driver, a call raises; it neither crashes nor passes unnoticed."""
    if shutil.which("nvidia-smi"):
        pytest.skip("this machine has an NVIDIA driver")
    output = ask(small_build.module, "native.choose_tiles(0)", check=False)
    assert "RuntimeError: CUDA driver version is insufficient" in output


def test_wheel(small_build: Build, tmp_path: Path) -> None:
    prebuilt = f"cmake.define.RAGGED_ATTENTION_PREBUILT_KERNELS={small_build.archive}"
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation"]
    command += ["-C", prebuilt, "-C", f"build-dir={tmp_path}/build", "-w", str(tmp_path), str(ROOT)]
    subprocess.run(command, check=True, env=ENVIRONMENT)
    (wheel,) = tmp_path.glob("ragged_attention-*.whl")
    names = run(sys.executable, "-m", "zipfile", "-l", wheel)
    assert "ragged_attention/__init__.py" in names
    assert "vjp_task/__init__.py" in names
    assert len(re.findall(r"ragged_attention/_native\S*\.so", names)) == 1
    assert "libragged_attention_kernels" not in names
