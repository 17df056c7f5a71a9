"""Score modifiers for flash_attn.cute; imports its DSL, so only its adapter may import this."""

from collections.abc import Callable
from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass._mlir.dialects import math as mlir_math


def create_modifiers(heads: int, softcap: float) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The score after cap and bias, and the gradient by the score before them.

    aux_tensors[0] holds the ALiBi slopes, (batch * heads) float32.
    """

    @cute.jit
    def score_mod(score, b_idx, h_idx, q_idx, kv_idx, seqlen_info, aux_tensors):
        place = cute.make_rmem_tensor(1, cutlass.Int32)
        place.store(b_idx * cute.full_like(b_idx, heads) + h_idx)
        slope = cute.make_rmem_tensor(1, cutlass.Float32)
        slope[0] = aux_tensors[0][place[0]]
        shift = seqlen_info.seqlen_k - seqlen_info.seqlen_q
        offset = q_idx + cute.full_like(q_idx, shift) - kv_idx
        distance = cute.TensorSSA(mlir_math.absi(offset), offset.shape, offset.dtype)
        capped = softcap * cute.math.tanh(score / softcap, fastmath=True)
        return capped - slope.load() * distance.to(cutlass.Float32)

    @cute.jit
    def score_mod_bwd(grad, score, b_idx, h_idx, q_idx, kv_idx, seqlen_info, aux_tensors):
        t = cute.math.tanh(score / softcap, fastmath=True)
        return grad * (1.0 - t * t)

    return score_mod, score_mod_bwd
