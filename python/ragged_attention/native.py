"""The native path: finds the compiled module, chooses tiles, allocates, enqueues the kernels."""

import functools
import importlib.util
import math
import os
import platform
import warnings
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType

import torch
from torch import Tensor

from ragged_attention import build_on_import, torch_shortcuts
from ragged_attention.checks import HEAD_DIM

MODULE = "ragged_attention._native"
TILES = ("sm86", "sm90")  # rows of the kernels' tile table
TILES_VARIABLE = "RAGGED_ATTENTION_TILES"

_FOLDERS = (Path(__file__).parent, Path(__file__).parent.parent)  # the package, and beside it
_ALIGNMENT = 16  # bytes; the kernels copy 16 at a time
_ALIGNED_ELEMENTS = _ALIGNMENT // 2  # of either dtype
_SQRT_HEAD_DIM = math.sqrt(HEAD_DIM)
_DTYPE_NAMES = {torch.float16: "float16", torch.bfloat16: "bfloat16"}


@functools.cache
def load() -> ModuleType | None:
    """The compiled module: installed with the package, or a file beside it; None if there is none.

    In a bundle it is one that suits the card, and None where that could not be built.
    Raises ImportError, with its cause, where a module is there and does not load. A timing build,
    whose results are wrong, is told in a RuntimeWarning.
    """
    if build_on_import.in_bundle() and not build_on_import.ready():
        return None
    spec = importlib.util.find_spec(MODULE) or PathFinder.find_spec(
        MODULE, [str(folder) for folder in _FOLDERS]
    )
    if spec is None or spec.loader is None:
        return None
    try:
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    except ImportError as error:
        raise ImportError(
            f"{MODULE}: {spec.origin} does not load ({error}); "
            f"needed is a module built for Python {platform.python_version()} on this machine"
        ) from error
    repeat = module.build_info().get("mma_repeat", 1)
    if repeat > 1:
        warnings.warn(
            f"{MODULE}: {spec.origin} issues every tensor instruction {repeat} times, so its "
            "results are wrong; needed is a build with RAGGED_ATTENTION_MMA_REPEAT=1",
            RuntimeWarning,
            stacklevel=2,
        )
    return module


def why_missing() -> str:
    """One clause for a message: what was looked for, and what was found in its place."""
    others = [file.name for folder in _FOLDERS for file in sorted(folder.glob("_native.*.so"))]
    found = f"only {', '.join(others)}" if others else "none"
    return f"{MODULE}: {found} for Python {platform.python_version()}"


def build_info() -> dict[str, object]:
    """What the module was built from and what runs it.

    Keys: backend ('native' where CUDA tensors take the compiled kernels, else 'portable'), torch
    and python (versions), and of the module, None where there is none: compiler, architectures,
    cutlass, commit, sm (compiled capabilities), mma_repeat (how often each tensor instruction is
    issued: 1, more in a timing build), python_module (Python version tag).
    Raises ImportError as `load` does.
    """
    of_module = dict.fromkeys(
        ("compiler", "architectures", "cutlass", "commit", "sm", "mma_repeat", "python_module")
    )
    module = load()
    if module is not None:
        of_module |= module.build_info()
    return {
        "backend": "portable" if module is None else "native",
        "torch": torch.__version__,
        "python": platform.python_version(),
        **of_module,
    }


def full_vjp(
    module: ModuleType,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_q: Tensor,
    cu_k: Tensor,
    alibi_slopes: Tensor | None,
    dout: Tensor,
    softcap: float,
    scale_multiplier: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(out, dq, dk, dv) from the compiled kernels, on the current stream of q's device.

    Shapes as in `reference.full_vjp`; CUDA tensors, arguments checked. Waits for nothing.
    Raises ValueError for an unknown tile row in RAGGED_ATTENTION_TILES, RuntimeError where the
    module holds no kernel for the card or a launch fails.
    """
    device = q.device.index
    total_q, heads, _ = q.shape
    total_k, batch = k.shape[0], cu_q.shape[0] - 1
    tiles = _tiles(module, os.environ.get(TILES_VARIABLE), device)

    q, q_address, q_strides = _copyable(q)
    k, k_address, k_strides = _copyable(k)
    v, v_address, v_strides = _copyable(v)
    dout, dout_address, dout_strides = _copyable(dout)
    cu_q, cu_k = cu_q.contiguous(), cu_k.contiguous()
    slopes, slope_strides = 0, (0, 0)
    if alibi_slopes is not None:
        slopes, slope_strides = alibi_slopes.data_ptr(), alibi_slopes.stride()

    empty = torch_shortcuts.allocator(q.device)
    rows = (total_q, heads, HEAD_DIM), (heads * HEAD_DIM, HEAD_DIM, 1), q.dtype
    keys = (total_k, 1, HEAD_DIM), (HEAD_DIM, HEAD_DIM, 1), k.dtype
    out, dq, dk, dv = empty(*rows), empty(*rows), empty(*keys), empty(*keys)
    workspace_bytes = module.workspace_bytes(total_q, total_k, batch, heads, tiles, device)
    workspace = empty((workspace_bytes,), (1,), torch.uint8)

    # By position, in the order of the module's docstring: by name costs 2 us more.
    module.full_vjp(
        q_address, k_address, v_address, dout_address, cu_q.data_ptr(), cu_k.data_ptr(), slopes,
        out.data_ptr(), dq.data_ptr(), dk.data_ptr(), dv.data_ptr(), workspace.data_ptr(),
        q_strides, k_strides, v_strides, dout_strides, slope_strides, total_q, total_k, batch,
        heads, softcap, scale_multiplier / _SQRT_HEAD_DIM, _DTYPE_NAMES[q.dtype], tiles, device,
        torch_shortcuts.current_stream(device),
    )  # fmt: skip
    return out, dq, dk, dv


@functools.cache
def _tiles(module: ModuleType, wanted: str | None, device: int) -> str:
    if not wanted:
        return module.choose_tiles(device)
    if wanted not in TILES:
        raise ValueError(f"{TILES_VARIABLE}: {wanted}; needed is {' or '.join(TILES)}, or unset")
    module.check_tiles(wanted, device)
    return wanted


def _copyable(x: Tensor) -> tuple[Tensor, int, tuple[int, int]]:
    """x, or a dense copy where 16-byte copies cannot read it; its address; (token, head) strides.

    The address lives as long as the tensor.
    """
    token, head, feature = x.stride()
    address = x.data_ptr()
    if feature != 1 or (token | head) % _ALIGNED_ELEMENTS or address % _ALIGNMENT:
        x = x.detach().clone(memory_format=torch.contiguous_format)
        token, head, _ = x.stride()
        address = x.data_ptr()
    return x, address, (token, head)


if build_on_import.in_bundle():
    build_on_import.ready()  # while the package is imported, so that no call waits for a compiler
