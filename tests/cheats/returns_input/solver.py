"""Returns a result in the memory of an input."""

from plain import attention_varlen_feature_full_vjp as plain


def attention_varlen_feature_full_vjp(q, k, v, cu_q, cu_k, alibi_slopes, dout, *numbers):
    out, dq, dk, _ = plain(q, k, v, cu_q, cu_k, alibi_slopes, dout, *numbers)
    return out, dq, dk, v
