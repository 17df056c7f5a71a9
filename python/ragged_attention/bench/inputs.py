"""Turns a case into tensors: standard normal values in strided views, ALiBi slopes, offsets."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ragged_attention.bench.case import CaseSpec

NAN = math.nan


@dataclass(frozen=True)
class Problem:
    """One case with its tensors, which all are on one device."""

    spec: CaseSpec
    q: Tensor  # (total_q, heads, D)
    k: Tensor  # (total_k, 1, D)
    v: Tensor  # (total_k, 1, D)
    cu_q: Tensor  # (batch + 1), int32
    cu_k: Tensor  # (batch + 1), int32
    alibi_slopes: Tensor  # (batch, heads), float32
    dout: Tensor  # (total_q, heads, D)

    @property
    def scale(self) -> float:
        """What multiplies q . k."""
        return self.spec.scale_multiplier / math.sqrt(self.spec.head_dim)

    def arguments(self) -> tuple[Any, ...]:
        """The operator's twelve arguments, in its order."""
        tensors = (self.q, self.k, self.v, self.cu_q, self.cu_k, self.alibi_slopes, self.dout)
        masks = (self.spec.causal, self.spec.window_left, self.spec.window_right)
        return (*tensors, *masks, self.spec.softcap, self.spec.scale_multiplier)


def make_problem(spec: CaseSpec, device: torch.device, outside: float = NAN) -> Problem:
    """Draws a case, with `outside` around its views."""
    tensors, _ = draw_tensors(spec, device, outside)
    return Problem(spec, **tensors)


def draw_tensors(
    spec: CaseSpec, device: torch.device, outside: float = NAN
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Draws the values of a case: standard normal, in the activation dtype, from its seed.

    Returns the operator's tensors by name, and the storages that q, k, v and dout are views of.
    `outside` fills what the views skip: NaN shows any read of it, a finite filler is for timing.
    One kind of device always draws the same values; CPU and GPU draw different ones.
    """
    dtype = getattr(torch, spec.dtype)
    generator = torch.Generator(device).manual_seed(spec.seed)
    storages, views = {}, {}
    for name, view in spec.views.items():
        tokens, heads = _rows(spec, name)
        values = torch.randn(
            (tokens, heads, spec.head_dim), generator=generator, dtype=dtype, device=device
        )
        shape = (tokens * view.step, heads, spec.head_dim + view.pad)
        storages[name] = torch.full(shape, outside, dtype=dtype, device=device)
        views[name] = storages[name][:: view.step, :, : spec.head_dim].copy_(values)
        del values
    tensors = {
        **views,
        "cu_q": offsets(spec.q_lengths, device),
        "cu_k": offsets(spec.k_lengths, device),
        "alibi_slopes": _slopes(spec, generator, device),
    }
    return tensors, storages


def offsets(lengths: Iterable[int], device: torch.device) -> Tensor:
    """int32 `[batch + 1]`: where sequences of these lengths begin and end."""
    ends = torch.tensor((0, *lengths), dtype=torch.int64).cumsum(0)
    return ends.to(device=device, dtype=torch.int32)


def _rows(spec: CaseSpec, name: str) -> tuple[int, int]:
    """Tokens and heads of q, k, v or dout."""
    if name in ("q", "dout"):
        return spec.total_q, spec.heads
    return spec.total_k, spec.kv_heads


def _slopes(spec: CaseSpec, generator: torch.Generator, device: torch.device) -> Tensor:
    """ALiBi slopes `2 ** (-8 (h + 1) / heads)`, each times its own uniform factor."""
    low, high = spec.slope_factor
    head = torch.arange(1, spec.heads + 1, dtype=torch.float32, device=device)
    factor = torch.rand(
        (spec.batch, spec.heads), generator=generator, dtype=torch.float32, device=device
    )
    return torch.exp2(-8 * head / spec.heads) * (low + (high - low) * factor)
