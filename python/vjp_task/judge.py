"""Judges a solver on a sealed panel: checked, timed and scored without ever seeing it.

The folder is copied, scanned, and run in a fresh process per case that gets nothing but tensors.
A case whose outputs are wrong, that crashes, hangs or breaks a rule has failed, and one failed case
makes the score 0. Case speedup: the sealed baseline's median over the solver's.
"""

import argparse
import contextlib
import json
import math
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from ragged_attention.bench.machine import card_name
from rich.table import Table

from vjp_task import machine, report
from vjp_task.guard.rules import Finding
from vjp_task.guard.scan import scan
from vjp_task.panel import load_visible_panel
from vjp_task.reward import reward
from vjp_task.sealed import options, panel_run, process, scratch
from vjp_task.sealed.conversation import Outcome
from vjp_task.sealed.manifest import Manifest, SealedCase, check_facts
from vjp_task.selfcheck import choose_device
from vjp_task.timing import MIN_SAMPLES

HELP = "judge a solver on a sealed panel"


@dataclass(frozen=True)
class CaseScore:
    """One judged case."""

    sealed: SealedCase
    outcome: Outcome

    @property
    def speedup(self) -> float:
        """Baseline's median over the solver's; 0 for a failed case."""
        if not self.outcome.passed:
            return 0.0
        return self.sealed.baseline["median_ms"] / self.outcome.timing["median_ms"]

    @property
    def reward(self) -> float | None:
        """By the formula; None where the manifest has no marks for it."""
        if self.sealed.reference is None or self.sealed.upper is None:
            return None
        return reward(self.speedup, self.sealed.reference, self.sealed.upper)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument(
        "--manifest", type=Path, required=True, metavar="M", help="manifest.json, as seal wrote it"
    )
    parser.add_argument(
        "--solver", type=Path, required=True, metavar="DIR",
        help="the folder with solver.py and all it needs beside it",
    )  # fmt: skip
    parser.add_argument(
        "--json", nargs="?", const="-", metavar="PATH",
        help="write all figures there; without PATH, print them instead of the table",
    )  # fmt: skip
    parser.add_argument(
        "--first-failure", action="store_true", help="stop at the first failed case: the score is 0"
    )
    options.add_device(parser)
    options.add_limits(parser)


def run(arguments: argparse.Namespace) -> int:
    """Judges: 0 if all cases passed, 1 if one failed or a rule is broken, 2 for a wrong call."""
    try:
        device = choose_device(arguments.device)
        manifest = Manifest.read(arguments.manifest)
        check_card(manifest, device)
        limits = options.limits_of(arguments)
        with process.scratch_folder() as name:
            root = Path(name)
            scratch.copy_submission(arguments.solver, root / "submission" / "solver")
            findings = scan(root / "submission" / "solver", known_cases(manifest))
            scores = (
                [refused(case, findings[0]) for case in manifest.cases]
                if findings
                else judge_cases(manifest, root, device, limits, arguments.first_failure)
            )
            digest = scratch.tree_digest(root / "submission" / "solver")
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    figures = summary(manifest, scores, findings, digest, device)
    if arguments.json not in (None, "-"):
        path = Path(arguments.json)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(figures, indent=2, allow_nan=False) + "\n")
    if arguments.json == "-":
        print(json.dumps(figures, indent=2, allow_nan=False))
    else:
        show(figures, scores, findings)
    return 0 if figures["passed"] else 1


def check_card(manifest: Manifest, device: torch.device) -> None:
    """Raises ValueError unless this is the kind of card that the baseline was timed on."""
    here, sealed = card_name(device), manifest.machine["card"]
    if here != sealed:
        raise ValueError(f"device: {here}; the panel was sealed on {sealed}, which is needed")


def known_cases(manifest: Manifest) -> list[Any]:
    """The cases whose numbers a solver must not hold: visible and sealed."""
    return [*load_visible_panel().cases, *(case.spec for case in manifest.cases)]


