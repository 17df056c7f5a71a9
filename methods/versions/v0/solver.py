"""The inherited eager baseline: every sequence on its own, in float32, gradients by autograd.

Frozen: all speedups are ratios to this file's latency.
"""

import math

import torch
from torch import Tensor


def attention_varlen_feature_full_vjp(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_q: Tensor,
    cu_k: Tensor,
    alibi_slopes: Tensor | None,
    dout: Tensor,
    causal: bool,
    window_left: int,
    window_right: int,
    softcap: float,
    scale_multiplier: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Ragged attention with softcap and ALiBi, and its gradients for `dout`.

    Shapes: q, dout `[total_q, heads, D]`; k, v `[total_k, kv_heads, D]`; cu_q, cu_k `[batch + 1]`;
    alibi_slopes `[batch, heads]` or None. Returns (out, dq, dk, dv), shaped like q, q, k, v, in
    their dtypes. A softcap of 0 means no cap.

    Errors: ValueError for a causal mask or a window.
    """
    if causal:
        raise ValueError(f"causal: {causal}; False is needed")
    for name, value in (("window_left", window_left), ("window_right", window_right)):
        if value >= 0:
            raise ValueError(f"{name}: {value}; -1 is needed")

    heads, head_dim = q.shape[1], q.shape[2]
    repeats = heads // k.shape[1]
    scale = scale_multiplier / math.sqrt(head_dim)
    q_ends, k_ends = cu_q.tolist(), cu_k.tolist()
    out, dq = torch.zeros_like(q), torch.zeros_like(q)
    dk, dv = torch.zeros_like(k), torch.zeros_like(v)

    for b in range(len(q_ends) - 1):
        rows = slice(q_ends[b], q_ends[b + 1])
        keys = slice(k_ends[b], k_ends[b + 1])
        queries, key_count = rows.stop - rows.start, keys.stop - keys.start
        if queries == 0 or key_count == 0:
            continue
        with torch.enable_grad():
            q_b = q[rows].detach().float().requires_grad_()  # (queries, heads, D)
            k_b = k[keys].detach().float().requires_grad_()  # (keys, kv_heads, D)
            v_b = v[keys].detach().float().requires_grad_()  # (keys, kv_heads, D)
            k_all = k_b.repeat_interleave(repeats, dim=1)  # (keys, heads, D)
            v_all = v_b.repeat_interleave(repeats, dim=1)  # (keys, heads, D)

            scores = torch.einsum("ihd,jhd->hij", q_b, k_all) * scale  # (heads, queries, keys)
            if softcap > 0:
                scores = softcap * torch.tanh(scores / softcap)
            if alibi_slopes is not None:
                i = torch.arange(queries, device=q.device)[:, None]
                j = torch.arange(key_count, device=q.device)[None, :]
                distance = (i + key_count - queries - j).abs()
                scores = scores - alibi_slopes[b, :, None, None] * distance
            probabilities = torch.softmax(scores, dim=-1)
            out_b = torch.einsum("hij,jhd->ihd", probabilities, v_all)  # (queries, heads, D)
            gradients = torch.autograd.grad(out_b, (q_b, k_b, v_b), dout[rows].float())
        out[rows] = out_b.detach().to(out.dtype)
        dq[rows] = gradients[0].to(dq.dtype)
        dk[keys] = gradients[1].to(dk.dtype)
        dv[keys] = gradients[2].to(dv.dtype)
    return out, dq, dk, dv
