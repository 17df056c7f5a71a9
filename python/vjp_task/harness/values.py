"""Fresh values for the tensors of a case, in place: the judge and its worker draw the same ones."""

from collections.abc import Mapping

import torch
from torch import Tensor

DRAWN = ("q", "k", "v", "dout")


def redraw(tensors: Mapping[str, Tensor], slopes: Tensor, seed: int) -> None:
    """Writes standard normal values into q, k, v, dout and shuffles the sequences' slopes.

    `slopes` are the case's own ALiBi slopes `[batch, heads]`; a shuffle of their rows goes into
    `tensors["alibi_slopes"]`. What lies outside the views stays. One kind of device always draws
    the same values from a seed.
    """
    generator = torch.Generator(slopes.device).manual_seed(seed)
    for name in DRAWN:
        target = tensors[name]
        target.copy_(
            torch.randn(target.shape, generator=generator, dtype=target.dtype, device=target.device)
        )
    order = torch.randperm(len(slopes), generator=generator, device=slopes.device)
    tensors["alibi_slopes"].copy_(slopes[order])
