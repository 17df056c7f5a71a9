"""The portable path: the same derivatives written out in PyTorch, for CPUs and GPUs alike."""

import itertools
import math

import torch
from torch import Tensor

# Scores per block, by device type: three float32 buffers of a block fit a CPU core's share of the
# cache; a GPU wants long products instead.
_BLOCK_SCORES = {"cpu": 1 << 17, "cuda": 1 << 25}


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
    """(out, dq, dk, dv) as `reference.full_vjp` defines them, in float32 arithmetic.

    Shapes and special cases are the twin's; q, k, v, dout are float16 or bfloat16, in any layout.
    All heads of a query share the keys, so (query, head) pairs are the rows of one matrix. Blocks
    of queries go through all keys of their sequence at once: beyond the results, memory is one
    block of scores and one sequence's K, V, dK, dV in float32. Nothing is recorded for autograd,
    and equal inputs give equal bits on one machine.

    Reads cu_q and cu_k on the host. Offsets outside the tensors are clamped to them, so rows that
    no sequence covers are zero and nothing out of bounds is read.

    Errors: none of its own; the arguments are taken as checked.
    """
    with torch.no_grad(), torch.autocast(q.device.type, enabled=False):
        results = _zeros_like(q), _zeros_like(q), _zeros_like(k), _zeros_like(v)
        out, dq, dk, dv = results
        scale = scale_multiplier / math.sqrt(q.shape[2])
        spans = zip(_spans(cu_q, q.shape[0]), _spans(cu_k, k.shape[0]), strict=True)
        for b, (rows, keys) in enumerate(spans):
            if rows.stop <= rows.start or keys.stop <= keys.start:
                continue
            slopes = None if alibi_slopes is None else alibi_slopes[b]
            dk[keys, 0], dv[keys, 0] = _sequence_vjp(
                q[rows],
                _float(k[keys, 0]),
                _float(v[keys, 0]),
                slopes,
                dout[rows],
                softcap,
                scale,
                out[rows],
                dq[rows],
            )
    return results


def _zeros_like(x: Tensor) -> Tensor:
    return torch.zeros_like(x, memory_format=torch.contiguous_format)


def _float(x: Tensor) -> Tensor:
    return x.to(torch.float32, memory_format=torch.contiguous_format)


def _spans(offsets: Tensor, rows: int) -> list[slice]:
    ends = offsets.clamp(0, rows).tolist()
    return [slice(start, stop) for start, stop in itertools.pairwise(ends)]


def _sequence_vjp(
    q: Tensor,  # (queries, heads, D)
    k: Tensor,  # (keys, D) float32
    v: Tensor,  # (keys, D) float32
    slopes: Tensor | None,  # (heads,) float32
    dout: Tensor,  # (queries, heads, D)
    softcap: float,
    scale: float,
    out: Tensor,  # (queries, heads, D), written
    dq: Tensor,  # (queries, heads, D), written
) -> tuple[Tensor, Tensor]:
    """One sequence: writes out and dq, returns (dk, dv) `(keys, D)` in float32."""
    queries, heads, head_dim = q.shape
    keys = k.shape[0]
    step = max(1, _BLOCK_SCORES[q.device.type] // (heads * keys))  # queries per block
    dk, dv = torch.zeros_like(k), torch.zeros_like(v)
    buffers = torch.empty(3, min(step, queries) * heads, keys, dtype=torch.float32, device=q.device)
    key_index = torch.arange(keys, dtype=torch.float32, device=q.device)

    for start in range(0, queries, step):
        block = slice(start, min(start + step, queries))
        qb = _float(q[block]).view(-1, head_dim)  # (rows, D)
        dob = _float(dout[block]).view(-1, head_dim)  # (rows, D)
        x, s, p = buffers[:, : len(qb)]  # (rows, keys) each

        # x becomes t = tanh(x / softcap), where there is a cap
        torch.addmm(x, qb, k.t(), beta=0, alpha=scale / softcap if softcap > 0 else scale, out=x)
        if softcap > 0:
            torch.mul(x.tanh_(), softcap, out=s)
        else:
            s = x
        if slopes is not None:
            query_index = torch.arange(block.start, block.stop, device=q.device) + (keys - queries)
            distance = (query_index[:, None] - key_index).abs_()  # (queries, keys)
            s.view(-1, heads, keys).addcmul_(slopes[:, None], distance[:, None, :], value=-1)
        torch.softmax(s, dim=-1, out=p)

        ob = p @ v  # (rows, D)
        delta = (ob * dob).sum(-1, keepdim=True)  # (rows, 1)
        dv.addmm_(p.t(), dob)
        dx = torch.mm(dob, v.t(), out=s).sub_(delta).mul_(p)
        if softcap > 0:
            dx.addcmul_(dx, x.square_(), value=-1)  # the cap's derivative is 1 - t * t
        dk.addmm_(dx.t(), qb, alpha=scale)

        out[block] = ob.view(-1, heads, head_dim)
        dq[block] = (dx @ k).mul_(scale).view(-1, heads, head_dim)
    return dk, dv
