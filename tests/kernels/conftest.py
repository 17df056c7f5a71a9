"""Finds the module of host tests, `_kernels_host`, in the build folder."""

import importlib.util
import os
import sysconfig
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(scope="session")
def kernels_host() -> ModuleType:
    """The kernels' headers on the host; tests are skipped where the module has not been built."""
    build = Path(os.environ.get("RAGGED_ATTENTION_BUILD_DIR", ROOT / "build"))
    path = build / "tests" / "kernels" / f"_kernels_host{sysconfig.get_config_var('EXT_SUFFIX')}"
    if not path.exists():
        pytest.skip(
            f"{path} has not been built; configure with -DRAGGED_ATTENTION_BUILD_TESTS=ON, "
            "or set RAGGED_ATTENTION_BUILD_DIR"
        )
    spec = importlib.util.spec_from_file_location("_kernels_host", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
