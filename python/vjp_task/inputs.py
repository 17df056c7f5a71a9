"""Turns a case specification into tensors, and tells by a digest whether they have changed."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from vjp_task.panel import CaseSpec

NAN = math.nan

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
    """Draws the values of a case: standard normal, in the activation dtype, from its seed.

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
    return Inputs(
        spec=spec,
        **views,
        cu_q=_offsets(spec.q_lengths, device),
        cu_k=_offsets(spec.k_lengths, device),
        alibi_slopes=_slopes(spec, generator, device),
        storages=storages,
    )


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


def _rows(spec: CaseSpec, name: str) -> tuple[int, int]:
    """Tokens and heads of q, k, v or dout."""
    if name in ("q", "dout"):
        return spec.total_q, spec.heads
    return spec.total_k, spec.kv_heads


def _offsets(lengths: tuple[int, ...], device: torch.device) -> Tensor:
    ends = torch.tensor((0, *lengths), dtype=torch.int64).cumsum(0)
    return ends.to(device=device, dtype=torch.int32)


def _slopes(spec: CaseSpec, generator: torch.Generator, device: torch.device) -> Tensor:
    """ALiBi slopes `2 ** (-8 (h + 1) / heads)`, each times its own uniform factor."""
    low, high = spec.slope_factor
    head = torch.arange(1, spec.heads + 1, dtype=torch.float32, device=device)
    factor = torch.rand(
        (spec.batch, spec.heads), generator=generator, dtype=torch.float32, device=device
    )
    return torch.exp2(-8 * head / spec.heads) * (low + (high - low) * factor)
