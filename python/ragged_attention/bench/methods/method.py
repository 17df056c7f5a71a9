"""What a method is to the benchmark, and what several of them share."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ragged_attention.bench.inputs import Problem

Results = tuple[Tensor, Tensor, Tensor, Tensor]  # out, dq, dk, dv
Call = Callable[[], Results]


@dataclass(frozen=True)
class Method:
    """One way to compute out, dq, dk and dv."""

    name: str
    # Why it cannot run on a device, in one clause; empty where it can.
    missing: Callable[[torch.device], str]
    # The call to check and to time. What it does before it returns is in no figure.
    prepare: Callable[[Problem], Call]
    version: Callable[[], str]
    samples: int = 30
    by_default: bool = True  # False: runs only where it is asked for
    tiles: str = ""  # our method's row of the tile table

    @property
    def is_ours(self) -> bool:
        """Whether this package's kernels do the work."""
        return bool(self.tiles)


def needs_gpu(device: torch.device) -> str:
    """The reason of a method that runs on GPUs only."""
    return "" if device.type == "cuda" else f"needs a GPU, not {device.type}"


def with_autograd(problem: Problem, forward: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Call:
    """The call that runs `forward(q, k, v)` and its recorded backward."""
    q, k, v = (x.detach().requires_grad_() for x in (problem.q, problem.k, problem.v))

    def call() -> Results:
        with torch.enable_grad():
            out = forward(q, k, v)
        return out.detach(), *torch.autograd.grad(out, (q, k, v), problem.dout)

    return call
