"""What defines a case: lengths, layout, numbers and a seed; to and from JSON."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ragged_attention.checks import HEAD_DIM

VIEWS = ("q", "k", "v", "dout")  # the tensors that are strided views


@dataclass(frozen=True)
class View:
    """The view `storage[::step, :, :head_dim]` of `[tokens * step, heads, head_dim + pad]`."""

    step: int  # storage rows per token
    pad: int  # elements after each head's row


@dataclass(frozen=True)
class CaseSpec:
    """Everything that defines a case; its values follow from `seed`."""

    name: str
    dtype: str  # of q, k, v, dout: a torch dtype's name
    heads: int  # query heads
    kv_heads: int
    head_dim: int
    q_lengths: tuple[int, ...]  # query tokens of each sequence
    k_lengths: tuple[int, ...]  # key tokens of each sequence
    views: dict[str, View]  # by the names in VIEWS
    causal: bool
    window_left: int
    window_right: int
    softcap: float
    scale_multiplier: float
    slope_factor: tuple[float, float]
    seed: int

    @property
    def batch(self) -> int:
        """Sequences."""
        return len(self.q_lengths)

    @property
    def total_q(self) -> int:
        """Query tokens."""
        return sum(self.q_lengths)

    @property
    def total_k(self) -> int:
        """Key tokens."""
        return sum(self.k_lengths)

    @property
    def logits(self) -> int:
        """Scores of all heads: heads x queries x keys, summed over the sequences."""
        pairs = sum(q * k for q, k in zip(self.q_lengths, self.k_lengths, strict=True))
        return self.heads * pairs

    def to_json(self) -> dict[str, Any]:
        """Plain dicts, lists and numbers; `from_json` gives the same spec back."""
        return asdict(self)

    @staticmethod
    def from_json(data: dict[str, Any]) -> "CaseSpec":
        """Reads what `to_json` wrote.

        Raises ValueError where the lengths or views don't fit together.
        """
        spec = CaseSpec(
            **{
                **data,
                "q_lengths": tuple(data["q_lengths"]),
                "k_lengths": tuple(data["k_lengths"]),
                "slope_factor": tuple(data["slope_factor"]),
                "views": {name: View(**view) for name, view in data["views"].items()},
            }
        )
        if len(spec.q_lengths) != len(spec.k_lengths):
            raise ValueError(
                f"k_lengths: {len(spec.k_lengths)} sequences; q_lengths has {len(spec.q_lengths)}"
            )
        if set(spec.views) != set(VIEWS):
            raise ValueError(f"views: {sorted(spec.views)}; {sorted(VIEWS)} are needed")
        return spec


def load_cases(path: Path) -> list[CaseSpec]:
    """The cases of a panel's file, such as `problems/visible_cases.json`."""
    return [CaseSpec.from_json(case) for case in json.loads(path.read_text())["cases"]]


def dense_case(
    name: str,
    q_lengths: tuple[int, ...],
    k_lengths: tuple[int, ...],
    heads: int = 48,
    dtype: str = "float16",
) -> CaseSpec:
    """A case of the family's numbers and of any lengths, its tensors dense."""
    return CaseSpec(
        name=name,
        dtype=dtype,
        heads=heads,
        kv_heads=1,
        head_dim=HEAD_DIM,
        q_lengths=q_lengths,
        k_lengths=k_lengths,
        views=dict.fromkeys(VIEWS, View(step=1, pad=0)),
        causal=False,
        window_left=-1,
        window_right=-1,
        softcap=3.0,
        scale_multiplier=0.75,
        slope_factor=(0.5, 1.5),
        seed=1,
    )
