"""Turns a case specification into tensors, and tells by a digest whether they have changed."""

from dataclasses import dataclass
from typing import Any

import torch
from ragged_attention.bench.case import CaseSpec
from ragged_attention.bench.inputs import NAN, draw_tensors
from torch import Tensor

# 8-byte words hashed at a time: what stays in a core's cache, what fills a GPU
_DIGEST_WORDS = {"cpu": 1 << 16, "cuda": 1 << 24}
_MIX_1 = 0xBF58476D1CE4E5B9 - 2**64  # splitmix64, as signed words
_MIX_2 = 0x94D049BB133111EB - 2**64


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


def digest(tensor: Tensor) -> str:
    """64 bits over the bytes of a contiguous tensor, as hex; the same on every device.

    Each 8-byte word is mixed with its position by the splitmix64 finaliser and the results are
    added modulo 2^64, so the order of the additions doesn't matter.
    """
    flat = tensor.detach().reshape(-1).view(torch.uint8)
    if flat.numel() % 8 or flat.data_ptr() % 8:
        flat = torch.nn.functional.pad(flat, (0, -flat.numel() % 8)).clone()
    words = flat.view(torch.int64)
    chunk = _DIGEST_WORDS[words.device.type]
    places = _mix(torch.arange(min(chunk, words.numel()), device=words.device))
    total = tensor.numel() * tensor.element_size()
    for first in range(0, words.numel(), chunk):
        part = words[first : first + chunk]
        total += int(_mix(part ^ (places[: part.numel()] + first)).sum())
    return f"{total % 2**64:016x}"


def _mix(z: Tensor) -> Tensor:
    """The splitmix64 finaliser, on signed words."""
    for bits, factor in ((30, _MIX_1), (27, _MIX_2), (31, 1)):
        # the mask turns the signed shift into a logical one
        z = (z ^ ((z >> bits) & ((1 << (64 - bits)) - 1))).mul_(factor)
    return z
