"""Which kernel a function is, what its CTA looks like, and which warps take which path."""

import re
from dataclasses import dataclass
from pathlib import Path as File
from typing import NamedTuple

from ragged_attention.bench.machine_code import sass
from ragged_attention.bench.machine_code.pipes import FLOP_PER_HMMA, Clocks, clocks
from ragged_attention.bench.machine_code.sass import Function, Path
from ragged_attention.checks import HEAD_DIM

_ROW_BYTES = 2 * HEAD_DIM  # of one row of a 16-bit tensor
_COPY_BYTES = 32 * 16  # of one asynchronous copy of a warp
_DTYPES = {"half_t": "float16", "bfloat16_t": "bfloat16"}
_SCORES = ("bounded", "general")  # enum ScoreKind


class Tiles(NamedTuple):
    """One row of `cutlass_kernels/tiles.h`."""

    numbers: dict[str, int]  # its constants, and those outside of all structs
    shapes: dict[str, dict[str, int]]  # the key kernel's shapes: "LongKeys", "ShortKeys"
    parameters: tuple[str, ...]  # the names of a key shape's numbers


@dataclass(frozen=True, eq=False)  # compared and hashed as itself: it is a key of dicts
class Kernel:
    """A row or key kernel of one row of the tile table."""

    kind: str  # "row" or "key"
    dtype: str
    score: str  # "bounded" or "general"
    shape: dict[str, int]  # of the key kernel; empty for the row kernel
    warps: int  # of a CTA
    own: int  # rows that a CTA of the row kernel owns, or keys of the key kernel
    streamed: int  # keys or rows that pass in one iteration
    roles: int  # kinds of warps: 2 in the key kernel


class Role(NamedTuple):
    """What some warps of a CTA do in one iteration."""

    warps: float
    path: Path


@dataclass(frozen=True)
class MainLoop:
    """One main loop of a kernel, for all warps of a CTA, once round."""

    kernel: Kernel
    name: str  # "sweep 1", "sweep 2" or "rows"
    roles: tuple[Role, ...]
    clocks: Clocks

    @property
    def products(self) -> float:
        """Matrix products of 160 FLOP x 2 per logit in one iteration."""
        flop = FLOP_PER_HMMA * sum(r.warps * r.path.count("HMMA") for r in self.roles)
        return flop / (2 * HEAD_DIM * self.kernel.own * self.kernel.streamed)


def read_tiles(file: File, row: str) -> Tiles:
    """The row of the tile table in a struct such as `TilesSm86`.

    Raises ValueError where the file has no such row.
    """
    text = re.sub(r"//.*", "", file.read_text())
    structs = dict(re.findall(r"struct (\w+) \{(.*?)\n\};", text, re.DOTALL))
    shape = re.search(r"template <([^>]*)>\s*struct KeyShape\b", text)
    if row not in structs or not shape:
        raise ValueError(f"tiles: {file.name} has no {row} or no KeyShape; both are needed")
    outside = re.sub(r"struct \w+ \{.*?\n\};", "", text, flags=re.DOTALL)
    constants = re.findall(r"constexpr int (\w+) = (\d+);", outside + structs[row])
    parameters = tuple(re.findall(r"int (\w+?)_?\b", shape[1]))
    shapes: dict[str, dict[str, int]] = {}
    for name, value in re.findall(r"using (\w+) = ([^;]+);", structs[row]):
        values = [int(number) for number in re.findall(r"\d+", value)]
        shapes[name] = dict(zip(parameters, values, strict=True)) if values else shapes[value]
    return Tiles({name: int(value) for name, value in constants}, shapes, parameters)


def identify(mangled: str, tiles: Tiles, row: str) -> Kernel | None:
    """The kernel of that mangled name; None for any other function and for other rows.

    Raises ValueError where tiles.h lacks a constant that the kernel's CTA follows from.
    """
    kind = re.search(r"\d(row|key)_kernel", mangled)
    dtype = re.search(r"\d(half_t|bfloat16_t)", mangled)
    score = re.search(r"ScoreKindE(\d)", mangled)
    if not (kind and dtype and score) or row not in mangled:
        return None
    common = kind[1], _DTYPES[dtype[1]], _SCORES[int(score[1])]
    try:
        if kind[1] == "row":
            n = tiles.numbers
            warps, strips = n["kRowWarps"], n["kRowStrips"]
            return Kernel(*common, {}, warps, 16 * warps * strips, n["kRowKeys"], roles=1)
        numbers = re.search(r"KeyShapeI((?:Li\d+E)+)E", mangled)
        values = [int(v) for v in re.findall(r"\d+", numbers[1] if numbers else "")]
        shape = dict(zip(tiles.parameters, values, strict=True))
        pairs, streamed = shape["kPairs"], shape.get("kRows") or tiles.numbers["kKeyRows"]
        return Kernel(*common, shape, 2 * pairs, 16 * pairs * shape["kStrips"], streamed, roles=2)
    except (KeyError, ValueError) as error:
        raise ValueError(f"tiles: {error} for {kind[1]}_kernel; tiles.h must name it") from error


def main_loops(function: Function, kernel: Kernel) -> list[MainLoop]:
    """The kernel's main loops, in the order of its code; empty where it has no code here."""
    blocks = sass.blocks_of(function)
    loops = sass.tensor_loops(blocks)
    names = [f"sweep {i + 1}" for i in range(len(loops))] if kernel.kind == "row" else ["rows"]
    found = []
    for i, loop in enumerate(loops):
        roles = tuple(_assign(sass.paths(blocks, loop), kernel))
        name = names[i] if i < len(names) else f"loop {i + 1}"
        found.append(MainLoop(kernel, name, roles, clocks(list(roles))))
    return found


def _assign(paths: list[Path], kernel: Kernel) -> list[Role]:
    """Which warps take which path: by MUFU, which one role of two has, and by who copies.

    As many warps copy as a stage needs, given the copies on a path; in a CTA of two roles they are
    warps of the second.
    """
    share = kernel.warps / kernel.roles
    stage_copies = 2 * kernel.streamed * _ROW_BYTES / _COPY_BYTES
    chosen = [_best(paths, most_mufu=True), _best(paths, most_mufu=False)][: kernel.roles]
    roles = []
    for i, (idle, copying) in enumerate(chosen):
        copiers = 0.0
        if i == kernel.roles - 1 and copying is not None:
            copiers = min(share, stage_copies / sass.copies(copying))
        if copying is not None and copiers:
            roles.append(Role(copiers, copying))
        if share > copiers:
            roles.append(Role(share - copiers, idle or copying))
    return roles


def _best(paths: list[Path], most_mufu: bool) -> tuple[Path | None, Path | None]:
    """The longest path of a role without copies, and the longest with."""
    extreme = (max if most_mufu else min)(path.count("MUFU") for path in paths)
    role = [path for path in paths if path.count("MUFU") == extreme]
    most = max(path.count("HMMA") for path in role)
    role = [path for path in role if path.count("HMMA") == most]

    def longest(some: list[Path]) -> Path | None:
        return max(some, key=lambda path: path.opcodes.total(), default=None)

    return (
        longest([path for path in role if not sass.copies(path)]),
        longest([path for path in role if sass.copies(path)]),
    )
