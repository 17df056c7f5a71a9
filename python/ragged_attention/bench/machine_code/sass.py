"""Reads a disassembly: functions, their control flow, and the paths through their main loops."""

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

_FUNCTION = re.compile(r"^\s*Function : (\S+)", re.MULTILINE)
_INSTRUCTION = re.compile(r"^\s+/\*([0-9a-f]{4,})\*/\s+(.+?)\s*;")
_PREDICATE = re.compile(r"^@!?U?P\w+\s+")
_TARGET = re.compile(r"0x([0-9a-f]+)\s*\)?\s*$")
_COPY = re.compile(r"LDGSTS\b.*\.128(\.|$)")
_NEVER = ("@!PT ", "@!UPT ")  # issued, but does nothing


class Instruction(NamedTuple):
    """One instruction."""

    address: int
    opcode: str  # with its modifiers: "LDSM.16.M88.4"; "NOP" where its predicate is never true
    text: str  # without the semicolon

    @property
    def name(self) -> str:
        """The opcode without modifiers."""
        return self.opcode.split(".")[0]


@dataclass(frozen=True)
class Function:
    """One kernel's code for one architecture."""

    name: str  # mangled
    instructions: tuple[Instruction, ...]


@dataclass
class Block:
    """Instructions that run one after the other, and the blocks that may follow."""

    instructions: list[Instruction]
    successors: list[int] = field(default_factory=list)  # indices of blocks


@dataclass(frozen=True)
class Loop:
    """A natural loop: blocks by index, the header first reached."""

    header: int
    blocks: frozenset[int]
    latches: frozenset[int]  # blocks that jump back to the header


class Path(NamedTuple):
    """One way through a loop's body."""

    opcodes: Counter  # by opcode with modifiers

    def count(self, *names: str) -> int:
        """Instructions of these names, whatever their modifiers."""
        return sum(n for opcode, n in self.opcodes.items() if opcode.split(".")[0] in names)


def parse(text: str) -> list[Function]:
    """All functions of a `cuobjdump -sass` of one architecture."""
    parts = _FUNCTION.split(text)
    return [
        Function(name, tuple(_instructions(body)))
        for name, body in zip(parts[1::2], parts[2::2], strict=True)
    ]


def _instructions(body: str) -> list[Instruction]:
    found = []
    for line in body.splitlines():
        if matched := _INSTRUCTION.match(line):
            text = matched[2]
            never = text.startswith(_NEVER)
            opcode = "NOP" if never else _PREDICATE.sub("", text).split()[0]
            found.append(Instruction(int(matched[1], 16), opcode, text))
    return found


def blocks_of(function: Function) -> list[Block]:
    """The control-flow graph; block 0 is the entry."""
    code = function.instructions
    starts = {code[0].address} if code else set()
    for i, instruction in enumerate(code):
        if instruction.name in ("BRA", "CALL", "EXIT", "RET"):
            starts |= {t for t in (_target(instruction),) if t is not None}
            if i + 1 < len(code):
                starts.add(code[i + 1].address)
    blocks, index = [], {}
    for instruction in code:
        if instruction.address in starts:
            index[instruction.address] = len(blocks)
            blocks.append(Block([]))
        blocks[-1].instructions.append(instruction)
    for i, block in enumerate(blocks):
        falls, target = _flow(block.instructions[-1])
        if target in index:
            block.successors.append(index[target])
        if falls and i + 1 < len(blocks):
            block.successors.append(i + 1)
    return blocks


def _target(instruction: Instruction) -> int | None:
    matched = _TARGET.search(instruction.text)
    return int(matched[1], 16) if matched else None


def _flow(last: Instruction) -> tuple[bool, int | None]:
    """Whether the next instruction may follow a block, and where else its end may lead."""
    guarded = last.text.startswith("@")
    if last.name in ("EXIT", "RET"):
        return guarded, None
    if last.name == "CALL":
        return True, _target(last)
    if last.name != "BRA":
        return True, None
    if ".DIV" in last.opcode:  # leaves where lanes have parted, which they do not in these loops
        return True, None
    if ".CONV" in last.opcode:  # the other way round
        return False, _target(last)
    conditional = guarded or re.search(r"\bU?P\d", last.text) is not None
    return conditional, _target(last)


