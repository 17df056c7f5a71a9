"""Every kernel compiles for sm_86 with the oldest CUDA release, and spills no register."""

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from itertools import product
from pathlib import Path

import ptxas_log
import pytest
from building import ROOT

RELEASE = (12, 4)
ELEMENTS = ("cute::half_t", "cute::bfloat16_t")
TILE_ROWS = ("TilesSm86", "TilesSm90")
SCORE_KINDS = ("ScoreKind::kBounded", "ScoreKind::kGeneral")


def row_kernels(element: str) -> list[str]:
    """The row kernel's instantiations that row/row_launch.h makes."""
    return [
        f"row_kernel<RowTraits<{element}, {row}, {kind}>>"
        for row, kind in product(TILE_ROWS, SCORE_KINDS)
    ]


def key_kernels(element: str) -> list[str]:
    """The key kernel's instantiations that keys/key_launch.h makes."""
    return [
        f"key_kernel<KeyTraits<{element}, {row}, {row}::{shape}, {kind}>>"
        for row, shape, kind in product(TILE_ROWS, ("LongKeys", "ShortKeys"), SCORE_KINDS)
    ]


KERNELS = {"row/row_kernel.h": row_kernels, "keys/key_kernel.h": key_kernels}


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


def compile_kernels(packages: Path, header: str, kernels: list[str]) -> dict:
    """What nvrtc.py prints for these kernels; a process of its own, for NVRTC's memory."""
    spec = find_spec("cutlass_library")
    cutlass = Path(spec.submodule_search_locations[0]) / "source" / "include"
    command = [
        *(sys.executable, "-I", Path(__file__).with_name("nvrtc.py")),
        *("--library", packages / "cuda_nvrtc/lib/libnvrtc.so.12", "--architecture", "sm_86"),
        *("--include", ROOT / "cutlass_kernels", cutlass),
        *(packages / "cuda_runtime/include", packages / "cuda_cccl/include"),
        *("--header", header, "--kernel"),
        *(re.sub(r"\b(?=row_|key_|Row|Key|Tiles|Score)", "ragged_attention::", k) for k in kernels),
    ]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize("header", KERNELS)
def test_compiles_without_spills(packages: Path, header: str, element: str) -> None:
    result = compile_kernels(packages, header, KERNELS[header](element))
    assert tuple(result["release"]) == RELEASE
    assert result["bytes"] > 0, result["log"]
    usages = ptxas_log.parse_usage(result["log"].splitlines())
    assert {usage.architecture for usage in usages} == {"sm_86"}
    # both rows have a kernel of each kind, or more where a row has two shapes
    assert len(usages) >= 4
    assert [u for u in usages if u.spill_stores or u.spill_loads] == []
    assert any(usage.registers > 100 for usage in usages)


def test_a_fault_is_found(packages: Path) -> None:
    """A kernel that is not there fails, by its name."""
    result = compile_kernels(packages, "row/row_kernel.h", ["row_kernel<NoTraits>"])
    assert result["bytes"] == 0
    assert "NoTraits" in result["log"]


def test_the_library_has_no_other_kernels() -> None:
    """What the library's files instantiate is what is compiled here."""
    found = {}
    for file in (ROOT / "cutlass_kernels").rglob("*.cu"):
        for kernel, arguments in re.findall(
            r"^template void launch_(\w+)<(.*?)>\(", file.read_text(), re.MULTILINE
        ):
            found.setdefault(kernel, set()).add(tuple(arguments.split(", ")))
    combinations = set(product(ELEMENTS, TILE_ROWS))
    assert found == {"row_kernel": combinations, "key_kernel": combinations}
