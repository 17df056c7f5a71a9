"""PyTorch as an expert would write it: heads packed into rows, derivatives by hand, in 16 bits.

Matrix products take and give the activation dtype; what lies between them is float32. No lengths
are read back from the device.
"""

import torch
from torch import Tensor

from ragged_attention.bench.inputs import Problem
from ragged_attention.bench.methods.method import Call, Method, Results


def prepare(problem: Problem) -> Call:
    """The call; the lengths of the sequences are on the host."""
    return lambda: full_vjp(problem)


@torch.no_grad()
def full_vjp(problem: Problem) -> Results:
    """(out, dq, dk, dv) of a problem."""
    spec = problem.spec
    out, dq, dk, dv = (
        torch.zeros_like(x, memory_format=torch.contiguous_format)
        for x in (problem.q, problem.q, problem.k, problem.k)
    )
    first_q = first_k = 0
    for b, (queries, keys) in enumerate(zip(spec.q_lengths, spec.k_lengths, strict=True)):
        rows, columns = slice(first_q, first_q + queries), slice(first_k, first_k + keys)
        first_q, first_k = rows.stop, columns.stop
        if queries and keys:
            _sequence_vjp(problem, b, rows, columns, out[rows], dq[rows], dk[columns], dv[columns])
    return out, dq, dk, dv


def _sequence_vjp(
    problem: Problem,
    b: int,
    rows: slice,
    columns: slice,
    out: Tensor,  # (queries, heads, D), written
    dq: Tensor,  # (queries, heads, D), written
    dk: Tensor,  # (keys, 1, D), written
    dv: Tensor,  # (keys, 1, D), written
) -> None:
    spec, dtype = problem.spec, problem.q.dtype
    queries, heads, head_dim = out.shape
    keys = dk.shape[0]
    q, do = (x[rows].reshape(-1, head_dim) for x in (problem.q, problem.dout))  # (rows, D)
    k, v = (x[columns, 0].contiguous() for x in (problem.k, problem.v))  # (keys, D)

    x = (q @ k.t()).float().mul_(problem.scale)  # (rows, keys)
    cap_slope = None
    if spec.softcap > 0:
        t = x.div_(spec.softcap).tanh_()
        x, cap_slope = spec.softcap * t, t.square_().neg_().add_(1)
    i = torch.arange(queries, dtype=torch.float32, device=x.device)[:, None]
    j = torch.arange(keys, dtype=torch.float32, device=x.device)
    distance = (i + (keys - queries) - j).abs_()  # (queries, keys)
    slopes = problem.alibi_slopes[b]  # (heads)
    x.view(queries, heads, keys).addcmul_(slopes[:, None], distance[:, None, :], value=-1)
    p = torch.softmax(x, dim=-1)

    dx = (do @ v.t()).float()  # dP
    dx.sub_((p * dx).sum(-1, keepdim=True)).mul_(p)
    if cap_slope is not None:
        dx.mul_(cap_slope)
    p, dx = p.to(dtype), dx.to(dtype)

    out.copy_((p @ v).view(out.shape))
    dq.copy_((dx @ k).float().mul_(problem.scale).view(out.shape))
    dk[:, 0] = (dx.t() @ q).float().mul_(problem.scale)
    dv[:, 0] = p.t() @ do


METHOD = Method(
    name="packed_pytorch",
    missing=lambda device: "",
    prepare=prepare,
    version=lambda: f"torch {torch.__version__}",
    samples=10,
)
