"""The eager baseline that speedups refer to: `methods/baseline/solver.py` of the repository."""

import functools
import importlib.util
from pathlib import Path
from typing import Any

import torch

from ragged_attention.bench.inputs import Problem
from ragged_attention.bench.methods.method import Call, Method
from ragged_attention.bench.repository import repository


def _file() -> Path:
    return repository() / "methods" / "baseline" / "solver.py"


def _missing(device: torch.device) -> str:
    return "" if _file().is_file() else "methods/baseline/solver.py is not in the repository"


def _prepare(problem: Problem) -> Call:
    spec = importlib.util.spec_from_file_location("eager_baseline", _file())
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return functools.partial(module.attention_varlen_feature_full_vjp, *problem.arguments())


METHOD = Method(
    name="eager",
    missing=_missing,
    prepare=_prepare,
    version=lambda: f"torch {torch.__version__}",
    samples=5,
)
