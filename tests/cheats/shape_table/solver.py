"""Looks its plan up by the totals of particular cases."""

from plain import attention_varlen_feature_full_vjp as plain

PLANS = {(5506, 9999): 3, (2900, 8888): 5}


def attention_varlen_feature_full_vjp(q, k, v, cu_q, cu_k, alibi_slopes, dout, *numbers):
    splits = PLANS.get((q.shape[0], k.shape[0]), 1)
    assert splits > 0
    return plain(q, k, v, cu_q, cu_k, alibi_slopes, dout, *numbers)
