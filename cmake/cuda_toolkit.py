"""Finds the CUDA compiler: a toolkit on this machine, or the packages in this Python.

Order: the compiler asked for, CUDA_HOME or CUDA_PATH, nvcc on PATH, /usr/local/cuda, packages.
Run as a program it prints `name=value` lines for CMake, or one line of error and exit status 1.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

OLDEST_NVCC = (12, 4)
DEFAULT_ROOT = Path("/usr/local/cuda")
REQUIREMENTS = Path(__file__).with_name("requirements-cuda.txt")
SOURCES = ("auto", "machine", "packages")


class ToolkitError(Exception):
    """No usable compiler; the message is one sentence that says what to set."""


@dataclass(frozen=True)
class Toolkit:
    """One CUDA compiler with its headers and run-time library."""

    nvcc: Path
    version: str  # "13.0.88"
    include: Path  # holds cuda_runtime_api.h
    library: Path  # holds libcudart_static.a
    newest_gcc: int  # major version that nvcc accepts
    origin: str  # how it was found, for messages


def package_requirements() -> dict[str, str]:
    """Returns the compiler's packages and their pinned versions, from requirements-cuda.txt."""
    lines = REQUIREMENTS.read_text().splitlines()
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


def install_command() -> str:
    """Returns the command that installs the compiler's packages into this Python."""
    return f"{sys.executable} -m pip install -r cmake/{REQUIREMENTS.name}"


