"""What the operator's tests share: ragged cases, problems in the family's layout, the verdict."""

import math
from collections.abc import Sequence

import torch
from ragged_attention import attention_varlen_feature_full_vjp, reference, tolerance
from ragged_attention.checks import HEAD_DIM
from torch import Tensor

Lengths = Sequence[tuple[int, int]]  # (queries, keys) of every sequence
Arguments = dict[str, object]  # the operator's arguments by name

DTYPES = (torch.float16, torch.bfloat16)
FEATURES = ("q", "k", "v", "dout")
NAMES = tolerance.NAMES

# Lengths by the reason they are here. Every case keeps a sequence of several keys, without which
# the true dq and dk are exactly 0 and no relative error exists; those have tests of their own.
RAGGED: dict[str, Lengths] = {
    "two_plain": [(20, 30), (33, 17)],
    "one_token": [(1, 1), (1, 7), (9, 1)],
    "one_query_each": [(1, 5), (1, 2), (1, 11), (1, 3)],
    "empty_queries": [(0, 25), (13, 17), (0, 8)],
    "empty_keys": [(5, 0), (3, 11), (4, 0)],
    "empty_both": [(0, 0), (6, 9), (0, 0), (0, 0), (2, 5)],
    "empty_by_turns": [(0, 3), (1, 5), (4, 0), (1, 2), (0, 31)],
    "more_queries": [(120, 7), (70, 40)],
    "more_keys": [(7, 120), (5, 300)],
    "tile_minus_one": [(31, 63), (63, 95), (1, 127)],
    "tile_exact": [(32, 64), (64, 96), (16, 128)],
    "tile_plus_one": [(33, 65), (65, 97), (3, 129)],
    "very_uneven": [(1, 2), (200, 3), (2, 400), (0, 1), (17, 16)],
}

# Storage of q, k, v, dout: every step-th token row, and so many features beyond the view.
_STEPS = {"q": (2, 8), "k": (3, 16), "v": (2, 24), "dout": (3, 32)}


def make_problem(
    lengths: Lengths,
    *,
    heads: int = 3,
    dtype: torch.dtype = torch.float16,
    device: torch.device | str = "cpu",
    seed: int = 0,
    softcap: float = 3.0,
    scale_multiplier: float = 0.75,
    slope_sign: float = 1.0,
    strided: bool = True,
) -> Arguments:
    """Arguments as in the family: normal values, ALiBi slopes by head, views with NaN around them.

    A `slope_sign` of 0 means None for alibi_slopes; `strided=False` gives dense tensors.
    """
    generator = torch.Generator(device).manual_seed(seed)
    totals = {"q": sum(n for n, _ in lengths), "k": sum(n for _, n in lengths)}
    shapes = {
        name: (totals["q"], heads, HEAD_DIM)
        if name in ("q", "dout")
        else (totals["k"], 1, HEAD_DIM)
        for name in FEATURES
    }
    features = {}
    for name, shape in shapes.items():
        values = torch.randn(shape, generator=generator, dtype=dtype, device=device)
        features[name] = strided_copy(values, *_STEPS[name]) if strided else values
    dout = features.pop("dout")
    return {  # in the order of the operator's arguments
        **features,
        "cu_q": offsets([n for n, _ in lengths], device),
        "cu_k": offsets([n for _, n in lengths], device),
        "alibi_slopes": _slopes(len(lengths), heads, slope_sign, generator),
        "dout": dout,
        "causal": False,
        "window_left": -1,
        "window_right": -1,
        "softcap": softcap,
        "scale_multiplier": scale_multiplier,
    }


def offsets(lengths: Sequence[int], device: torch.device | str = "cpu") -> Tensor:
    """int32 `[batch + 1]` token offsets of sequences of these lengths."""
    ends = torch.tensor([0, *lengths], dtype=torch.int64).cumsum(0)
    return ends.to(torch.int32).to(device)


