"""When CTAs of the key kernel share tiles: the rule that `plan.h` applies, with its constants."""

import re
from pathlib import Path
from typing import NamedTuple

from ragged_attention.bench.case import CaseSpec


class SharingRule(NamedTuple):
    """Tiles are shared where whole ones would fill a card less than so many times."""

    waves: int
    waves_with_small_sums: int  # where the sums of dk and dv are small beside q
    sums_of_q: int  # they are from so many rows to a key on

    def shares(self, spec: CaseSpec, tile_keys: int, places: int) -> bool:
        """Whether tiles of so many keys are shared on a card with so many places for CTAs."""
        small_sums = self.sums_of_q * spec.total_k <= spec.total_q * spec.heads
        waves = self.waves_with_small_sums if small_sums else self.waves
        return spec.total_k // tile_keys + spec.batch // 2 < waves * places


def read_rule(file: Path) -> SharingRule:
    """The rule of that plan.h. Raises ValueError where it lacks a constant."""
    found = dict(re.findall(r"constexpr \w+ (\w+) = (\d+);", file.read_text()))
    numbers = []
    for name in ("kWaves", "kWavesWithSmallSums", "kSumsOfQ"):
        if name not in found:
            raise ValueError(f"plan: {file.name} has no {name}; it is needed")
        numbers.append(int(found[name]))
    return SharingRule(*numbers)
