"""flash-attention 2.x, by its public varlen function and autograd."""

import functools

import torch
from torch import Tensor

from ragged_attention.bench.inputs import Problem
from ragged_attention.bench.methods.method import Call, Method, needs_gpu, with_autograd


def _missing(device: torch.device) -> str:
    if reason := needs_gpu(device):
        return reason
    try:
        from flash_attn import flash_attn_varlen_func  # noqa: F401
    except Exception as error:
        return f"flash_attn: not importable ({type(error).__name__}: {error})"
    return ""


def _prepare(problem: Problem) -> Call:
    from flash_attn import flash_attn_varlen_func

    spec = problem.spec
    attend = functools.partial(
        flash_attn_varlen_func,
        cu_seqlens_q=problem.cu_q,
        cu_seqlens_k=problem.cu_k,
        max_seqlen_q=max(spec.q_lengths),
        max_seqlen_k=max(spec.k_lengths),
        softmax_scale=problem.scale,
        softcap=spec.softcap,
        alibi_slopes=problem.alibi_slopes,
    )

    def forward(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attend(q, k, v)

    return with_autograd(problem, forward)


def _version() -> str:
    import flash_attn

    return str(getattr(flash_attn, "__version__", "unknown"))


METHOD = Method(name="flash_attn_2", missing=_missing, prepare=_prepare, version=_version)
