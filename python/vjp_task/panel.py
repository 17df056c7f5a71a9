"""Panels: one case of every stratum, to and from JSON."""

import json
import math
import re
from dataclasses import dataclass, replace
from pathlib import Path

from ragged_attention.bench.case import CaseSpec

from vjp_task import paths

# What a scaled case keeps at least, so that it stays ragged and its gradients are not all 0.
_MIN_BATCH = 4  # sequences
_MIN_LENGTH = 8  # tokens


@dataclass(frozen=True)
class Panel:
    """One draw of every stratum."""

    seed: int  # all cases follow from it
    cases: tuple[CaseSpec, ...]

    def select(self, names: list[str] | None) -> tuple[CaseSpec, ...]:
        """The cases of these names, in the panel's order; all for None or an empty list.

        Raises ValueError for a name that the panel doesn't have.
        """
        known = [case.name for case in self.cases]
        for name in names or []:
            if name not in known:
                raise ValueError(f"case: {name!r}; one of {', '.join(known)} is needed")
        return tuple(case for case in self.cases if not names or case.name in names)

    def to_text(self) -> str:
        """JSON text with each innermost list or object on one line."""
        data = {"seed": self.seed, "cases": [case.to_json() for case in self.cases]}
        text = json.dumps(data, indent=2)
        return re.sub(r"[\[{][^\[\]{}]*[\]}]", _on_one_line, text) + "\n"

    @staticmethod
    def from_text(text: str) -> "Panel":
        """Reads what `to_text` wrote."""
        data = json.loads(text)
        return Panel(data["seed"], tuple(CaseSpec.from_json(case) for case in data["cases"]))


def _on_one_line(match: re.Match[str]) -> str:
    return json.dumps(json.loads(match[0]))


def load_visible_panel(path: Path | None = None) -> Panel:
    """The six visible cases, from the repository's `problems/` by default."""
    return Panel.from_text((path or paths.visible_cases_file()).read_text())


def scaled(spec: CaseSpec, factor: float) -> CaseSpec:
    """The case with all lengths times `factor`, and only its first `factor x batch` sequences.

    A length stays at least 8 and the batch at least 4 (or what the case has); logits shrink by
    about factor^3. Raises ValueError for a factor outside (0, 1].
    """
    if not 0 < factor <= 1:
        raise ValueError(f"scale: {factor:g}; a number above 0 and at most 1 is needed")
    batch = min(spec.batch, max(_MIN_BATCH, math.ceil(factor * spec.batch)))

    def shorten(lengths: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(
            max(min(length, _MIN_LENGTH), round(factor * length)) for length in lengths[:batch]
        )

    return replace(spec, q_lengths=shorten(spec.q_lengths), k_lengths=shorten(spec.k_lengths))
