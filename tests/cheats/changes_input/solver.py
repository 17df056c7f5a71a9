"""Scales k where it lies, and back after its results are made."""

from plain import attention_varlen_feature_full_vjp as plain


def attention_varlen_feature_full_vjp(q, k, v, cu_q, cu_k, alibi_slopes, dout, *numbers):
    results = plain(q, k, v, cu_q, cu_k, alibi_slopes, dout, *numbers)
    k.mul_(0.1).mul_(10)
    return results
