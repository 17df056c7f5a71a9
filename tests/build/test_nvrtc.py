"""Every kernel compiles for sm_86 with the oldest CUDA release, and spills no register."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import ptxas_log
import pytest
from building import ROOT

RELEASE = (12, 4)
ELEMENTS = ("half_t", "bfloat16_t")
HEADERS = sorted((ROOT / "cutlass_kernels").rglob("*_kernel.h"))


@pytest.fixture(scope="session")
def kernels() -> list[str]:
    """What the library instantiates for sm_86, by the C++ names in the build's ptxas.txt."""
    summary = Path(os.environ.get("RAGGED_ATTENTION_BUILD_DIR", ROOT / "build")) / "ptxas.txt"
    if not summary.exists():
        pytest.skip(f"{summary} does not exist; run make build, or set RAGGED_ATTENTION_BUILD_DIR")
    rows = [line.split(maxsplit=6) for line in summary.read_text().splitlines()]
    names = [name for architecture, *_, name in rows if architecture == "sm_86"]
    # one that no header declares measures the card, and is no part of a call
    return [name for name in names if "(anonymous namespace)" not in name]


@pytest.fixture(scope="session")
def packages() -> Path:
    """The folder of the packages in cmake/requirements-nvrtc.txt, as make puts them there."""
    folder = os.environ.get("RAGGED_ATTENTION_NVRTC", f"{sys.prefix}/nvrtc")
    if not Path(folder, "nvidia/cuda_nvrtc/lib/libnvrtc.so.12").is_file():
        pytest.skip(
            f"{folder} has no nvidia/cuda_nvrtc; run {sys.executable} -m pip install --no-deps "
            f"--target {folder} -r cmake/requirements-nvrtc.txt"
        )
    return Path(folder) / "nvidia"


def compile_kernels(packages: Path, kernels: list[str]) -> dict:
    """What nvrtc.py prints for these kernels; a process of its own, for NVRTC's memory."""
    spec = find_spec("cutlass_library")
    cutlass = Path(spec.submodule_search_locations[0]) / "source" / "include"
    command = [
        *(sys.executable, "-I", Path(__file__).with_name("nvrtc.py")),
        *("--library", packages / "cuda_nvrtc/lib/libnvrtc.so.12", "--architecture", "sm_86"),
        *("--include", cutlass, packages / "cuda_runtime/include", packages / "cuda_cccl/include"),
        *("--header", *HEADERS, "--using", "cutlass", "ragged_attention", "--kernel", *kernels),
    ]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("element", ELEMENTS)
def test_compiles_without_spills(packages: Path, kernels: list[str], element: str) -> None:
    wanted = [name for name in kernels if f"<{element}," in name]
    assert len(wanted) >= 4
    result = compile_kernels(packages, wanted)
    assert tuple(result["release"]) == RELEASE
    assert result["bytes"] > 0, result["log"]
    usages = ptxas_log.parse_usage(result["log"].splitlines())
    assert {usage.architecture for usage in usages} == {"sm_86"}
    assert len(usages) == len(wanted)
    assert [u for u in usages if u.spill_stores or u.spill_loads] == []
    assert any(usage.registers > 100 for usage in usages)


def test_every_kernel_has_one_of_the_types(kernels: list[str]) -> None:
    assert [name for name in kernels if not any(f"<{e}," in name for e in ELEMENTS)] == []


def test_a_fault_is_found(packages: Path) -> None:
    """A kernel that is not there fails, by its name."""
    result = compile_kernels(packages, ["no_such_kernel<int>"])
    assert result["bytes"] == 0
    assert "no_such_kernel" in result["log"]
