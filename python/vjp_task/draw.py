"""Draws case specifications from the family: uniform lengths, steps and pads, from a seed."""

import argparse
import hashlib
import random

from ragged_attention.bench.case import VIEWS, CaseSpec, View

from vjp_task.family import Family, Stratum, load_family
from vjp_task.panel import Panel

HELP = "print a panel drawn from the family"

_SEED_BITS = 53  # exact in every JSON reader


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument(
        "--seed", type=int, required=True, help="the panel's seed: same seed, same panel"
    )


def run(arguments: argparse.Namespace) -> int:
    """Prints the panel as JSON."""
    print(draw_panel(load_family(), arguments.seed).to_text(), end="")
    return 0


def draw_case(family: Family, stratum: Stratum, seed: int) -> CaseSpec:
    """One case of the stratum; the same seed always gives the same case."""
    rng = random.Random(seed)

    def lengths(bounds: tuple[int, int]) -> tuple[int, ...]:
        return tuple(rng.randint(*bounds) for _ in range(stratum.batch))

    return CaseSpec(
        name=stratum.name,
        dtype=stratum.dtype,
        heads=stratum.heads,
        kv_heads=family.kv_heads,
        head_dim=family.head_dim,
        q_lengths=lengths(stratum.q_length),
        k_lengths=lengths(stratum.k_length),
        views={name: View(rng.choice(family.steps), rng.choice(family.pads)) for name in VIEWS},
        causal=family.causal,
        window_left=family.window_left,
        window_right=family.window_right,
        softcap=family.softcap,
        scale_multiplier=family.scale_multiplier,
        slope_factor=family.slope_factor,
        seed=seed,
    )


def draw_panel(family: Family, seed: int) -> Panel:
    """One case of every stratum, each with a seed of its own that follows from `seed`."""
    cases = (draw_case(family, row, _case_seed(seed, row.name)) for row in family.strata)
    return Panel(seed, tuple(cases))


def _case_seed(panel_seed: int, name: str) -> int:
    digest = hashlib.sha256(f"{panel_seed}/{name}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> (64 - _SEED_BITS)
