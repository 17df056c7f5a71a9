"""Which kernel a function is, what its CTA looks like, and how it takes a sequence."""

import math
import re
from dataclasses import dataclass
from pathlib import Path as File
from typing import NamedTuple

from ragged_attention.checks import HEAD_DIM

_DTYPES = {"half_t": "float16", "bfloat16_t": "bfloat16"}
_SCORES = ("bounded", "general")  # enum ScoreKind
STEP = 16  # keys that pass at once in the resident row kernel, and rows of a warp
ROW_BYTES = 2 * HEAD_DIM  # of one row of a 16-bit tensor
_LANE_BYTES = 16  # of one lane's weights of a step


class Tiles(NamedTuple):
    """One row of `cutlass_kernels/tiles.h`."""

    numbers: dict[str, int]  # its constants, and those outside of all structs
    shapes: dict[str, dict[str, int]]  # the key kernel's shapes: "LongKeys", "ShortKeys"
    parameters: tuple[str, ...]  # the names of a key shape's numbers

    def number(self, name: str) -> int:
        """A constant. Raises ValueError where there is none of that name."""
        if name not in self.numbers:
            raise ValueError(f"tiles: no {name}; tiles.h must have it")
        return self.numbers[name]


class Mode(NamedTuple):
    """One way of a kernel to take a sequence, or some of its steps.

    Ends of sequences within a block are multiplied as if they filled it.
    """

    name: str  # "weighed", "anew" or "streamed"; empty in a kernel of one mode
    most_keys: float  # of a sequence that it is for
    rows: int  # of a block
    keys: int  # of a block
    blocks: int  # that a CTA multiplies in one iteration


@dataclass(frozen=True, eq=False)  # compared and hashed as itself: it is a key of dicts
class Kernel:
    """A row or key kernel of one row of the tile table."""

    kind: str  # "row", "resident_row" or "key"
    dtype: str
    score: str  # "bounded" or "general"
    shape: dict[str, int]  # of the key kernel; empty for the others
    warps: int  # of a CTA
    own: int  # rows that a CTA of a row kernel owns, or keys of the key kernel
    streamed: int  # keys or rows of one stage of the ring
    roles: int  # kinds of warps: 2 in the key kernel
    modes: tuple[Mode, ...]  # those for fewer keys first

    def __str__(self) -> str:
        return f"{self.dtype} {self.score} {self.kind}_kernel"


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


def weighed_steps(steps: int, tiles: Tiles) -> int:
    """Of a resident sequence's steps, those whose weights stay in shared memory, beside the keys.

    That is with the bounded score; with the general score there are none. Raises ValueError where
    tiles.h lacks a constant.
    """
    left = tiles.number("kResidentBytes") - steps * 2 * STEP * ROW_BYTES  # K and V
    fitting = left // (tiles.number("kResidentWarps") * 32 * _LANE_BYTES)
    return max(0, min(steps, fitting))


def identify(mangled: str, tiles: Tiles, row: str) -> Kernel | None:
    """The kernel of that mangled name; None for any other function and for other rows.

    Raises ValueError where tiles.h lacks a constant that the kernel's CTA follows from.
    """
    kind = re.search(r"\d(row|resident_row|key)_kernel", mangled)
    dtype = re.search(r"\d(half_t|bfloat16_t)", mangled)
    score = re.search(r"ScoreKindE(\d)", mangled)
    if not (kind and dtype and score) or row not in mangled:
        return None
    common = kind[1], _DTYPES[dtype[1]], _SCORES[int(score[1])]
    if kind[1] == "key":
        return _key_kernel(common, mangled, tiles)
    rows = 16 * tiles.number("kRowWarps") * tiles.number("kRowStrips")
    keys = tiles.number("kRowKeys")
    if kind[1] == "row":
        modes = (Mode("", math.inf, rows, keys, blocks=1),)
        return Kernel(*common, {}, tiles.number("kRowWarps"), rows, keys, 1, modes)
    warps = tiles.number("kResidentWarps")
    modes = (
        Mode("weighed", tiles.number("kResidentKeys"), STEP, STEP, warps),
        Mode("anew", tiles.number("kResidentKeys"), STEP, STEP, warps),
        Mode("streamed", math.inf, rows, keys, blocks=1),
    )
    if common[2] == "general":  # whose weights may still change when they are made
        modes = modes[1:]
    return Kernel(*common, {}, warps, rows, keys, 1, modes)


def _key_kernel(common: tuple[str, str, str], mangled: str, tiles: Tiles) -> Kernel:
    numbers = re.search(r"KeyShapeI((?:Li\d+E)+)E", mangled)
    values = [int(v) for v in re.findall(r"\d+", numbers[1] if numbers else "")]
    rows = tiles.number("kKeyRows")
    try:
        shape = dict(zip(tiles.parameters, values, strict=True))
        pairs, keys = shape["kPairs"], 16 * shape["kStrips"]  # a pair without keys skips products
    except (KeyError, ValueError) as error:
        raise ValueError(f"tiles: {error} for key_kernel; tiles.h must name it") from error
    modes = (Mode("", math.inf, rows, keys, blocks=pairs),)
    return Kernel(*common, shape, 2 * pairs, keys * pairs, rows, 2, modes)
