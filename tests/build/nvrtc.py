"""Compiles device code with NVRTC, the CUDA compiler as a library; needs no GPU and no driver.

As a program it compiles the kernels of some headers and prints a JSON object: what NVRTC and ptxas
said, and the size of the machine code. `nvrtc_headers` stands for the headers of the C++ standard
library, which NVRTC lacks.
"""

import argparse
import ctypes
import json
import sys
from pathlib import Path
from typing import Any

SHIMS = Path(__file__).resolve().parent / "nvrtc_headers"


class Nvrtc:
    """The few functions of libnvrtc that a compilation needs."""

    def __init__(self, library: Path):
        self._library = ctypes.CDLL(str(library))

    def version(self) -> tuple[int, int]:
        """The CUDA release that the library belongs to."""
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._call("nvrtcVersion", ctypes.byref(major), ctypes.byref(minor))
        return major.value, minor.value

    def compile(self, source: str, names: list[str], options: list[str]) -> tuple[str, int]:
        """What the compiler said, and the bytes of machine code; 0 bytes where it failed.

        `names` are kernels by their C++ names, instantiated where they are templates.
        """
        program, size = ctypes.c_void_p(), ctypes.c_size_t()
        text = source.encode()
        self._call("nvrtcCreateProgram", ctypes.byref(program), text, b"kernels.cu", 0, None, None)
        for name in names:
            self._call("nvrtcAddNameExpression", program, name.encode())
        words = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        failed = self._library.nvrtcCompileProgram(program, len(options), words)
        self._call("nvrtcGetProgramLogSize", program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        self._call("nvrtcGetProgramLog", program, log)
        if not failed:
            self._call("nvrtcGetCUBINSize", program, ctypes.byref(size))
        return log.value.decode(), 0 if failed else size.value

    def _call(self, function: str, *arguments: Any) -> None:
        if status := getattr(self._library, function)(*arguments):
            raise RuntimeError(f"{function}: status {status}; needed is 0")


def main() -> None:
    """Compiles what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", type=Path, required=True, help="libnvrtc.so")
    parser.add_argument("--include", type=Path, nargs="+", required=True, help="header folders")
    parser.add_argument("--architecture", required=True, help="what machine code is for: sm_86")
    parser.add_argument("--header", nargs="+", required=True, help="what defines the kernels")
    parser.add_argument("--using", nargs="+", default=[], help="namespaces of the names")
    parser.add_argument("--kernel", nargs="+", required=True, help="kernels to instantiate")
    arguments = parser.parse_args()
    nvrtc = Nvrtc(arguments.library)
    lines = [f'#include "{header}"' for header in arguments.header]
    lines += [f"using namespace {name};" for name in arguments.using]
    log, code = nvrtc.compile(
        "\n".join(lines) + "\n",
        arguments.kernel,
        [
            *(f"-arch={arguments.architecture}", "-std=c++17", "-default-device"),
            *("--ptxas-options=-v", "-w"),
            *(f"-I{folder}" for folder in (SHIMS, *arguments.include)),
        ],
    )
    json.dump({"release": nvrtc.version(), "log": log, "bytes": code}, sys.stdout)


if __name__ == "__main__":
    main()