def strided_copy(values: Tensor, step: int, pad: int, lead: int = 0) -> Tensor:
    """The same values as a view of a larger storage that holds NaN everywhere else.

    The view starts after `lead` elements, takes every `step`-th token, and leaves out `pad`
    features of each row.
    """
    tokens, heads, features = values.shape
    token_stride = step * heads * (features + pad)
    storage = torch.full(
        (lead + tokens * token_stride,), math.nan, dtype=values.dtype, device=values.device
    )
    strides = (token_stride, features + pad, 1)
    return storage.as_strided(values.shape, strides, storage_offset=lead).copy_(values)


def run(arguments: Arguments, **options: object) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The public function on a problem."""
    return attention_varlen_feature_full_vjp(**arguments, **options)


def twin(arguments: Arguments, dtype: torch.dtype | None = None) -> tuple[Tensor, ...]:
    """The twin's results; float64 gives the truth, None stays in the problem's own dtype."""
    tensors = {
        n: a for n, a in arguments.items() if n not in ("causal", "window_left", "window_right")
    }
    for name in FEATURES if dtype is not None else ():
        tensors[name] = arguments[name].detach().to(dtype)
    return reference.full_vjp(**tensors)


def assert_correct(got: Sequence[Tensor], arguments: Arguments) -> None:
    """Shapes, dtypes, layout, and the tolerance rule for all four results."""
    assert_well_formed(got, arguments)
    verdicts = tolerance.check_all(tuple(got), twin(arguments, torch.float64), twin(arguments))
    assert all(v.passed for v in verdicts), "; ".join(
        f"{v.name}: {v.reason}" for v in verdicts if not v.passed
    )


def assert_well_formed(got: Sequence[Tensor], arguments: Arguments) -> None:
    """The results are ordinary dense tensors like q, q, k, v, and no part of any graph."""
    for name, result, like in zip(NAMES, got, ("q", "q", "k", "v"), strict=True):
        expected = arguments[like]
        assert result.shape == expected.shape, name
        assert result.dtype == expected.dtype, name
        assert result.device == expected.device, name
        assert result.is_contiguous(), name
        assert not result.requires_grad, name
        assert result.grad_fn is None, name


def assert_same_bits(got: Sequence[Tensor], want: Sequence[Tensor]) -> None:
    """Equal bit for bit, NaN included."""
    for name, a, b in zip(NAMES, got, want, strict=True):
        assert torch.equal(a.view(torch.int16), b.view(torch.int16)), f"{name} differs"


def snapshot(arguments: Arguments) -> dict[str, Tensor]:
    """A copy of the whole storage behind every tensor argument."""
    return {n: _storage(a).clone() for n, a in arguments.items() if isinstance(a, Tensor)}


def assert_unchanged(arguments: Arguments, before: dict[str, Tensor]) -> None:
    """No byte of any storage differs from the snapshot."""
    for name, bytes_before in before.items():
        assert torch.equal(_storage(arguments[name]), bytes_before), f"{name} was changed"


def poison(arguments: Arguments) -> None:
    """Leaves NaN in the memory that the next call's results and scratch will get, on a GPU."""
    q, k = arguments["q"], arguments["k"]
    if q.is_cuda:
        shapes = [q.shape, q.shape, k.shape, k.shape]
        shapes += [(1 << n,) for n in range(8, 26)]  # 512 bytes to 64 MiB
        blocks = [torch.full(s, math.nan, dtype=q.dtype, device=q.device) for s in shapes]
        del blocks


def _storage(tensor: Tensor) -> Tensor:
    return torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())


def _slopes(batch: int, heads: int, sign: float, generator: torch.Generator) -> Tensor | None:
    if sign == 0:
        return None
    device = generator.device
    by_head = 2.0 ** (-8.0 * torch.arange(1, heads + 1, device=device) / heads)
    factors = torch.rand((batch, heads), generator=generator, device=device) + 0.5
    return sign * by_head * factors
