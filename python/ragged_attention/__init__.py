"""Exact ragged cross-attention with one shared K/V head, and all its gradients, in one call."""

from ragged_attention import reference

__all__ = ["reference"]
