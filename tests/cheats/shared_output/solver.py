"""Returns the same memory twice."""

from plain import attention_varlen_feature_full_vjp as plain


def attention_varlen_feature_full_vjp(q, k, v, cu_q, cu_k, alibi_slopes, dout, *numbers):
    out, _, dk, dv = plain(q, k, v, cu_q, cu_k, alibi_slopes, dout, *numbers)
    return out, out, dk, dv
