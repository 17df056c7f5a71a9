"""Makes the virtual environment that this repository builds and tests in.

Installs what pyproject.toml lists to build, run, test and plot; PyTorch where this Python has
none; and the CUDA compiler's packages where the machine has no usable toolkit.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import cuda_toolkit

OLDEST_PYTHON = (3, 10)
PROJECT_FILE = Path(__file__).resolve().parent.parent / "pyproject.toml"
PROGRAMS = ["cmake>=3.24", "ninja", "ruff", "clang-format"]
NVRTC_REQUIREMENTS = Path(__file__).with_name("requirements-nvrtc.txt")


class SetupError(Exception):
    """Set-up cannot go on; the message is one sentence that says what to do."""


def run_quietly(command: list[str], problem: str) -> None:
    """Runs a command; raises SetupError with its last line of output where it fails."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        lines = done.stdout.strip().splitlines() or [f"exit status {done.returncode}"]
        raise SetupError(f"{problem} ({lines[-1].strip()})")


def install(packages: list[str], otherwise: str, *options: str) -> None:
    """Installs packages into this Python; `otherwise` ends the message where pip cannot."""
    shown = ", ".join(packages)
    print(f"installing {shown}", flush=True)
    run_quietly(
        [sys.executable, "-m", "pip", "install", "--quiet", *options, *packages],
        f"pip: cannot install {shown}; {otherwise}",
    )


def project_requirements() -> list[str]:
    """Returns what pyproject.toml needs to build, run, test and plot, PyTorch left out."""
    if importlib.util.find_spec("tomllib") is None:  # Python 3.10
        install(["tomli"], "a network or a package index is needed")
        importlib.invalidate_caches()
    toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    content = toml.loads(PROJECT_FILE.read_text())
    requirements = [*content["build-system"]["requires"], *content["project"]["dependencies"]]
    for extra in content["project"]["optional-dependencies"].values():
        requirements += extra
    return [requirement for requirement in requirements if not requirement.startswith("torch")]


def install_nvrtc() -> None:
    """Installs the compiler of one test into a folder of its own, away from PyTorch's packages."""
    options = ("--no-deps", "--upgrade", "--target", str(Path(sys.prefix) / "nvrtc"))
    lines = NVRTC_REQUIREMENTS.read_text().splitlines()
    packages = [line for line in lines if line and not line.startswith("#")]
    try:
        install(packages, "tests/build/test_nvrtc.py will be skipped", *options)
    except SetupError as error:
        print(error)


def install_all(torch: str, cuda: str) -> None:
    """Installs everything into this Python, which is the environment's."""
    if importlib.util.find_spec("torch") is None:
        install([torch], "set TORCH to a release that your package index has")
    install(project_requirements(), "a network or a package index is needed")
    # A package seen through the shared PyTorch's folder would leave no program in this one.
    here = Path(sys.executable).parent
    missing = [p for p in PROGRAMS if not (here / re.match(r"[\w-]+", p)[0]).exists()]
    if missing:
        install(missing, "a network or a package index is needed", "--ignore-installed")
    install_nvrtc()
    try:
        toolkit = cuda_toolkit.find_toolkit("machine" if cuda == "auto" else cuda)
    except cuda_toolkit.ToolkitError as error:
        if cuda == "machine":
            raise SetupError(str(error)) from error
        packages = [f"{name}=={v}" for name, v in cuda_toolkit.package_requirements().items()]
        install(packages, "install a CUDA toolkit and set CUDA_HOME")
        toolkit = cuda_toolkit.find_toolkit("packages")
    print(f"nvcc {toolkit.version}: {toolkit.nvcc}")


def create(folder: Path) -> Path:
    """Makes the environment and returns its Python. Sees this Python's PyTorch, if it has one."""
    if sys.version_info < OLDEST_PYTHON:
        wanted = ".".join(map(str, OLDEST_PYTHON))
        raise SetupError(
            f"PYTHON: {sys.executable} is {sys.version.split()[0]}; {wanted} or newer is needed"
        )
    compiler = os.environ.get("CXX", "g++")
    if shutil.which(compiler) is None:
        raise SetupError(f"CXX: {compiler} is not on PATH; install g++, or set CXX to a compiler")
    python = folder / "bin" / "python"
    if not python.exists():
        run_quietly(
            [sys.executable, "-m", "venv", str(folder)],
            f"venv: {sys.executable} cannot make {folder}; install its venv module (python3-venv)",
        )
        if torch := importlib.util.find_spec("torch"):
            # --system-site-packages would miss a PyTorch that lives in a virtual environment.
            shared = Path(torch.origin).parent.parent
            (site_packages,) = folder.glob("lib/python*/site-packages")
            (site_packages / "shared_torch.pth").write_text(f"{shared}\n")
    return python


def main() -> int:
    """Creates the environment, then goes on inside it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path(".venv"), help="the environment")
    parser.add_argument("--torch", default="torch", help="PyTorch requirement, if there is none")
    parser.add_argument("--cuda", default="auto", choices=cuda_toolkit.SOURCES, help="compiler")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    try:
        if arguments.inside:
            install_all(arguments.torch, arguments.cuda)
            return 0
        python = create(arguments.folder)
    except (SetupError, cuda_toolkit.ToolkitError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return subprocess.run([str(python), __file__, *sys.argv[1:], "--inside"]).returncode


if __name__ == "__main__":
    sys.exit(main())
