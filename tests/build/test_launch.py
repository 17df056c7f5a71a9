"""A kernel's shared-memory limit is raised where it has to be, and only there."""

import ctypes
import itertools
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from building import HERE, ROOT, run
from cuda_toolkit import Toolkit
from vjp_task.bundle import cutlass_include

LARGE = 229_504  # bytes of shared memory
WITHOUT_LIMIT = 48 * 1024  # bytes that every kernel may have

_kernels = itertools.count(1)


@pytest.fixture(scope="module")
def library(toolkit: Toolkit, tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The launcher over a CUDA run-time library that counts calls."""
    made: Path = tmp_path_factory.mktemp("launch") / "launch.so"
    run(
        *(os.environ.get("CXX", "g++"), "-std=c++17", "-O1", "-shared", "-fPIC", "-pthread"),
        *(f"-I{folder}" for folder in (ROOT, toolkit.include, cutlass_include())),
        *(ROOT / "cutlass_kernels/launch.cpp", HERE / "fake_runtime/runtime.cpp"),
        *("-o", made),
    )
    return ctypes.CDLL(str(made))


@pytest.fixture
def kernel() -> int:
    """A kernel that has never been launched."""
    return next(_kernels)


def launch(
    library: ctypes.CDLL,
    kernel: int,
    device: int = 0,
    shared_memory: int = LARGE,
    blocks: int = 1,
    overlaps: bool = False,
) -> tuple[int, int, str]:
    """Launches a kernel; how many limits were set and kernels launched, and the error's text."""
    before = library.count_attribute_calls(), library.count_launches()
    message = ctypes.create_string_buffer(200)
    numbers = ctypes.c_size_t(kernel), blocks, ctypes.c_size_t(shared_memory)
    library.launch(device, *numbers, overlaps, message)
    limits = library.count_attribute_calls() - before[0]
    return limits, library.count_launches() - before[1], message.value.decode()


def test_limit_is_raised_once(library: ctypes.CDLL, kernel: int) -> None:
    assert [launch(library, kernel)[:2] for _ in range(3)] == [(1, 1), (0, 1), (0, 1)]


@pytest.mark.parametrize("device", [1, 63, 64, 1000])
def test_every_device_has_its_own_limit(library: ctypes.CDLL, kernel: int, device: int) -> None:
    calls = [launch(library, kernel, d) for d in (0, device, 0, device)]
    assert calls == [(1, 1, ""), (1, 1, ""), (0, 1, ""), (0, 1, "")]


def test_every_kernel_has_its_own_limit(library: ctypes.CDLL, kernel: int) -> None:
    assert [launch(library, k) for k in (kernel, next(_kernels))] == [(1, 1, "")] * 2


def test_limit_follows_the_largest_block(library: ctypes.CDLL, kernel: int) -> None:
    sizes = (100_000, 200_000, 100_000)
    calls = [launch(library, kernel, shared_memory=size) for size in sizes]
    assert calls == [(1, 1, ""), (1, 1, ""), (0, 1, "")]


def test_small_blocks_need_no_limit(library: ctypes.CDLL, kernel: int) -> None:
    assert launch(library, kernel, shared_memory=WITHOUT_LIMIT) == (0, 1, "")
    assert launch(library, kernel, shared_memory=WITHOUT_LIMIT + 1) == (1, 1, "")


@pytest.mark.parametrize("overlaps", [False, True])
def test_a_kernel_overlaps_the_one_before_only_if_asked(
    library: ctypes.CDLL, kernel: int, overlaps: bool
) -> None:
    before = library.count_overlapping_launches()
    assert launch(library, kernel, overlaps=overlaps) == (1, 1, "")
    assert library.count_overlapping_launches() - before == overlaps


def test_nothing_to_launch(library: ctypes.CDLL, kernel: int) -> None:
    assert launch(library, kernel, blocks=0) == (0, 0, "")


def test_a_refused_limit_is_told_every_time(library: ctypes.CDLL, kernel: int) -> None:
    refused = (1, 0, "row kernel: invalid argument")
    assert [launch(library, kernel, shared_memory=232_449) for _ in range(2)] == [refused] * 2
    assert launch(library, kernel) == (1, 1, "")


def test_many_threads_raise_it_once(library: ctypes.CDLL, kernel: int) -> None:
    """ctypes frees the GIL, so they do run at the same time."""
    before = library.count_attribute_calls()
    with ThreadPoolExecutor(8) as pool:
        calls = list(pool.map(lambda _: launch(library, kernel), range(64)))
    assert {text for *_, text in calls} == {""}
    assert library.count_attribute_calls() - before == 1
