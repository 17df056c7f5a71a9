"""The plain twin of the operator: its specification, in any floating dtype, on any device."""

import math

import torch
from torch import Tensor


def full_vjp(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_q: Tensor,
    cu_k: Tensor,
    alibi_slopes: Tensor | None,
    dout: Tensor,
    softcap: float,
    scale_multiplier: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Attention over packed ragged sequences and its vector-Jacobian product, sequence by sequence.

    Shapes: q, dout `[total_q, heads, D]`; k, v `[total_k, 1, D]`, shared by all heads;
    cu_q, cu_k `[batch + 1]`, token offsets of the sequences; alibi_slopes `[batch, heads]` or None.
    Returns (out, dq, dk, dv), shaped like q, q, k, v.

    Dtypes: every matrix product takes and gives the dtype of q; what lies between two products is
    computed in that dtype, or in float32 where that is wider. So float64 gives the truth, and
    float16 or bfloat16 gives plain 16-bit PyTorch, which the tolerance rule takes its budget from.

    Special cases: softcap 0 means no cap. A query without keys gives out = dq = 0, a key without
    queries dk = dv = 0, and so do rows that no sequence covers.

    Errors: none of its own; the arguments are taken as checked.

    Source: derivation by hand of
        s = softcap * tanh(x / softcap) - slope * |i + keys - queries - j|,   x = scale * q . k,
        p = softmax(s),   out = p v,   scale = scale_multiplier / sqrt(D).
    """
    wide = torch.promote_types(q.dtype, torch.float32)
    scale = scale_multiplier / math.sqrt(q.shape[-1])
    out, dq, dk, dv = map(torch.zeros_like, (q, q, k, v))
    q_ends, k_ends = cu_q.tolist(), cu_k.tolist()

    for b in range(len(q_ends) - 1):
        rows = slice(q_ends[b], q_ends[b + 1])
        keys = slice(k_ends[b], k_ends[b + 1])
        queries, key_count = rows.stop - rows.start, keys.stop - keys.start
        if queries == 0 or key_count == 0:
            continue
        qs, dos = q[rows], dout[rows]  # (queries, heads, D)
        ks, vs = k[keys, 0], v[keys, 0]  # (keys, D)

        x = scale * torch.einsum("ihd,jd->hij", qs, ks).to(wide)
        cap_slope = 1.0
        if softcap > 0:
            t = torch.tanh(x / softcap)
            x = softcap * t
            cap_slope = 1 - t * t
        if alibi_slopes is not None:
            i = torch.arange(queries, device=q.device)[:, None]
            j = torch.arange(key_count, device=q.device)[None, :]
            distance = (i + key_count - queries - j).abs()
            x = x - alibi_slopes[b].to(wide)[:, None, None] * distance
        p = torch.softmax(x, dim=-1)  # (heads, queries, keys)

        dp = torch.einsum("ihd,jd->hij", dos, vs).to(wide)
        delta = (p * dp).sum(-1, keepdim=True)
        dx = (p * (dp - delta) * cap_slope).to(q.dtype)
        p = p.to(q.dtype)

        out[rows] = torch.einsum("hij,jd->ihd", p, vs)
        dq[rows] = (scale * torch.einsum("hij,jd->ihd", dx, ks).to(wide)).to(q.dtype)
        dk[keys, 0] = (scale * torch.einsum("hij,ihd->jd", dx, qs).to(wide)).to(q.dtype)
        dv[keys, 0] = torch.einsum("hij,ihd->jd", p, dos)
    return out, dq, dk, dv
