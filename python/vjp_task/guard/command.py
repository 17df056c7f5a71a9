"""Scans a folder as the judge does before it runs anything: each breach with file, line and rule.

The judge also watches what the solver does; `--rules` lists what both refuse, and why.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from vjp_task import paths
from vjp_task.guard.rules import RULES
from vjp_task.guard.scan import scan
from vjp_task.panel import load_visible_panel
from vjp_task.sealed.scratch import copy_submission

HELP = "scan a solver's folder for what the judge refuses"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument(
        "--solver",
        type=Path,
        metavar="DIR",
        help="the folder with solver.py and all it needs (default: methods/main)",
    )
    parser.add_argument("--rules", action="store_true", help="print the rules and stop")


def run(arguments: argparse.Namespace) -> int:
    """Prints the breaches: 0 if there is none, 1 if there is one, 2 for a wrong call."""
    if arguments.rules:
        for rule in RULES.values():
            print(f"{rule.name}\n  refuses {rule.refuses}\n  because {rule.why}")
        return 0
    source = arguments.solver or paths.main_solver().parent
    with tempfile.TemporaryDirectory(prefix="scan-") as name:
        copy = Path(name) / "solver"
        try:
            copy_submission(source, copy)
        except (ValueError, OSError) as error:
            print(f"error: {error}", file=sys.stderr)
            return 2
        findings = scan(copy, load_visible_panel().cases)
    for finding in findings:
        print(finding)
    print(f"breaches: {len(findings) or 'none'}")
    return 1 if findings else 0
