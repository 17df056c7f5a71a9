"""Leaves a mode of torch on, which would see new values arrive before the clock starts."""

from plain import attention_varlen_feature_full_vjp as plain
from torch.overrides import TorchFunctionMode


class Spy(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def attention_varlen_feature_full_vjp(q, k, v, cu_q, cu_k, alibi_slopes, dout, *numbers):
    results = plain(q, k, v, cu_q, cu_k, alibi_slopes, dout, *numbers)
    Spy().__enter__()
    return results
