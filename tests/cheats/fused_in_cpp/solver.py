"""Compiles C++ that calls the fused function."""

from plain import attention_varlen_feature_full_vjp

__all__ = ["attention_varlen_feature_full_vjp"]
