"""Disassembles a library with `cuobjdump`, which needs `nvdisasm` beside it."""

import importlib.util
import os
import shutil
import subprocess
from pathlib import Path

_PACKAGES = "nvidia-cuda-cuobjdump and nvidia-cuda-nvdisasm"


def disassemble(library: Path, architecture: str) -> str:
    """The text of `cuobjdump -sass` for one architecture, such as "sm_86".

    Raises ValueError where the file is missing or has no code for it, RuntimeError where the
    programs are missing or fail.
    """
    if not library.is_file():
        raise ValueError(f"library: {library} is no file; build the kernels, or name their library")
    tool = find_cuobjdump()
    path = os.pathsep.join((str(tool.parent), os.environ.get("PATH", "")))
    done = subprocess.run(
        [str(tool), "-sass", "-arch", architecture, str(library)],
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": path},
    )
    if done.returncode:
        reason = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise RuntimeError(f"cuobjdump: failed on {library.name} ({' '.join(reason)})")
    if "Function :" not in done.stdout:
        raise ValueError(
            f"library: {library.name} has no code for {architecture}; build it for that too"
        )
    return done.stdout


def find_cuobjdump() -> Path:
    """cuobjdump on PATH, in CUDA_HOME or /usr/local/cuda, or in this Python's packages."""
    if found := shutil.which("cuobjdump"):
        return Path(found)
    folders = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    places = [Path(folder) / "bin" / "cuobjdump" for folder in folders if folder]
    spec = importlib.util.find_spec("nvidia")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        places += sorted(Path(folder).glob("*/bin/cuobjdump"))
    for place in places:
        if place.is_file():
            return place
    raise RuntimeError(
        f"cuobjdump: not on PATH, in CUDA_HOME or in /usr/local/cuda; install {_PACKAGES}"
    )
