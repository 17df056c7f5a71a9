"""Turns a case specification into tensors, and tells by a digest whether they have changed."""

from dataclasses import dataclass
from typing import Any

import torch
from ragged_attention.bench.case import CaseSpec
from ragged_attention.bench.inputs import NAN, draw_tensors
from torch import Tensor

from vjp_task.harness.digest import digest


@dataclass(frozen=True)
class Inputs:
    """The tensors of one case on one device."""

    spec: CaseSpec
    q: Tensor  # (total_q, heads, D)
    k: Tensor  # (total_k, kv_heads, D)
    v: Tensor  # (total_k, kv_heads, D)
    cu_q: Tensor  # (batch + 1), int32
    cu_k: Tensor  # (batch + 1), int32
    alibi_slopes: Tensor  # (batch, heads), float32
    dout: Tensor  # (total_q, heads, D)
    storages: dict[str, Tensor]  # what q, k, v, dout are views of

    @property
    def device(self) -> torch.device:
        """Where all tensors are."""
        return self.q.device

    def arguments(self) -> tuple[Any, ...]:
        """The operator's twelve arguments, in its order."""
        tensors = (self.q, self.k, self.v, self.cu_q, self.cu_k, self.alibi_slopes, self.dout)
        masks = (self.spec.causal, self.spec.window_left, self.spec.window_right)
        return (*tensors, *masks, self.spec.softcap, self.spec.scale_multiplier)

    def tensors(self) -> dict[str, Tensor]:
        """The tensor arguments by name."""
        names = ("q", "k", "v", "cu_q", "cu_k", "alibi_slopes", "dout")
        return {name: getattr(self, name) for name in names}

    def digests(self) -> dict[str, str]:
        """A digest per tensor argument, over whole storages: what lies outside the views counts."""
        whole = {**self.tensors(), **self.storages}
        return {name: digest(tensor) for name, tensor in whole.items()}


def materialise(spec: CaseSpec, device: torch.device, outside: float = NAN) -> Inputs:
    """Draws the values of a case; see `ragged_attention.bench.inputs.draw_tensors`."""
    tensors, storages = draw_tensors(spec, device, outside)
    return Inputs(spec=spec, **tensors, storages=storages)
