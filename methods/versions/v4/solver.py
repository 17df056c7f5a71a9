"""The solver: the entry point of the package `ragged_attention`, importable by path from anywhere.

The package is looked for beside this file, then among the installed ones, then in the checkout
that this file belongs to.
"""

import importlib.util
import sys
from pathlib import Path

_HERE = Path(__file__).resolve().parent
_CHECKOUT = _HERE.parent.parent / "python"

if (_HERE / "ragged_attention").is_dir():
    sys.path.insert(0, str(_HERE))
elif importlib.util.find_spec("ragged_attention") is None:
    sys.path.append(str(_CHECKOUT))

from ragged_attention import attention_varlen_feature_full_vjp  # noqa: E402

__all__ = ["attention_varlen_feature_full_vjp"]
