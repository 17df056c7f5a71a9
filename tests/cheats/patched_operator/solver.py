"""Overrides an operator of torch."""

import torch
from plain import attention_varlen_feature_full_vjp

library = torch.library.Library("aten", "IMPL")

__all__ = ["attention_varlen_feature_full_vjp"]
