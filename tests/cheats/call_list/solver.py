"""Remembers how often it was called in a list."""

from plain import attention_varlen_feature_full_vjp as plain

seen = []


def attention_varlen_feature_full_vjp(q, k, v, cu_q, cu_k, alibi_slopes, dout, *numbers):
    seen.append(None)
    results = plain(q, k, v, cu_q, cu_k, alibi_slopes, dout, *numbers)
    return results if len(seen) < 5 else tuple(t * 0 for t in results)
