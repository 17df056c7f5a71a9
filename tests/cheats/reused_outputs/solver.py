"""Returns the same memory in every call, so that a call writes over the last one's results."""

from plain import attention_varlen_feature_full_vjp as plain

buffers = {}


def into(key, results):
    kept = buffers.setdefault(key, results)
    for target, result in zip(kept, results, strict=True):
        target.copy_(result)
    return kept


def attention_varlen_feature_full_vjp(q, k, v, cu_q, cu_k, alibi_slopes, dout, *numbers):
    results = plain(q, k, v, cu_q, cu_k, alibi_slopes, dout, *numbers)
    return into((q.shape, k.shape), results)
