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

_REAL = (float, int, numbers.Real)  # the usual ones first: numbers.Real takes longer to ask
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

    if not isinstance(q, Tensor):
        raise _no_tensor("q", q)
    device, dtype, shape = q.device, q.dtype, q.shape
    if dtype not in DTYPES:
        raise TypeError(f"q: dtype {_short(dtype)}; needed is {' or '.join(map(_short, DTYPES))}")
    if not q.is_cuda and device.type not in DEVICES:  # the type is a new string
        raise ValueError(f"q: device {device}; needed is {' or '.join(DEVICES)}")
    if len(shape) != 3:
        raise ValueError(f"q: shape {tuple(shape)}; needed is [total_q, heads, {HEAD_DIM}]")
    _, heads, head_dim = shape
    if head_dim != HEAD_DIM:
        raise ValueError(f"q: head_dim {head_dim}; the compiled kernels have {HEAD_DIM}")
    if not 1 <= heads <= MAX_HEADS:
        raise ValueError(f"q: {heads} heads; needed is 1 to {MAX_HEADS}")

    key_shape = _shape_of("k", k, dtype, device, ", the same as q")
    if len(key_shape) != 3:
        raise ValueError(f"k: shape {tuple(key_shape)}; needed is [total_k, 1, {HEAD_DIM}]")
    _, key_heads, key_dim = key_shape
    if key_heads != 1:
        raise ValueError(f"k: {key_heads} heads; needed is 1 K/V head, shared by all of q's")
    if key_dim != HEAD_DIM:
        raise ValueError(f"k: head_dim {key_dim}; the compiled kernels have {HEAD_DIM}")
    v_shape = _shape_of("v", v, dtype, device, ", the same as q")
    _check_shape("v", v_shape, key_shape, "that of k")
    dout_shape = _shape_of("dout", dout, dtype, device, ", the same as q")
    _check_shape("dout", dout_shape, shape, "that of q")

    offsets = _check_offsets("cu_q", cu_q, device)
    key_offsets = _check_offsets("cu_k", cu_k, device)
    if key_offsets != offsets:
        raise ValueError(f"cu_k: {key_offsets} offsets; needed are {offsets}, as many as cu_q has")
    if alibi_slopes is not None:
        slopes_shape = _shape_of("alibi_slopes", alibi_slopes, torch.float32, device)
        _check_shape("alibi_slopes", slopes_shape, (offsets - 1, heads), "[batch, heads]")


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
    if not isinstance(value, _REAL):
        raise TypeError(f"{name}: a {type(value).__name__}; needed is a real number")
    if not least <= value <= _FLOAT32_MAX:  # NaN fails too
        raise ValueError(
            f"{name}: {value}; needed is a finite float32"
            + (", at least 0 (0 is no cap)" if least == 0 else "")
        )


def _no_tensor(name: str, value: object) -> TypeError:
    return TypeError(f"{name}: a {type(value).__name__}; needed is a torch.Tensor")


def _shape_of(
    name: str, tensor: Tensor, dtype: torch.dtype, device: torch.device, why: str = ""
) -> torch.Size:
    """The shape of what is a tensor of this dtype and device; `why` ends the message on dtype."""
    if not isinstance(tensor, Tensor):
        raise _no_tensor(name, tensor)
    if tensor.dtype != dtype:
        raise TypeError(f"{name}: dtype {_short(tensor.dtype)}; needed is {_short(dtype)}{why}")
    if tensor.device != device:
        raise ValueError(f"{name}: device {tensor.device}; needed is {device}, the device of q")
    return tensor.shape


def _check_shape(name: str, shape: torch.Size, needed: tuple[int, ...], what: str) -> None:
    if shape != needed:
        raise ValueError(f"{name}: shape {tuple(shape)}; needed is {tuple(needed)}, {what}")


def _check_offsets(name: str, offsets: Tensor, device: torch.device) -> int:
    """How many offsets there are."""
    shape = _shape_of(name, offsets, torch.int32, device)
    if len(shape) != 1 or shape[0] == 0:
        raise ValueError(f"{name}: shape {tuple(shape)}; needed is [batch + 1]")
    return shape[0]


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