def tensor_loops(blocks: list[Block]) -> list[Loop]:
    """The innermost loops that hold tensor-core instructions, in the order of their code."""
    loops = [loop for loop in _natural_loops(blocks) if _has_tensor(blocks, loop)]
    inner = [a for a in loops if not any(b.blocks < a.blocks for b in loops)]
    return sorted(inner, key=lambda loop: loop.header)


def _has_tensor(blocks: list[Block], loop: Loop) -> bool:
    return any(i.name == "HMMA" for b in loop.blocks for i in blocks[b].instructions)


def _natural_loops(blocks: list[Block]) -> list[Loop]:
    dominators = _dominators(blocks)
    latches: dict[int, set[int]] = {}
    for b, dominating in dominators.items():
        for successor in blocks[b].successors:
            if successor in dominating:
                latches.setdefault(successor, set()).add(b)
    predecessors = _predecessors(blocks, dominators)
    loops = []
    for header, ends in latches.items():
        body, todo = {header}, list(ends)
        while todo:
            b = todo.pop()
            if b not in body:
                body.add(b)
                todo += predecessors[b]
        loops.append(Loop(header, frozenset(body), frozenset(ends)))
    return loops


def _predecessors(blocks: list[Block], reachable: dict[int, set[int]]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {b: [] for b in reachable}
    for b in reachable:
        for successor in blocks[b].successors:
            found[successor].append(b)
    return found


def _dominators(blocks: list[Block]) -> dict[int, set[int]]:
    """For each block that can be reached: the blocks that every way to it passes, itself too."""
    order, todo = [], [0] if blocks else []
    while todo:
        b = todo.pop()
        if b not in order:
            order.append(b)
            todo += blocks[b].successors
    found = {b: set(order) for b in order}
    if order:
        found[0] = {0}
    predecessors = _predecessors(blocks, found)
    changed = True
    while changed:
        changed = False
        for b in order[1:]:
            new = set.intersection(*(found[p] for p in predecessors[b])) | {b}
            if new != found[b]:
                found[b], changed = new, True
    return found


def paths(blocks: list[Block], loop: Loop) -> list[Path]:
    """Ways through the loop's body, once round; inner loops are passed through once.

    Of the ways that agree in tensor, MUFU and 16-byte copy instructions only the longest is kept:
    a bound on what a warp issues.
    """
    back = _dominators(blocks)
    best: dict[int, dict[tuple[int, ...], Counter]] = {b: {} for b in loop.blocks}
    for b in _in_order(blocks, loop, back):
        own = Counter(i.opcode for i in blocks[b].instructions)
        arriving = list(best[b].values()) or [Counter()]
        best[b] = {}
        for before in arriving:
            _keep_longest(best[b], before + own)
        for successor in blocks[b].successors:
            if successor in loop.blocks and successor not in back[b]:
                for opcodes in best[b].values():
                    _keep_longest(best[successor], opcodes)
    ends: dict[tuple[int, ...], Counter] = {}
    for latch in loop.latches:
        for opcodes in best[latch].values():
            _keep_longest(ends, opcodes)
    return [Path(opcodes) for opcodes in ends.values()]


def _keep_longest(kept: dict[tuple[int, ...], Counter], opcodes: Counter) -> None:
    path = Path(opcodes)
    key = path.count("HMMA"), path.count("MUFU"), copies(path)
    if key not in kept or opcodes.total() > kept[key].total():
        kept[key] = opcodes


def copies(path: Path) -> int:
    """16-byte asynchronous copies."""
    return sum(n for opcode, n in path.opcodes.items() if _COPY.match(opcode))


def _in_order(blocks: list[Block], loop: Loop, dominators: dict[int, set[int]]) -> list[int]:
    """The loop's blocks so that each comes after all that lead to it, back edges left out."""
    order: list[int] = []
    seen: set[int] = set()

    def visit(b: int) -> None:
        seen.add(b)
        for successor in blocks[b].successors:
            forward = successor in loop.blocks and successor not in dominators[b]
            if forward and successor not in seen:
                visit(successor)
        order.append(b)

    visit(loop.header)
    return order[::-1]
