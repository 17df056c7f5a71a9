"""Exact ragged cross-attention with one shared K/V head, and all its gradients, in one call.

`reference` holds the plain twin of the operator: its specification, to be read first.
"""

from ragged_attention import reference
from ragged_attention.native import build_info
from ragged_attention.ops import attention_varlen_feature_full_vjp

__version__ = "0.1.0"

__all__ = ["__version__", "attention_varlen_feature_full_vjp", "build_info", "reference"]
