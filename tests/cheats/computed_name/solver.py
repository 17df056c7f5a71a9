"""Computes the name of an operator."""

import torch
from plain import attention_varlen_feature_full_vjp as plain


def attention_varlen_feature_full_vjp(q, k, v, cu_q, cu_k, alibi_slopes, dout, *numbers):
    names = [name for name in dir(torch.ops.aten) if name.startswith("_scaled")]
    for name in names:
        getattr(torch.ops.aten, name)
    return plain(q, k, v, cu_q, cu_k, alibi_slopes, dout, *numbers)
