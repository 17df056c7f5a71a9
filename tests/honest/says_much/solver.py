"""Warns, logs and prints; keeps a table of names and a class with state of its own."""

import collections
import dataclasses
import enum
import logging
import warnings

from plain import attention_varlen_feature_full_vjp as plain

log = logging.getLogger(__name__)
Shape = collections.namedtuple("Shape", "queries keys")


class Path(enum.Enum):
    WIDE = 1
    NARROW = 2


@dataclasses.dataclass
class Plan:
    shape: Shape
    parts: int = 0

    def add(self) -> None:
        self.parts += 1
        if self.parts > 100:
            raise ValueError(f"parts: {self.parts}; at most 100 are needed")


def attention_varlen_feature_full_vjp(q, k, v, cu_q, cu_k, alibi_slopes, dout, *numbers):
    plan = Plan(Shape(q.shape[0], k.shape[0]))
    for _ in range(len(cu_q) - 1):
        plan.add()
    warnings.warn(f"{Path.WIDE if plan.parts else Path.NARROW}", RuntimeWarning, stacklevel=2)
    log.warning("%d parts", plan.parts)
    print(plan)
    return plain(q, k, v, cu_q, cu_k, alibi_slopes, dout, *numbers)
