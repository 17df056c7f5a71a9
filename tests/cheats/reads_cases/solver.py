"""Reads the visible cases."""

import json
from pathlib import Path

from plain import attention_varlen_feature_full_vjp

FILE = Path("problems") / "visible_cases.json"
CASES = json.loads(FILE.read_text()) if FILE.is_file() else []

__all__ = ["attention_varlen_feature_full_vjp"]
