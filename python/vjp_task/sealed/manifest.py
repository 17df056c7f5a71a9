"""The manifest of a sealed panel: cases, the baseline's latencies, digests, and a SHA-256 of it."""

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragged_attention.bench.case import CaseSpec

from vjp_task.reward import check_marks

FILE_NAME = "manifest.json"
FORMAT = 1

# Two float64 computations of one truth on different libraries differ by less, relative to its norm.
_NORM_TOLERANCE = 1e-9


@dataclass(frozen=True)
class SealedCase:
    """One case, and what judging it needs."""

    spec: CaseSpec
    baseline: dict[str, Any]  # latency figures in ms, card, driver, clocks
    facts: dict[str, Any]  # digests of inputs and truth
    reference: float | None  # the human reference's speedup, S of the reward
    upper: float | None  # the upper proxy's, U of the reward

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "spec": self.spec.to_json(),
            "baseline": self.baseline,
            "facts": self.facts,
            "human_reference": self.reference,
            "upper_proxy": self.upper,
        }

    @staticmethod
    def from_json(data: dict[str, Any]) -> "SealedCase":
        """Reads what `to_json` wrote."""
        spec = CaseSpec.from_json(data["spec"])
        marks = data["human_reference"], data["upper_proxy"]
        return SealedCase(spec, data["baseline"], data["facts"], *marks)


@dataclass(frozen=True)
class Manifest:
    """A sealed panel."""

    created: str  # ISO 8601, UTC
    machine: dict[str, Any]  # of `machine.describe`, where the baseline was timed
    scale: float  # what lengths and batch were multiplied with
    seed_sha256: str  # of the seed file
    baseline_sha256: str  # of the baseline's solver.py
    cases: tuple[SealedCase, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain data, with `sha256` over all the rest."""
        body = {
            "format": FORMAT,
            "created": self.created,
            "machine": self.machine,
            "scale": self.scale,
            "seed_sha256": self.seed_sha256,
            "baseline_sha256": self.baseline_sha256,
            "cases": [case.to_json() for case in self.cases],
        }
        return {**body, "sha256": body_digest(body)}

    def write(self, folder: Path) -> Path:
        """Writes `folder / manifest.json`, for its owner's eyes only; returns the path.

        Raises FileExistsError where there is one already.
        """
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / FILE_NAME
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w") as stream:
            json.dump(self.to_json(), stream, indent=1, allow_nan=False)
            stream.write("\n")
        return file

    @staticmethod
    def read(file: Path) -> "Manifest":
        """Reads a manifest.

        Raises ValueError where it is none, or not what was sealed.
        """
        try:
            data = json.loads(file.read_text())
            carried = data.pop("sha256")
            form = data.pop("format")
        except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
            raise ValueError(
                f"manifest: {file} cannot be read ({error}); one of seal is needed"
            ) from error
        found = body_digest({"format": form, **data})
        if found != carried:
            raise ValueError(
                f"manifest: SHA-256 {found}; its own says {carried}, so it was changed"
            )
        if form != FORMAT:
            raise ValueError(f"manifest: format {form}; {FORMAT} is needed")
        cases = tuple(SealedCase.from_json(case) for case in data.pop("cases"))
        return Manifest(**data, cases=cases)


def body_digest(body: dict[str, Any]) -> str:
    """SHA-256 over the canonical JSON of everything but the digest itself."""
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def check_facts(name: str, sealed: dict[str, Any], found: dict[str, Any]) -> None:
    """Raises ValueError where a case's inputs or truth are not those that were sealed.

    Inputs must agree bit for bit; of the truth the norms must, where its bits do not.
    """
    for tensor, value in sealed["inputs"].items():
        if found["inputs"][tensor] != value:
            raise ValueError(
                f"{name}: {tensor} has digest {found['inputs'][tensor]}, {value} was sealed; "
                "the sealing machine's kind of device and torch are needed"
            )
    for output, value in sealed["truth"].items():
        here = found["truth"][output]
        close = abs(here["norm"] - value["norm"]) <= _NORM_TOLERANCE * value["norm"]
        if here["digest"] != value["digest"] and not close:
            raise ValueError(
                f"{name}: the truth of {output} has norm {here['norm']!r}; "
                f"{value['norm']!r} was sealed"
            )


def read_marks(values: list[str] | None, names: list[str], option: str) -> dict[str, float]:
    """Marks for the reward from `X` (all cases) or `NAME=X` (one case), in that order.

    Raises ValueError for a name that is no case's, or a value that is no number.
    """
    marks: dict[str, float] = {}
    for value in sorted(values or [], key=lambda v: "=" in v):
        name, equals, number = value.rpartition("=")
        if equals and name not in names:
            raise ValueError(f"{option}: {name!r}; one of {', '.join(names)} is needed")
        try:
            mark = float(number)
        except ValueError:
            raise ValueError(f"{option}: {value!r}; X or NAME=X is needed") from None
        marks.update(dict.fromkeys([name] if equals else names, mark))
    return marks


def check_pairs(reference: dict[str, float], upper: dict[str, float]) -> None:
    """Raises ValueError unless each case has both marks or none, and they suit the reward."""
    for name in sorted(reference.keys() | upper.keys()):
        if name not in reference or name not in upper:
            missing = "human-reference" if name not in reference else "upper-proxy"
            raise ValueError(f"{missing}: none for {name}; both marks are needed, or neither")
        check_marks(reference[name], upper[name])
