"""The contract of the operator's arguments: every mistake is named before anything runs.

A message reads `<argument>: <what it is>; <what is needed>`. TypeError stands for a wrong type or
dtype, ValueError for a wrong value, shape or device.
"""

import numbers

import torch
from torch import Tensor

HEAD_DIM = 160  # the one width the kernels are compiled for
MAX_HEADS = 128  # query heads that share the one K/V head
DTYPES = (torch.float16, torch.bfloat16)
DEVICES = ("cpu", "cuda", "meta")  # meta tensors get results without values

_FLOAT32_MAX = torch.finfo(torch.float32).max


def check_arguments(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_q: Tensor,
    cu_k: Tensor,
    alibi_slopes: Tensor | None,
    dout: Tensor,
    causal: bool,
    window_left: int,
    window_right: int,
    softcap: float,
    scale_multiplier: float,
) -> None:
    """Checks all that the host knows without reading a tensor's values; never synchronises.

    Raises TypeError or ValueError; see `ops.attention_varlen_feature_full_vjp` for the contract.
    """
    _check_mask(causal, window_left, window_right)
    _check_number("softcap", softcap, 0.0)
    _check_number("scale_multiplier", scale_multiplier, -_FLOAT32_MAX)

    _check_tensor("q", q)
    device, dtype, shape = q.device, q.dtype, q.shape
    if dtype not in DTYPES:
        raise TypeError(f"q: dtype {_short(dtype)}; needed is {' or '.join(map(_short, DTYPES))}")
    if device.type not in DEVICES:
        raise ValueError(f"q: device {device}; needed is {' or '.join(DEVICES)}")
    if len(shape) != 3:
        raise ValueError(f"q: shape {tuple(shape)}; needed is [total_q, heads, {HEAD_DIM}]")
    heads, head_dim = shape[1], shape[2]
    if head_dim != HEAD_DIM:
        raise ValueError(f"q: head_dim {head_dim}; the compiled kernels have {HEAD_DIM}")
    if not 1 <= heads <= MAX_HEADS:
        raise ValueError(f"q: {heads} heads; needed is 1 to {MAX_HEADS}")

    _check_like_q("k", k, device, dtype)
    key_shape = k.shape
    if len(key_shape) != 3:
        raise ValueError(f"k: shape {tuple(key_shape)}; needed is [total_k, 1, {HEAD_DIM}]")
    if key_shape[1] != 1:
        raise ValueError(f"k: {key_shape[1]} heads; needed is 1 K/V head, shared by all of q's")
    if key_shape[2] != HEAD_DIM:
        raise ValueError(f"k: head_dim {key_shape[2]}; the compiled kernels have {HEAD_DIM}")
    _check_like_q("v", v, device, dtype)
    _check_shape("v", v, key_shape, "that of k")
    _check_like_q("dout", dout, device, dtype)
    _check_shape("dout", dout, shape, "that of q")

    _check_offsets("cu_q", cu_q, device)
    _check_offsets("cu_k", cu_k, device)
    offsets = cu_q.shape[0]
    if cu_k.shape[0] != offsets:
        raise ValueError(
            f"cu_k: {cu_k.shape[0]} offsets; needed are {offsets}, as many as cu_q has"
        )
    if alibi_slopes is not None:
        _check_tensor("alibi_slopes", alibi_slopes)
        _check_device("alibi_slopes", alibi_slopes, device)
        _check_dtype("alibi_slopes", alibi_slopes, torch.float32)
        _check_shape("alibi_slopes", alibi_slopes, (offsets - 1, heads), "[batch, heads]")


def check_lengths(q: Tensor, k: Tensor, cu_q: Tensor, cu_k: Tensor) -> None:
    """Checks that the offsets describe the tensors; reads them, so it waits for their device.

    Raises ValueError where they do not start at 0, fall, or do not end at the tensor's rows.
    """
    _check_offset_values("cu_q", cu_q, "q", q.shape[0])
    _check_offset_values("cu_k", cu_k, "k", k.shape[0])


def _check_offset_values(name: str, offsets: Tensor, rows_name: str, rows: int) -> None:
    values = offsets.cpu()
    first, last = int(values[0]), int(values[-1])
    if first != 0:
        raise ValueError(f"{name}: starts at {first}; needed is 0")
    falls = (values[1:] < values[:-1]).nonzero()
    if len(falls):
        at = int(falls[0])
        before, after = values[at : at + 2].tolist()
        raise ValueError(
            f"{name}: falls from {before} to {after} after sequence {at}; "
            "needed are offsets that never fall"
        )
    if last != rows:
        raise ValueError(
            f"{rows_name}: {rows} rows, but {name} ends at {last}; the two must be equal"
        )


def _check_mask(causal: bool, window_left: int, window_right: int) -> None:
    if causal:
        raise ValueError(f"causal: {causal}; needed is False, a causal mask is not supported")
    if window_left != -1:
        raise ValueError(f"window_left: {window_left}; needed is -1, windows are not supported")
    if window_right != -1:
        raise ValueError(f"window_right: {window_right}; needed is -1, windows are not supported")


def _check_number(name: str, value: float, least: float) -> None:
    if not isinstance(value, (float, int, numbers.Real)):
        raise TypeError(f"{name}: a {type(value).__name__}; needed is a real number")
    if not least <= value <= _FLOAT32_MAX:  # NaN fails too
        raise ValueError(
            f"{name}: {value}; needed is a finite float32"
            + (", at least 0 (0 is no cap)" if least == 0 else "")
        )


def _check_tensor(name: str, value: Tensor) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(f"{name}: a {type(value).__name__}; needed is a torch.Tensor")


def _check_device(name: str, tensor: Tensor, device: torch.device) -> None:
    if tensor.device != device:
        raise ValueError(f"{name}: device {tensor.device}; needed is {device}, the device of q")


def _check_dtype(name: str, tensor: Tensor, dtype: torch.dtype) -> None:
    if tensor.dtype != dtype:
        raise TypeError(f"{name}: dtype {_short(tensor.dtype)}; needed is {_short(dtype)}")


def _check_like_q(name: str, tensor: Tensor, device: torch.device, dtype: torch.dtype) -> None:
    _check_tensor(name, tensor)
    if tensor.dtype != dtype:
        raise TypeError(
            f"{name}: dtype {_short(tensor.dtype)}; needed is {_short(dtype)}, the same as q"
        )
    _check_device(name, tensor, device)


def _check_shape(name: str, tensor: Tensor, shape: tuple[int, ...], what: str) -> None:
    if tensor.shape != shape:
        raise ValueError(f"{name}: shape {tuple(tensor.shape)}; needed is {tuple(shape)}, {what}")


def _check_offsets(name: str, offsets: Tensor, device: torch.device) -> None:
    _check_tensor(name, offsets)
    _check_dtype(name, offsets, torch.int32)
    _check_device(name, offsets, device)
    if offsets.ndim != 1 or offsets.shape[0] == 0:
        raise ValueError(f"{name}: shape {tuple(offsets.shape)}; needed is [batch + 1]")


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
