"""Rules on what is not Python: C++ and CUDA sources, compiled modules, data files."""

import re
from collections.abc import Iterator
from pathlib import Path

from vjp_task.guard.rules import Finding

CPP_ENDINGS = frozenset({".cu", ".cuh", ".cpp", ".cc", ".cxx", ".c", ".h", ".hpp", ".inl", ".ipp"})

_COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/|("(?:\\.|[^"\\\n])*")', re.DOTALL)
_FUSED = re.compile(
    r"scaled_dot_product\w*|_flash_attention_(forward|backward)\w*|_efficient_attention\w*"
    r"|_?cudnn_attention\w*|pytorch_flash|fmha_cutlass\w*|cudnnMultiHeadAttn\w*"
    r"|\bflash(_fwd|_bwd|_api)[\w.]*\.h\b|flash_attn_\w+|run_mha_fwd\w*"
)
_TIMER = (
    r"cudaEvent(Record|ElapsedTime|Synchronize|Query|Create\w*)|cudaDeviceSynchronize"
    r"|cudaStreamSynchronize|clock_gettime|gettimeofday"
)
_PATTERNS = (
    ("fused-attention", _FUSED),
    (
        "patched-timer",
        re.compile(
            rf"(cudaError_t|CUresult|int)\s+(CUDARTAPI\s+)?({_TIMER})\s*\([^;{{]*\)\s*\{{|RTLD_NEXT"
        ),
    ),
    (
        "outside-files",
        re.compile(r"\b(std::)?(i?fstream|ifstream)\s+\w+\s*[({]|\bfopen\s*\(|\bopenat?\s*\("),
    ),
    (
        "background-work",
        re.compile(
            r"\bfork\s*\(\s*\)|\bv?fork\s*\(|\bpthread_create\s*\(|\bstd::(j?thread|async)\b"
            r"|\bpopen\s*\(|\bsystem\s*\(|\batexit\s*\("
        ),
    ),
)
_BINARY = (
    rb"scaled_dot_product", rb"_flash_attention_forward", rb"_efficient_attention",
    rb"_cudnn_attention", rb"pytorch_flash", rb"fmha_cutlass", rb"flash_attn_", rb"flash_fwd",
    rb"flashinfer", rb"xformers",
)  # fmt: skip


def scan_cpp(file: str, source: str) -> Iterator[Finding]:
    """Breaches in C++ or CUDA source; comments are left out, strings are not."""
    code = _COMMENT.sub(_blank, source)
    for rule, pattern in _PATTERNS:
        for match in pattern.finditer(code):
            line = code.count("\n", 0, match.start()) + 1
            yield Finding(file, line, rule, f"uses {' '.join(match[0].split())[:60]!r}")


def scan_binary(file: str, content: bytes) -> Iterator[Finding]:
    """Breaches in a compiled module: names of fused attention; what is no ELF file is refused."""
    if not content.startswith(b"\x7fELF"):
        yield Finding(file, 0, "hidden-code", "is no ELF file, though it is named like a module")
        return
    for name in _BINARY:
        at = content.find(name)
        if at >= 0:
            yield Finding(file, at, "fused-attention", f"holds the name {name.decode()}")


def is_text(path: Path) -> bool:
    """Whether a file is UTF-8 text without NUL."""
    try:
        return "\0" not in path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return False


def _blank(match: re.Match[str]) -> str:
    """A string as it is; of a comment only its line ends."""
    return match[0] if match[1] else "\n" * match[0].count("\n") or " "
