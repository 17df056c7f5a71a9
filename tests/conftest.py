"""Who runs the tests marked `gpu`, and which paths of the operator a test takes."""

import functools
from pathlib import Path

import pytest
import torch
from ragged_attention import build_info, native, portable

torch.set_num_threads(1)  # the sizes are small


def pytest_report_header() -> str:
    facts = ", ".join(f"{name} {value}" for name, value in build_info().items() if value)
    return f"ragged_attention: {Path(native.__file__).parent}; {facts}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = _why_no_gpu()
    if reason:
        for item in items:
            if item.get_closest_marker("gpu"):
                item.add_marker(pytest.mark.skip(reason=reason))


_ROWS = [pytest.param(row, marks=pytest.mark.gpu) for row in native.TILES]


@pytest.fixture(params=["portable", *_ROWS])
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> torch.device:
    """Runs a test on the CPU's portable path, and on the GPU with each row of the tile table."""
    if request.param == "portable":
        return torch.device("cpu")
    return _gpu_with_tiles(request.param, monkeypatch)


@pytest.fixture(params=_ROWS)
def gpu(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> torch.device:
    """Runs a test on the GPU with each row of the tile table."""
    return _gpu_with_tiles(request.param, monkeypatch)


def _gpu_with_tiles(row: str, monkeypatch: pytest.MonkeyPatch) -> torch.device:
    try:
        native.load().check_tiles(row, 0)
    except RuntimeError as error:
        pytest.skip(f"tiles {row}: {error}")
    monkeypatch.setenv(native.TILES_VARIABLE, row)
    monkeypatch.setattr(portable, "full_vjp", lambda *_: pytest.fail("took the portable path"))
    return torch.device("cuda", 0)


@functools.cache
def _why_no_gpu() -> str:
    """Empty where tests marked `gpu` can run; a module that is there and broken raises."""
    if not torch.cuda.is_available():
        return "no CUDA device is visible to PyTorch"
    return "" if native.load() else native.why_missing()