def judge_cases(
    manifest: Manifest,
    root: Path,
    device: torch.device,
    limits: process.Limits,
    first_failure: bool = False,
) -> list[CaseScore]:
    """Runs every case on a copy of `root / "submission"`; a broken rule ends the run.

    So does a failed case, if `first_failure` is asked for. Raises ValueError where inputs or truth
    are not those that were sealed.
    """
    scores: list[CaseScore] = []
    specs = [case.spec for case in manifest.cases]
    with contextlib.closing(
        panel_run.run_cases(specs, root, device, limits, MIN_SAMPLES)
    ) as outcomes:
        for case, outcome in zip(manifest.cases, outcomes, strict=True):
            if outcome.facts:
                check_facts(case.spec.name, case.facts, outcome.facts)
            scores.append(CaseScore(case, outcome))
            if outcome.findings or (first_failure and not outcome.passed):
                break
    broken = bool(scores and scores[-1].outcome.findings)
    reason = "a rule was broken in an earlier case" if broken else "an earlier case failed"
    return scores + [_not_run(case, reason) for case in manifest.cases[len(scores) :]]


def refused(case: SealedCase, finding: Finding) -> CaseScore:
    """The score of a case that the static scan kept from being run."""
    return CaseScore(case, Outcome(case.spec, finding.rule, f"{finding.file}:{finding.line}"))


def _not_run(case: SealedCase, reason: str) -> CaseScore:
    return CaseScore(case, Outcome(case.spec, "not run", reason))


def score_of(speedups: list[float]) -> float:
    """Geometric mean; 0 where a case failed or there is none."""
    if not speedups or min(speedups) <= 0:
        return 0.0
    return math.exp(sum(map(math.log, speedups)) / len(speedups))


def summary(
    manifest: Manifest, scores: list[CaseScore], findings: list[Finding], digest: str,
    device: torch.device,
) -> dict[str, Any]:  # fmt: skip
    """All of it as plain data; no lengths of the sealed cases."""
    rewards = [score.reward for score in scores]
    return {
        "score": score_of([score.speedup for score in scores]),
        "reward": None if None in rewards or not rewards else sum(rewards) / len(rewards),
        "passed": all(score.outcome.passed for score in scores),
        "scale": manifest.scale,
        "manifest_sha256": manifest.to_json()["sha256"],
        "submission_sha256": digest,
        "machine": machine.describe(device),
        "static_findings": [asdict(finding) for finding in findings],
        "cases": [_case_json(score) for score in scores],
    }


def _case_json(score: CaseScore) -> dict[str, Any]:
    outcome = score.outcome
    failure = {"what": outcome.what, "reason": outcome.reason, "log": outcome.log}
    return {
        "name": outcome.spec.name,
        "passed": outcome.passed,
        "baseline_ms": score.sealed.baseline["median_ms"],
        "candidate_ms": outcome.timing and outcome.timing["median_ms"],
        "speedup": score.speedup,
        "reward": score.reward,
        "timing": outcome.timing,
        "seconds": outcome.seconds,
        "failure": None if outcome.passed else failure,
        "findings": list(outcome.findings),
    }


def show(figures: dict[str, Any], scores: list[CaseScore], findings: list[Finding]) -> None:
    """Prints the table of cases, what failed and why, the score and the reward."""
    console = report.make_console()
    table = Table(title="sealed panel")
    table.add_column("case")
    for heading in ("baseline ms", "solver ms", "spread", "speedup", "reward"):
        table.add_column(heading, justify="right")
    table.add_column("verdict")
    for score in scores:
        timing = score.outcome.timing
        table.add_row(
            score.outcome.spec.name,
            f"{score.sealed.baseline['median_ms']:.3f}",
            f"{timing['median_ms']:.3f}" if timing else "-",
            f"{timing['spread']:.1%}" if timing else "-",
            f"{score.speedup:.2f}x" if timing else "-",
            "-" if score.reward is None else f"{score.reward:.3f}",
            "passed" if score.outcome.passed else f"FAILED: {score.outcome.what}",
        )
    console.print(table)
    for finding in findings:
        print(f"REFUSED {finding}")
    for score in [] if findings else scores:
        outcome = score.outcome
        if not outcome.passed:
            print(f"FAILED {outcome.spec.name}: {outcome.what}: {outcome.reason}")
            if outcome.what in ("crash", "import") and outcome.log:
                print("\n".join(f"  | {line}" for line in outcome.log.splitlines()[-12:]))
    card = figures["machine"]
    print(f"{card['card']}, driver {card['driver'] or 'none'}, torch {card['torch']}")
    if figures["scale"] != 1:
        print(f"scale {figures['scale']:g}: lengths and batch are reduced")
    print(f"manifest {figures['manifest_sha256'][:12]}, solver {figures['submission_sha256'][:12]}")
    if figures["reward"] is not None:
        print(f"reward {figures['reward']:.4f}")
    print(f"score {figures['score']:.2f}x" if figures["passed"] else "score 0")
