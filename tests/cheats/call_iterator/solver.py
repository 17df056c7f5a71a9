"""Remembers how often it was called in an iterator."""

import itertools

from plain import attention_varlen_feature_full_vjp as plain

counter = itertools.count()


def attention_varlen_feature_full_vjp(q, k, v, cu_q, cu_k, alibi_slopes, dout, *numbers):
    number = next(counter)
    results = plain(q, k, v, cu_q, cu_k, alibi_slopes, dout, *numbers)
    return results if number < 5 else tuple(t * 0 for t in results)
