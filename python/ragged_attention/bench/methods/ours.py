"""This package's kernels, with either row of the tile table."""

import functools
import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from ragged_attention import attention_varlen_feature_full_vjp, native
from ragged_attention.bench.inputs import Problem
from ragged_attention.bench.methods.method import Call, Method, Results, needs_gpu


@contextmanager
def tile_row(row: str) -> Iterator[None]:
    """Forces a row of the tile table within a block."""
    before = os.environ.get(native.TILES_VARIABLE)
    os.environ[native.TILES_VARIABLE] = row
    try:
        yield
    finally:
        if before is None:
            del os.environ[native.TILES_VARIABLE]
        else:
            os.environ[native.TILES_VARIABLE] = before


def _missing(row: str, device: torch.device) -> str:
    if reason := needs_gpu(device):
        return reason
    module = native.load()
    if module is None:
        return native.why_missing()
    try:
        module.check_tiles(row, device.index)
    except RuntimeError as error:
        return str(error)
    return ""


def _prepare(row: str, problem: Problem) -> Call:
    arguments = problem.arguments()

    def call() -> Results:
        with tile_row(row):
            return attention_varlen_feature_full_vjp(*arguments)

    return call


def _version() -> str:
    return str(native.build_info()["commit"])


def _method(row: str) -> Method:
    return Method(
        name=f"ours_{row}",
        missing=functools.partial(_missing, row),
        prepare=functools.partial(_prepare, row),
        version=_version,
        tiles=row,
    )


SM86, SM90 = (_method(row) for row in native.TILES)
