"""Lets a fork of itself work beside the calls."""

import os

from plain import attention_varlen_feature_full_vjp

if os.fork() == 0:
    os.pause()

__all__ = ["attention_varlen_feature_full_vjp"]
