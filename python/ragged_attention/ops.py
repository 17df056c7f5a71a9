"""The operator's entry point: checks, then the native or the portable path."""

import functools
import warnings

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from ragged_attention import native, portable
from ragged_attention.checks import check_arguments, check_lengths

Gradients = tuple[Tensor, Tensor, Tensor, Tensor]  # out, dq, dk, dv


def attention_varlen_feature_full_vjp(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_q: Tensor,
    cu_k: Tensor,
    alibi_slopes: Tensor | None,
    dout: Tensor,
    causal: bool = False,
    window_left: int = -1,
    window_right: int = -1,
    softcap: float = 0.0,
    scale_multiplier: float = 1.0,
    *,
    validate: bool = False,
) -> Gradients:
    """Ragged cross-attention with softcap and ALiBi, and its vector-Jacobian product for `dout`.

    `reference.full_vjp` holds the formulas.

    Shapes: q, dout `[total_q, heads, 160]`, 1 to 128 heads; k, v `[total_k, 1, 160]`, shared by all
    heads; cu_q, cu_k `[batch + 1]`, where sequence b has tokens cu[b] to cu[b + 1]; alibi_slopes
    `[batch, heads]`, or None for no bias. Returns (out, dq, dk, dv), dense, shaped like q, q, k, v.

    Dtypes: q, k, v, dout all float16 or all bfloat16, and so are the results; cu_q, cu_k int32;
    alibi_slopes float32. Sums run in float32. All tensors are on one device.

    Units: scores are scale_multiplier / sqrt(160) * q . k, capped to (-softcap, softcap) where
    softcap > 0 (0 is no cap), less slope * |i + keys - queries - j| in tokens.

    Layouts: any strides and storage offsets, expanded axes too, and nothing outside the views is
    read. On a GPU a tensor is first copied densely where its last axis is not contiguous, or its
    address or its token or head stride is no multiple of 16 bytes.

    Special cases: a query without keys gives out = dq = 0, a key without queries dk = dv = 0.
    Sequences, tokens or the whole batch may be empty. Offsets must start at 0, never fall, and end
    at the tensor's rows: checked for CPU tensors, and on a GPU if `validate` is set, since that
    waits for the GPU. Unchecked, bad offsets reach nothing outside the tensors, and rows that no
    sequence covers are 0.

    On a GPU everything is enqueued on its current stream, without waiting, and can be captured in
    a CUDA graph, whose replay follows new contents of all tensors. CPU tensors, and all tensors
    where the compiled module is missing, take the portable path, which says so once in a
    RuntimeWarning and reads cu_q and cu_k on the host. Equal inputs give equal bits. Inputs are
    not changed, results never require grad, and autocast has no effect. Meta and fake tensors
    give empty results of the right shapes; torch.compile breaks its graph here.

    Errors: TypeError for a wrong type or dtype, ValueError for a wrong shape, device or value,
    which includes causal=True and windows other than -1, not supported; RuntimeError where the
    compiled module does not suit the card; ImportError where it does not load.
    """
    if torch.compiler.is_compiling():
        return torch.compiler.disable(attention_varlen_feature_full_vjp)(
            q, k, v, cu_q, cu_k, alibi_slopes, dout, causal, window_left, window_right, softcap,
            scale_multiplier, validate=validate,
        )  # fmt: skip
    check_arguments(
        q, k, v, cu_q, cu_k, alibi_slopes, dout, causal, window_left, window_right, softcap,
        scale_multiplier,
    )  # fmt: skip
    if q.is_meta or isinstance(q, FakeTensor):
        dense = torch.contiguous_format
        return tuple(torch.empty_like(x, memory_format=dense) for x in (q, q, k, v))
    on_gpu = q.is_cuda
    if validate or not on_gpu:
        check_lengths(q, k, cu_q, cu_k)
    arguments = (q, k, v, cu_q, cu_k, alibi_slopes, dout, float(softcap), float(scale_multiplier))
    if on_gpu:
        module = native.load()
        if module is not None:
            return native.full_vjp(module, *arguments)
    _say_portable(q.device.type)
    return portable.full_vjp(*arguments)


@functools.cache
def _say_portable(device: str) -> None:
    why = "q is a CPU tensor" if device == "cpu" else native.why_missing()
    warnings.warn(f"ragged_attention takes its portable path: {why}", RuntimeWarning, stacklevel=3)
