"""Small builds that the tests of the build share: a library of one trivial kernel, and a fake."""

import importlib.util
import os
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import cuda_toolkit
import pytest
from building import COMMIT, HERE, ROOT, Build, configure, run


@pytest.fixture(scope="session")
def toolkit() -> cuda_toolkit.Toolkit:
    """The CUDA compiler; tests that need one are skipped where there is none."""
    try:
        return cuda_toolkit.find_toolkit()
    except cuda_toolkit.ToolkitError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python without any package."""
    folder = tmp_path_factory.mktemp("bare")
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    return folder / "bin" / "python"


@pytest.fixture(scope="session")
def small_build(toolkit: cuda_toolkit.Toolkit, tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Library and module of the small kernels, built."""
    folder = tmp_path_factory.mktemp("small")
    kernels = folder / "kernels"
    kernels.mkdir()
    for source in (HERE / "small_kernels").iterdir():
        (kernels / source.name).write_text(source.read_text())
    configure(
        folder / "build",
        f"-DRAGGED_ATTENTION_KERNEL_DIR={kernels}",
        f"-DRAGGED_ATTENTION_COMMIT={COMMIT}",
    )
    run("cmake", "--build", folder / "build")
    return Build(folder / "build", kernels)


@pytest.fixture(scope="session")
def fake_module(
    toolkit: cuda_toolkit.Toolkit, tmp_path_factory: pytest.TempPathFactory
) -> ModuleType:
    """The binding over a library without CUDA, built with the C++ compiler alone."""
    folder = tmp_path_factory.mktemp("fake")
    archive = folder / "libragged_attention_kernels.a"
    source = HERE / "fake_kernels" / "library.cpp"
    run(
        *(os.environ.get("CXX", "g++"), "-std=c++17", "-O1", "-fPIC", f"-I{ROOT}"),
        *(f"-I{toolkit.include}", "-c", source, "-o", folder / "library.o"),
    )
    run("ar", "qc", archive, folder / "library.o")
    run("ar", "qc", folder / "libcudart_static.a")
    configure(folder / "build", f"-DRAGGED_ATTENTION_PREBUILT_KERNELS={archive}")
    run("cmake", "--build", folder / "build")
    # A name of its own: pybind11 gives out one module per name and process.
    path = str(Build(folder / "build", folder).module)
    spec = importlib.util.spec_from_file_location("fake._native", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def fake_driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a libcuda.so.1 that tells of one card of compute capability 8.6."""
    folder = tmp_path_factory.mktemp("driver")
    compiler = os.environ.get("CXX", "g++")
    source = HERE / "fake_driver" / "cuda.c"
    run(compiler, "-x", "c", "-shared", "-fPIC", source, "-o", folder / "libcuda.so.1")
    return folder


@pytest.fixture(params=["small", "real"])
def module_file(request: pytest.FixtureRequest, real_module: Callable[[], Path]) -> Path:
    """A compiled module: over the small kernels, and the package's own where it has been built."""
    if request.param == "small":
        return request.getfixturevalue("small_build").module
    return real_module()


@pytest.fixture
def real_module() -> Callable[[], Path]:
    """Returns a function that gives the package's module, or skips the test."""

    def find() -> Path:
        name = f"_native{sysconfig.get_config_var('EXT_SUFFIX')}"
        path = ROOT / "python" / "ragged_attention" / name
        if not path.exists():
            pytest.skip(f"{path.relative_to(ROOT)} has not been built; run make build")
        return path

    return find
