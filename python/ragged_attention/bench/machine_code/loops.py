"""The main loops of a kernel: which is which, and which warps take which path."""

from dataclasses import dataclass
from typing import NamedTuple

from ragged_attention.bench.machine_code import sass
from ragged_attention.bench.machine_code.kernels import ROW_BYTES, Kernel, Mode
from ragged_attention.bench.machine_code.pipes import FLOP_PER_HMMA, Clocks, clocks
from ragged_attention.bench.machine_code.sass import Function, Path
from ragged_attention.checks import HEAD_DIM

_COPY_BYTES = 32 * 16  # of one asynchronous copy of a warp


class Role(NamedTuple):
    """What some warps of a CTA do in one iteration."""

    warps: float
    path: Path


@dataclass(frozen=True)
class MainLoop:
    """One main loop of a kernel, for all warps of a CTA, once round."""

    kernel: Kernel
    mode: Mode
    name: str  # "sweep 1", "sweep 2", after the mode's name where there is one, or "rows"
    roles: tuple[Role, ...]
    clocks: Clocks

    @property
    def products(self) -> float:
        """Matrix products of 160 FLOP x 2 per logit in one iteration."""
        return _products(self.roles, self.mode)


class _Mix(NamedTuple):
    """What tells the main loops of one kernel apart, whatever their order."""

    products: float
    copies: bool  # a stage to come
    exponentials: bool
    stores: bool  # weights for the next sweep, in a loop without copies


def main_loops(function: Function, kernel: Kernel) -> list[MainLoop]:
    """The kernel's main loops, those of modes for fewer keys first.

    Weighed loops may be there twice: in code of their own for sequences whose steps are all
    weighed. The one that issues more instructions stands for both.

    Raises ValueError where the code has others than the kernel should have.
    """
    blocks = sass.blocks_of(function)
    found = [_assign(sass.paths(blocks, loop), kernel) for loop in sass.tensor_loops(blocks)]
    expected = _expected(kernel)
    loops, recognized = [], 0
    for mode, name, mix in expected:
        fitting = [roles for roles in found if _mix(roles, mode) == mix]
        most = 2 if mode.name == "weighed" else 1
        if not 1 <= len(fitting) <= most:
            must = "1 or 2" if most == 2 else "1"
            raise ValueError(
                f"library: {len(fitting)} main loops of a {kernel} look like {name}; {must} must"
            )
        recognized += len(fitting)
        twins = [MainLoop(kernel, mode, name, roles, clocks(list(roles))) for roles in fitting]
        loops.append(max(twins, key=lambda loop: loop.clocks.issue))
    if recognized != len(found):
        names = ", ".join(name for _, name, _ in expected)
        raise ValueError(
            f"library: {len(found)} main loops in a {kernel}, {len(found) - recognized} of them "
            f"unknown; it must have only {names}"
        )
    return loops


def _expected(kernel: Kernel) -> list[tuple[Mode, str, _Mix]]:
    """The main loops that a kernel has, by mode, name and mix."""
    if kernel.kind == "key":
        return [(kernel.modes[0], "rows", _Mix(4, copies=True, exponentials=True, stores=False))]
    expected = []
    for mode in kernel.modes:
        weighed, copies = mode.name == "weighed", mode.name not in ("weighed", "anew")
        first = _Mix(2, copies, exponentials=True, stores=weighed)
        second = _Mix(2 if weighed else 3, copies, exponentials=not weighed, stores=False)
        for name, mix in (("sweep 1", first), ("sweep 2", second)):
            expected.append((mode, f"{mode.name} {name}".strip(), mix))
    return expected


def _mix(roles: tuple[Role, ...], mode: Mode) -> _Mix:
    copies = any(sass.copies(role.path) for role in roles)
    return _Mix(
        round(_products(roles, mode), 6),
        copies,
        exponentials=any(role.path.count("MUFU") for role in roles),
        stores=not copies and any(role.path.opcodes["STS.128"] for role in roles),
    )


def _products(roles: tuple[Role, ...], mode: Mode) -> float:
    flop = FLOP_PER_HMMA * sum(role.warps * role.path.count("HMMA") for role in roles)
    return flop / (2 * HEAD_DIM * mode.blocks * mode.rows * mode.keys)


def _assign(paths: list[Path], kernel: Kernel) -> tuple[Role, ...]:
    """Which warps take which path: by MUFU, which one role of two has, and by who copies.

    As many warps copy as a stage needs, given the copies on a path; in a CTA of two roles they are
    warps of the second.
    """
    share = kernel.warps / kernel.roles
    stage_copies = 2 * kernel.streamed * ROW_BYTES / _COPY_BYTES
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
    return tuple(roles)


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
