"""Builds a bundle's compiled module where the one that it brings, if any, suits no card here.

A bundle is this package with the kernels' sources beside it, in `kernels/`. They are compiled when
the package is imported, once, for the cards of this machine alone, with the machine's nvcc and
without a network. Nothing happens where there is no card, and nothing outside a bundle.
"""

import fcntl
import functools
import importlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ragged_attention import module_probe

OLDEST_CARD = 86  # compute capability 8.6

_PACKAGE = Path(__file__).parent
_KERNELS = _PACKAGE.parent / "kernels"
_MARK = "bundle.json"  # in the folder of kernels: commit and CUTLASS version of the sources
_MODULE = _PACKAGE / f"_native{sysconfig.get_config_var('EXT_SUFFIX')}"
_BYTES_PER_JOB = 1_500_000_000  # what nvcc takes for one file of kernels
_CONFIG = "ragged_attention_build_config.h"


class BuildError(Exception):
    """The module cannot be built; the message is one sentence."""


def in_bundle() -> bool:
    """Whether the kernels' sources lie beside this package."""
    return (_KERNELS / _MARK).is_file()


@functools.cache
def ready() -> bool:
    """Whether the bundle's module can be loaded, after building it where that is needed.

    A build that fails is told in a RuntimeWarning, and the answer is False.
    """
    try:
        found = _probe()
        if _suits(found):
            return found["sm"] is not None
        with _lock():
            found = _probe()  # another process may have built it meanwhile
            if not _suits(found):
                _build(found["capabilities"])
                if not _suits(_probe()):
                    raise BuildError(f"{_MODULE.name}: built, but it does not load")
        return True
    except (BuildError, OSError) as error:
        message = f"ragged_attention takes its portable path: the kernels were not built ({error})"
        warnings.warn(message, RuntimeWarning, stacklevel=2)
        return False


def _probe() -> dict[str, Any]:
    """What `module_probe` says of the machine and the module."""
    nothing = _MODULE.with_name("no_module.so")  # instead of a module that crashes its process
    for module in (_MODULE, nothing):
        command = [sys.executable, "-I", module_probe.__file__, str(module)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode == 0:
            return json.loads(done.stdout)
    raise BuildError(f"{command[2]}: ended with {done.returncode}; 0 is needed")


def _suits(found: dict[str, Any]) -> bool:
    """Whether there is nothing to build: no card that the kernels know, or code for each."""
    cards = [c for c in found["capabilities"] if c >= OLDEST_CARD]
    return all(found["sm"] and module_probe.suits(found["sm"], card) for card in cards)


@contextmanager
def _lock() -> Iterator[None]:
    """Lets one process build at a time; the lock ends with its process."""
    with open(_KERNELS / ".lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _build(capabilities: list[int]) -> None:
    """Compiles the sources and puts the module into its place in one step."""
    architectures = [c for c in capabilities if c >= OLDEST_CARD]
    compiler = os.environ.get("CXX", "g++")
    toolkit = _toolkit(compiler)
    pybind11 = _tool("pybind11_headers.py").strip()

    cards = ", ".join(f"sm_{a}" for a in architectures)
    print(
        f"ragged_attention: building kernels for {cards} with nvcc {toolkit['version']}; "
        "this happens once and takes a few minutes",
        file=sys.stderr,
        flush=True,
    )
    folder = _KERNELS / "build"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / _CONFIG).write_text(_config(architectures, toolkit["version"]))
    sources = sorted(_KERNELS.rglob("*.cu")) + sorted(_KERNELS.rglob("*.cpp"))
    objects = [folder / f"{number}_{file.stem}.o" for number, file in enumerate(sources)]
    includes = (_KERNELS, _KERNELS / "include", folder, pybind11, sysconfig.get_path("include"))
    compile_one = [
        *(toolkit["nvcc"], "-ccbin", compiler, "-std=c++17", "-O3", "-DNDEBUG", "-lineinfo"),
        *("--expt-relaxed-constexpr", "-Xcompiler", "-fPIC,-fvisibility=hidden"),
        *(f"-gencode=arch=compute_{a},code=sm_{a}" for a in architectures),
        *(f"-I{path}" for path in includes),
    ]
    pairs = zip(sources, objects, strict=True)
    _run([[*compile_one, "-c", str(source), "-o", str(made)] for source, made in pairs])
    module = folder / _MODULE.name
    link = [
        *(toolkit["nvcc"], "-ccbin", compiler, "-shared", "-cudart", "static"),
        *("-Xlinker", "--exclude-libs,ALL", f"-L{toolkit['library']}"),
    ]
    _run([[*link, *map(str, objects), "-o", str(module)]])
    os.replace(module, _MODULE)
    shutil.rmtree(folder, ignore_errors=True)
    importlib.invalidate_caches()


def _config(architectures: list[int], nvcc: str) -> str:
    """The header that tells the module how it was built."""
    mark = json.loads((_KERNELS / _MARK).read_text())
    facts = {
        "COMPILER": f"nvcc {nvcc}",
        "ARCHS": ";".join(map(str, architectures)),
        "CUTLASS": mark["cutlass"],
        "COMMIT": mark["commit"],
    }
    lines = [f'#define RAGGED_ATTENTION_{name} "{value}"' for name, value in facts.items()]
    return "\n".join(["#pragma once", *lines]) + "\n"


def _run(commands: list[list[str]]) -> None:
    """Runs commands side by side, as many as cores and memory allow; all must succeed."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    jobs = max(1, min(len(os.sched_getaffinity(0)), memory // _BYTES_PER_JOB))
    waiting, running = list(commands), []
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                running.append(_start(waiting.pop(0)))
            time.sleep(0.05)
            for process, log in list(running):
                if process.poll() is None:
                    continue
                running.remove((process, log))
                if process.returncode:
                    raise BuildError(_complaint(process, log))
    finally:
        for process, _ in running:
            process.kill()
            process.wait()


def _start(command: list[str]) -> tuple[subprocess.Popen, Path]:
    log = Path(f"{command[-1]}.log")
    with log.open("w") as stream:
        return subprocess.Popen(command, stdout=stream, stderr=subprocess.STDOUT), log


def _complaint(process: subprocess.Popen, log: Path) -> str:
    """The line of a compiler's output that says what is wrong."""
    lines = log.read_text(errors="replace").strip().splitlines()
    errors = [line for line in lines if "error" in line.lower()]
    return (errors or lines or [f"{process.args[0]} ended with {process.returncode}"])[0].strip()


def _toolkit(compiler: str) -> dict[str, str]:
    """The machine's nvcc, its version and its libraries, if it takes this C++ compiler."""
    lines = _tool("cuda_toolkit.py", "--host-compiler", compiler).splitlines()
    return dict(line.split("=", 1) for line in lines)


def _tool(name: str, *arguments: str) -> str:
    """What a helper of the build, from the bundle's own `tools`, prints."""
    command = [sys.executable, str(_KERNELS / "tools" / name), *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise BuildError((done.stderr or done.stdout).strip().splitlines()[-1])
    return done.stdout
