"""Draws a sealed panel from the family and times the frozen baseline on it, on this card.

Other lengths, steps, pads and seeds than the visible panel's, from a seed that only its owner
knows: any text in a file. The manifest is for the judge's eyes; no solver sees it.
"""

import argparse
import contextlib
import datetime
import hashlib
import sys
from pathlib import Path
from typing import Any

import torch
from ragged_attention.bench.case import CaseSpec

from vjp_task import machine, paths
from vjp_task.draw import draw_panel
from vjp_task.family import load_family
from vjp_task.panel import load_visible_panel, scaled
from vjp_task.sealed import manifest, options, panel_run, process, scratch
from vjp_task.sealed.manifest import Manifest, SealedCase
from vjp_task.selfcheck import choose_device
from vjp_task.solver import file_digest

HELP = "draw a sealed panel and time the baseline on it"

SAMPLES = 11  # of the baseline, per case
MEASURED = 1  # of them; the baseline has no reason to forge one

_LEAST_SEED_BYTES = 8
_CARD_FIELDS = ("card", "driver", "sm_clock", "max_sm_clock", "memory_clock")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument(
        "--seed-file",
        type=Path,
        required=True,
        metavar="F",
        help=f"a file whose bytes (at least {_LEAST_SEED_BYTES}) are the panel's seed; keep it",
    )
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="where manifest.json goes"
    )
    marks = "speedup for the reward: X for all cases, NAME=X for one"
    parser.add_argument(
        "--human-reference", nargs="+", metavar="X", help=f"S, the human reference's {marks}"
    )
    parser.add_argument(
        "--upper-proxy", nargs="+", metavar="X", help=f"U, the upper proxy's {marks}"
    )
    options.add_device(parser)
    options.add_scale(parser)
    options.add_limits(parser)


def run(arguments: argparse.Namespace) -> int:
    """Seals a panel: 0 if it did, 1 if the baseline failed a case, 2 for a wrong call."""
    try:
        device = choose_device(arguments.device)
        seed = read_seed(arguments.seed_file)
        if (arguments.out / manifest.FILE_NAME).exists():
            raise ValueError(f"out: {arguments.out} holds a manifest; another folder is needed")
        cases = draw_sealed(seed, options.scale_of(arguments, device))
        names = [case.name for case in cases]
        reference = manifest.read_marks(arguments.human_reference, names, "human-reference")
        upper = manifest.read_marks(arguments.upper_proxy, names, "upper-proxy")
        manifest.check_pairs(reference, upper)
        limits = options.limits_of(arguments)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    try:
        sealed = time_baseline(cases, device, limits, reference, upper)
    except RuntimeError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    result = Manifest(
        created=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        machine=machine.describe(device),
        scale=options.scale_of(arguments, device),
        seed_sha256=hashlib.sha256(arguments.seed_file.read_bytes()).hexdigest(),
        baseline_sha256=file_digest(paths.baseline_solver()),
        cases=tuple(sealed),
    )
    file = result.write(arguments.out)
    for case in sealed:
        figures = case.baseline
        print(f"{case.spec.name}: {figures['median_ms']:.3f} ms, spread {figures['spread']:.1%}")
    print(f"{file}: {len(sealed)} cases on {result.machine['card']}")
    print(f"SHA-256 {result.to_json()['sha256']}")
    return 0


def read_seed(file: Path) -> int:
    """The panel's seed: a number that follows from all bytes of the file.

    Raises ValueError for a file too short to be a secret, OSError where it cannot be read.
    """
    content = file.read_bytes()
    if len(content.strip()) < _LEAST_SEED_BYTES:
        raise ValueError(
            f"seed-file: {len(content.strip())} bytes; at least {_LEAST_SEED_BYTES} are needed"
        )
    return int.from_bytes(hashlib.sha256(content).digest()[:8], "big")


def draw_sealed(seed: int, scale: float) -> list[CaseSpec]:
    """One case of every stratum, scaled. Raises ValueError where one equals a visible case."""
    cases = draw_panel(load_family(), seed).cases
    refuse_visible(cases, load_visible_panel().cases)
    return [scaled(case, scale) for case in cases]


def refuse_visible(cases: tuple[CaseSpec, ...], visible: tuple[CaseSpec, ...]) -> None:
    """Raises ValueError where a case has a visible case's seed, or its lengths."""
    for case in cases:
        for known in visible:
            same_seed = case.seed == known.seed
            same_lengths = (case.q_lengths, case.k_lengths) == (known.q_lengths, known.k_lengths)
            if same_seed or same_lengths:
                what = "seed" if same_seed else "lengths"
                raise ValueError(
                    f"seed-file: {case.name} gets the {what} of the visible {known.name}; "
                    "another seed is needed"
                )


def time_baseline(
    cases: list[CaseSpec],
    device: torch.device,
    limits: process.Limits,
    reference: dict[str, float],
    upper: dict[str, float],
) -> list[SealedCase]:
    """Checks and times the baseline as the judge does a solver.

    Raises RuntimeError where it fails a case.
    """
    sealed: list[SealedCase] = []
    with process.scratch_folder() as name:
        root = Path(name)
        scratch.copy_submission(paths.baseline_solver().parent, root / "submission" / "solver")
        run = panel_run.run_cases(cases, root, device, limits, SAMPLES, MEASURED)
        with contextlib.closing(run) as outcomes:
            for outcome in outcomes:
                spec = outcome.spec
                if not outcome.passed:
                    log = f"\n{outcome.log}" if outcome.log else ""
                    raise RuntimeError(
                        f"baseline: {spec.name} failed: {outcome.what}: {outcome.reason}{log}"
                    )
                figures = {**outcome.timing, **_card(device)}
                marks = reference.get(spec.name), upper.get(spec.name)
                sealed.append(SealedCase(spec, figures, outcome.facts, *marks))
    return sealed


def _card(device: torch.device) -> dict[str, Any]:
    facts = machine.describe(device)
    return {name: facts[name] for name in _CARD_FIELDS}
