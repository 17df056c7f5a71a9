"""Helpers in a package of its own, imported absolutely and relatively."""

from parts.entry import attention_varlen_feature_full_vjp

__all__ = ["attention_varlen_feature_full_vjp"]
