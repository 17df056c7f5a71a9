"""Starts a process in every call."""

import subprocess

from plain import attention_varlen_feature_full_vjp as plain


def attention_varlen_feature_full_vjp(q, k, v, cu_q, cu_k, alibi_slopes, dout, *numbers):
    subprocess.run(["true"], check=False)
    return plain(q, k, v, cu_q, cu_k, alibi_slopes, dout, *numbers)
