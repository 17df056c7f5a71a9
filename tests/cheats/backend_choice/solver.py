"""Chooses a backend of the fused function."""

import torch
from plain import attention_varlen_feature_full_vjp

torch.backends.cuda.enable_flash_sdp(True)

__all__ = ["attention_varlen_feature_full_vjp"]