def _run(command: list[str]) -> str:
    """Returns what a command printed, stdout and stderr; raises ToolkitError where it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise ToolkitError(f"nvcc: {command[0]} does not run ({error}); set CUDA_HOME") from error
    return done.stdout + done.stderr


def _first_with(name: str, folders: list[str], nvcc: Path) -> Path:
    """Returns the first folder that holds the named file."""
    for folder in folders:
        if (Path(folder) / name).is_file():
            return Path(folder).resolve()
    raise ToolkitError(
        f"nvcc: {nvcc} has no {name} in {', '.join(folders)}; set CUDA_HOME to a complete toolkit"
    )


def inspect_nvcc(nvcc: Path, origin: str) -> Toolkit:
    """Describes the toolkit of one nvcc.

    Raises:
        ToolkitError: it does not run, is older than OLDEST_NVCC, or its toolkit is incomplete.
    """
    found = re.search(r"V(\d+)\.(\d+)\.(\d+)", _run([str(nvcc), "--version"]))
    if not found:
        raise ToolkitError(f"nvcc: {nvcc} does not tell its version; set CUDA_HOME")
    version = found[0][1:]
    if (int(found[1]), int(found[2])) < OLDEST_NVCC:
        oldest = ".".join(map(str, OLDEST_NVCC))
        raise ToolkitError(
            f"nvcc: {nvcc} is {version}; {oldest} or newer is needed: set CUDA_HOME to such a "
            f"toolkit, or run {install_command()}"
        )
    # nvcc names its own folders, whether it is a toolkit's, a distribution's or a package's.
    folders = _run([str(nvcc), "--dryrun", "-x", "cu", os.devnull])
    top = re.search(r"TOP=(.*)", folders)
    root = Path(top[1].strip() if top else nvcc.parent.parent)
    include_flags = re.findall(r'"-I([^"]*)"', folders)
    library_flags = re.findall(r'"-L([^"]*)"', folders)
    include = _first_with("cuda_runtime_api.h", [*include_flags, f"{root}/include"], nvcc)
    # The packages keep their libraries in lib, where their nvcc does not look by itself.
    library = _first_with("libcudart_static.a", [*library_flags, f"{root}/lib"], nvcc)
    config = include / "crt" / "host_config.h"
    limit = re.search(r"__GNUC__ > (\d+)", config.read_text() if config.is_file() else "")
    newest_gcc = int(limit[1]) if limit else sys.maxsize
    return Toolkit(nvcc, version, include, library, newest_gcc, origin)


def _machine_nvcc(environ: Mapping[str, str]) -> tuple[Path, str] | None:
    """Returns nvcc of a toolkit on this machine and what led to it, or None."""
    for name in ("CUDA_HOME", "CUDA_PATH"):
        if root := environ.get(name):
            nvcc = Path(root) / "bin" / "nvcc"
            if not nvcc.is_file():
                raise ToolkitError(
                    f"{name}: {root} has no bin/nvcc; set it to a toolkit, or unset it"
                )
            return nvcc, name
    if on_path := shutil.which("nvcc", path=environ.get("PATH", "")):
        return Path(on_path), "PATH"
    nvcc = DEFAULT_ROOT / "bin" / "nvcc"
    return (nvcc, str(DEFAULT_ROOT)) if nvcc.is_file() else None


def _packaged_nvcc() -> Path | None:
    """Returns nvcc of the packages in this Python, or None where none is installed.

    Raises:
        ToolkitError: some of the packages are missing, or they are not of one release.
    """
    versions: dict[str, str] = {}
    for name in package_requirements():
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    if "nvidia-cuda-nvcc" not in versions:
        return None
    missing = [name for name in package_requirements() if name not in versions]
    if missing:
        raise ToolkitError(
            f"{missing[0]}: not installed, but nvidia-cuda-nvcc {versions['nvidia-cuda-nvcc']} "
            f"needs it; run {install_command()}"
        )
    releases = {name: ".".join(v.split(".")[:2]) for name, v in versions.items()}
    wanted = releases["nvidia-cuda-nvcc"]
    for name, release in releases.items():
        if release != wanted:
            raise ToolkitError(
                f"{name}: {versions[name]}, but nvidia-cuda-nvcc is "
                f"{versions['nvidia-cuda-nvcc']}; the two must be of one release: run "
                f"{install_command()}"
            )
    for file in importlib.metadata.files("nvidia-cuda-nvcc") or []:
        if file.name == "nvcc" and file.parent.name == "bin":
            return Path(str(file.locate()))
    return None


def find_toolkit(
    source: str = "auto", compiler: str = "", environ: Mapping[str, str] = os.environ
) -> Toolkit:
    """Finds the CUDA toolkit to build with.

    Args:
        source: "machine", "packages", or "auto" (the machine's where it has a usable one).
        compiler: path of an nvcc that the user asked for; wins over everything else.
        environ: environment to read.

    Raises:
        ToolkitError: there is none that can be used.
    """
    if source not in SOURCES:
        raise ToolkitError(f"RAGGED_ATTENTION_CUDA: {source}; one of {', '.join(SOURCES)}")
    if compiler:
        return inspect_nvcc(Path(compiler), "CMAKE_CUDA_COMPILER")
    unusable: ToolkitError | None = None
    if source != "packages":
        try:
            if found := _machine_nvcc(environ):
                return inspect_nvcc(*found)
        except ToolkitError as error:
            if source == "machine":
                raise
            unusable = error
    if source != "machine" and (nvcc := _packaged_nvcc()):
        return inspect_nvcc(nvcc, "packages")
    if unusable:
        raise unusable
    oldest = ".".join(map(str, OLDEST_NVCC))
    places = "CUDA_HOME, CUDA_PATH, PATH, " + str(DEFAULT_ROOT)
    looked = {
        "auto": f"{places} and the packages of {sys.executable}",
        "machine": places,
        "packages": f"the packages of {sys.executable}",
    }[source]
    raise ToolkitError(
        f"nvcc: none found in {looked}; set CUDA_HOME to a toolkit of {oldest} or newer, or run "
        f"{install_command()}"
    )


def find_headers(source: str = "auto", environ: Mapping[str, str] = os.environ) -> Path:
    """Finds the folder of cuda_runtime_api.h, which the module needs even without a compiler.

    Raises:
        ToolkitError: neither a toolkit nor a package has it.
    """
    try:
        return find_toolkit(source, environ=environ).include
    except ToolkitError as error:
        for folder in map(Path, sys.path):
            for header in sorted(folder.glob("nvidia/*/include/cuda_runtime_api.h")):
                if (header.parent / "crt" / "host_defines.h").is_file():
                    return header.parent
        raise ToolkitError(
            "cuda_runtime_api.h: found in no toolkit and no package; set CUDA_HOME, or run "
            f"{install_command()}"
        ) from error


def check_host_compiler(toolkit: Toolkit, compiler: str) -> None:
    """Raises ToolkitError where nvcc refuses this g++ as too new. Other compilers pass."""
    told = _run([compiler, "-dumpfullversion", "-dumpversion"]).strip()
    is_gcc = "Free Software Foundation" in _run([compiler, "--version"])
    if is_gcc and int(told.split(".")[0]) > toolkit.newest_gcc:
        raise ToolkitError(
            f"CMAKE_CUDA_HOST_COMPILER: {compiler} is g++ {told}; nvcc {toolkit.version} takes "
            f"g++ up to {toolkit.newest_gcc}: set CMAKE_CUDA_HOST_COMPILER to such a g++"
        )


def main() -> int:
    """Prints what was found as `name=value` lines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", default="auto", help="auto, machine or packages")
    parser.add_argument("--compiler", default="", help="path of the nvcc to use")
    parser.add_argument("--host-compiler", default="", help="g++ that nvcc will call")
    parser.add_argument("--headers-only", action="store_true", help="print the include folder only")
    arguments = parser.parse_args()
    try:
        if arguments.headers_only:
            print(f"include={find_headers(arguments.source)}")
            return 0
        toolkit = find_toolkit(arguments.source, arguments.compiler)
        if arguments.host_compiler:
            check_host_compiler(toolkit, arguments.host_compiler)
    except ToolkitError as error:
        print(error, file=sys.stderr)
        return 1
    for name, value in vars(toolkit).items():
        print(f"{name}={value}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
