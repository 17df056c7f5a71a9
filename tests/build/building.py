"""Runs CMake, programs and compiled modules for the tests of the build."""

import json
import os
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
COMMIT = "0123456789"  # recorded in the small builds
# Programs that were installed with this Python, before others.
ENVIRONMENT = {
    **os.environ,
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
}


@dataclass(frozen=True)
class Build:
    """A build folder of the small library."""

    folder: Path
    kernels: Path  # its sources, a copy that a test may change

    @property
    def module(self) -> Path:
        return self.folder / f"module/_native{sysconfig.get_config_var('EXT_SUFFIX')}"

    @property
    def archive(self) -> Path:
        return self.folder / "libragged_attention_kernels.a"


def run(*command: object, check: bool = True) -> str:
    """Runs a command and returns all that it printed; fails the test where it must not fail."""
    done = subprocess.run(
        [str(part) for part in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=ENVIRONMENT,
    )
    assert (done.returncode == 0) == check, done.stdout
    return done.stdout


def configure(folder: Path, *options: str, python: object = sys.executable, check: bool = True):
    """Configures the repository in `folder`; returns what CMake printed, line breaks undone."""
    output = run(
        *("cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", f"-DPython_EXECUTABLE={python}"),
        f"-DRAGGED_ATTENTION_MODULE_DIR={folder}/module",
        *options,
        check=check,
    )
    return " ".join(output.split())


def ask(module: Path, expression: str, check: bool = True) -> str:
    """Imports a compiled `_native` in a process of its own; returns what an expression prints."""
    program = (
        "import importlib.util, json, sys\n"
        f"spec = importlib.util.spec_from_file_location('_native', {str(module)!r})\n"
        "native = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(native)\n"
        f"print(json.dumps({expression}))\n"
    )
    return run(sys.executable, "-I", "-c", program, check=check)


def build_info(module: Path) -> dict[str, object]:
    """Returns build_info of a compiled `_native`."""
    return json.loads(ask(module, "native.build_info()"))
