"""What warp instructions cost on an sm_86 multiprocessor: clocks that each pipe is busy.

Rates of one multiprocessor: 1,024 FLOP/clk of mma.sync m16n8k16, 128 B/clk of shared memory,
16 MUFU lanes, 128 fp32 and 64 integer lanes a clock, and one instruction a clock from each of its
four schedulers. fp32 and integer share half of the fp32 lanes.
"""

import re
from typing import NamedTuple

from ragged_attention.bench.machine_code.sass import Path

TENSOR = ("HMMA",)
MUFU = ("MUFU", "I2F", "F2I", "F2F", "POPC", "FLO")
FP32 = ("FADD", "FMUL", "FFMA", "HADD2", "HMUL2", "HFMA2")
INTEGER = (
    *("IADD3", "IMAD", "ISETP", "IMNMX", "IABS", "LEA", "LOP3", "PLOP3", "PRMT", "SEL", "SHF"),
    *("FSEL", "FSETP", "FMNMX", "F2FP", "I2FP", "MOV", "P2R", "R2P", "CS2R", "VOTE"),
)
SHARED = ("LDSM", "LDS", "STS", "LDGSTS", "ATOMS", "SHFL", "ARRIVES")

FLOP_PER_HMMA = 2 * 16 * 8 * 16
_TENSOR_CLOCKS = FLOP_PER_HMMA / 1024
_SHARED_BYTES = 128  # a clock
_MUFU_CLOCKS = 32 / 16
_FP32_CLOCKS = 32 / 128
_INTEGER_CLOCKS = 32 / 64
_ISSUE_CLOCKS = 1 / 4

_LANE_BYTES = re.compile(r"\.(32|64|128)(?=\.|$)")


class Clocks(NamedTuple):
    """Clocks that instructions keep the pipes of one multiprocessor busy."""

    tensor: float
    shared: float
    mufu: float
    arithmetic: float  # fp32 and integer
    issue: float  # of all instructions
    other_issue: float  # of all but the tensor instructions

    @property
    def slowest(self) -> str:
        """The pipe that is busy longest."""
        pipes = {name: getattr(self, name) for name in self._fields if name != "other_issue"}
        return max(pipes, key=pipes.__getitem__)

    @property
    def bound(self) -> float:
        """Part of the tensor peak where the pipes overlap perfectly: tensor over the slowest."""
        return self.tensor / getattr(self, self.slowest)

    @property
    def strict(self) -> float:
        """The part where a scheduler's other instructions never overlap with its tensor core."""
        return self.tensor / max(self.tensor + self.other_issue, getattr(self, self.slowest))


def clocks(warps: list[tuple[float, Path]]) -> Clocks:
    """The clocks of warps that each take a path once: pairs of how many, and which."""

    def total(cost) -> float:
        return sum(count * cost(path) for count, path in warps)

    fp32 = total(lambda path: path.count(*FP32))
    integer = total(lambda path: path.count(*INTEGER))
    issued = total(lambda path: path.opcodes.total())
    tensor = total(lambda path: path.count(*TENSOR))
    return Clocks(
        tensor=_TENSOR_CLOCKS * tensor,
        shared=total(shared_bytes) / _SHARED_BYTES,
        mufu=_MUFU_CLOCKS * total(lambda path: path.count(*MUFU)),
        arithmetic=max(_INTEGER_CLOCKS * integer, _FP32_CLOCKS * (fp32 + integer)),
        issue=_ISSUE_CLOCKS * issued,
        other_issue=_ISSUE_CLOCKS * (issued - tensor),
    )


def shared_bytes(path: Path) -> int:
    """Bytes that a warp moves through shared memory, every access at its full width."""
    found = 0
    for opcode, count in path.opcodes.items():
        if opcode.split(".")[0] in SHARED:
            found += count * _access_bytes(opcode)
    return found


def _access_bytes(opcode: str) -> int:
    """Of one warp instruction; an ldmatrix reads 128 bytes a matrix."""
    name = opcode.split(".")[0]
    if name == "LDSM":
        return 128 * int(opcode.rsplit(".", 1)[-1]) if opcode[-2:] in (".4", ".2") else 128
    widths = [int(bits) for bits in _LANE_BYTES.findall(opcode)]
    return 32 * max(widths, default=32) // 8
