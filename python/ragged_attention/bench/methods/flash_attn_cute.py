"""flash_attn.cute (flash-attention 4), by its public varlen function, score modifiers and autograd.

Softcap and ALiBi together need a pair of modifiers of ours. Releases that hand the backward's
modifiers wrong query and head indices where heads share K and V give wrong gradients here; the
check before timing says so.
"""

import functools
import importlib.metadata
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ragged_attention.bench.inputs import Problem
from ragged_attention.bench.methods.method import Call, Method, needs_gpu, with_autograd

_DISTRIBUTIONS = ("flash-attn-4", "fa4", "flash-attn-cute")


def _missing(device: torch.device) -> str:
    if reason := needs_gpu(device):
        return reason
    try:
        from flash_attn.cute import flash_attn_varlen_func  # noqa: F401
    except Exception as error:
        return f"flash_attn.cute: not importable ({type(error).__name__}: {error})"
    return ""


@functools.cache  # the same modifiers again, or each case would compile anew
def _modifiers(heads: int, softcap: float) -> tuple[Callable[..., Any], Callable[..., Any]]:
    from ragged_attention.bench.methods.flash_attn_cute_modifiers import create_modifiers

    return create_modifiers(heads, softcap)


def _prepare(problem: Problem) -> Call:
    from flash_attn.cute import flash_attn_varlen_func

    spec = problem.spec
    score_mod, score_mod_bwd = _modifiers(spec.heads, spec.softcap)
    attend = functools.partial(
        flash_attn_varlen_func,
        cu_seqlens_q=problem.cu_q,
        cu_seqlens_k=problem.cu_k,
        max_seqlen_q=max(spec.q_lengths),
        max_seqlen_k=max(spec.k_lengths),
        softmax_scale=problem.scale,
        score_mod=score_mod,
        score_mod_bwd=score_mod_bwd,
        aux_tensors=[problem.alibi_slopes.flatten()],
    )

    def forward(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        out = attend(q, k, v)
        return out[0] if isinstance(out, tuple) else out  # some releases add the lse

    return with_autograd(problem, forward)


def _version() -> str:
    for name in _DISTRIBUTIONS:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return "unknown"


METHOD = Method(name="flash_attn_cute", missing=_missing, prepare=_prepare, version=_version)
