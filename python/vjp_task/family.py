"""The problem family: what a draw may vary, read from `problems/family.json`."""

import json
from dataclasses import dataclass
from pathlib import Path

from vjp_task import paths


@dataclass(frozen=True)
class Stratum:
    """One kind of case; a draw of it fixes the lengths."""

    name: str
    heads: int  # query heads
    dtype: str  # of q, k, v, dout: a torch dtype's name
    batch: int  # sequences
    q_length: tuple[int, int]  # tokens, both ends inclusive
    k_length: tuple[int, int]  # tokens, both ends inclusive


@dataclass(frozen=True)
class Family:
    """What all strata share, and the strata."""

    operator: str
    head_dim: int
    kv_heads: int
    causal: bool
    window_left: int  # tokens, -1 = unbounded
    window_right: int  # tokens, -1 = unbounded
    softcap: float  # 0 = off
    scale_multiplier: float  # scores are scaled by this over sqrt(head_dim)
    slope_factor: tuple[float, float]  # range of the factor on each ALiBi slope
    steps: tuple[int, ...]  # token steps a view may have
    pads: tuple[int, ...]  # elements after each head's row that a view may skip
    strata: tuple[Stratum, ...]

    def stratum(self, name: str) -> Stratum:
        """The stratum of that name. Raises ValueError where there is none."""
        for stratum in self.strata:
            if stratum.name == name:
                return stratum
        known = ", ".join(stratum.name for stratum in self.strata)
        raise ValueError(f"stratum: {name!r}; one of {known} is needed")


def load_family(path: Path | None = None) -> Family:
    """Reads the family, from the repository's `problems/` by default."""
    data = json.loads((path or paths.family_file()).read_text())
    strata = tuple(
        Stratum(**{**row, "q_length": tuple(row["q_length"]), "k_length": tuple(row["k_length"])})
        for row in data.pop("strata")
    )
    lists = {name: tuple(value) for name, value in data.items() if isinstance(value, list)}
    return Family(**{**data, **lists}, strata=strata)
