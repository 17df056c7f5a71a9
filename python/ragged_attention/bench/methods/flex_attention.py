"""FlexAttention: one packed sequence, a block mask that keeps the sequences apart, autograd.

Compiles anew for every shape, for many seconds: it runs only where it is asked for.
"""

import functools
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import pad

from ragged_attention.bench.inputs import Problem
from ragged_attention.bench.methods.method import Call, Method, needs_gpu, with_autograd

_BLOCK = 128  # tokens, of the block mask


def _prepare(problem: Problem) -> Call:
    compiled = functools.partial(torch.compile, dynamic=False)
    return with_autograd(problem, attend(problem, compiled))


def attend(
    problem: Problem, compiled: Callable[[Callable], Callable]
) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """The forward function of a problem; `compiled` turns FlexAttention into what is called."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    spec, device = problem.spec, problem.q.device
    q_sequence, q_index = _places(spec.q_lengths, device, beyond=0)
    k_sequence, k_index = _places(spec.k_lengths, device, beyond=-1)  # of no sequence
    lengths = zip(spec.q_lengths, spec.k_lengths, strict=True)
    shift = torch.tensor([keys - queries for queries, keys in lengths], device=device)
    slopes, softcap = problem.alibi_slopes, spec.softcap

    def score_mod(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        sequence = q_sequence[i]
        distance = (q_index[i] + shift[sequence] - k_index[j]).abs()
        return softcap * torch.tanh(score / softcap) - slopes[sequence, h] * distance

    def same_sequence(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return q_sequence[i] == k_sequence[j]

    mask = create_block_mask(
        same_sequence, None, None, spec.total_q, spec.total_k, str(device), _BLOCK
    )
    function = compiled(flex_attention)

    def forward(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        heads_first = (x.transpose(0, 1)[None] for x in (q, k, v))  # (1, heads, tokens, D)
        out = function(
            *heads_first,
            score_mod=score_mod,
            block_mask=mask,
            scale=problem.scale,
            enable_gqa=True,
        )
        return out[0].transpose(0, 1)

    return forward


def _places(lengths: tuple[int, ...], device: torch.device, beyond: int) -> tuple[Tensor, Tensor]:
    """Sequence of each token, and its index within the sequence.

    The last block of tokens is asked for as a whole: tokens that are not there are `beyond`.
    """
    counts = torch.tensor(lengths, device=device)
    sequence = torch.arange(len(lengths), device=device).repeat_interleave(counts)
    begins = counts.cumsum(0) - counts
    index = torch.arange(len(sequence), device=device) - begins[sequence]
    more = -len(sequence) % _BLOCK
    return pad(sequence, (0, more), value=beyond), pad(index, (0, more))


METHOD = Method(
    name="flex_attention",
    missing=needs_gpu,
    prepare=_prepare,
    version=lambda: f"torch {torch.__version__}",
    samples=5,
    by_default=False,
)
