"""The reward of a speedup: 0 up to the baseline, 0.6 at the human reference, 1 at the upper proxy.

With m the speedup, S the human reference's and U the upper proxy's: 0 for m <= 1,
0.6 (m - 1) / (S - 1) up to S, min(1, 0.6 + 0.4 (m - S) / (U - S)) above.
"""

import argparse
import math
import sys

HELP = "print the reward of a speedup"

AT_REFERENCE = 0.6  # the reward at the human reference's speedup


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument(
        "--speedup", type=float, required=True, metavar="M", help="baseline / yours"
    )
    parser.add_argument("--s", type=float, required=True, metavar="S", help="the human reference's")
    parser.add_argument("--u", type=float, required=True, metavar="U", help="the upper proxy's")


def run(arguments: argparse.Namespace) -> int:
    """Prints the reward with four digits; 2 for numbers that do not fit together."""
    try:
        value = reward(arguments.speedup, arguments.s, arguments.u)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"{value:.4f}")
    return 0


def reward(speedup: float, reference: float, upper: float) -> float:
    """The reward, 0 to 1: continuous and never falling in `speedup`, which may be infinite.

    Raises ValueError unless `speedup` is at least 0 and 1 < reference < upper, both finite.
    """
    check_marks(reference, upper)
    if not speedup >= 0:  # NaN fails too
        raise ValueError(f"speedup: {speedup:g}; a number of at least 0 is needed")
    if speedup <= 1:
        return 0.0
    if speedup <= reference:
        return AT_REFERENCE * (speedup - 1) / (reference - 1)
    rest = (speedup - reference) / (upper - reference)
    return min(1.0, AT_REFERENCE + (1 - AT_REFERENCE) * rest)


def check_marks(reference: float, upper: float) -> None:
    """Raises ValueError unless 1 < reference < upper, both finite."""
    if not (reference > 1 and math.isfinite(reference)):
        raise ValueError(f"s: {reference:g}; a finite number above 1 is needed")
    if not (upper > reference and math.isfinite(upper)):
        raise ValueError(f"u: {upper:g}; a finite number above s, {reference:g}, is needed")
