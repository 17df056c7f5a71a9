"""Imports a bundle by the path of its solver.py and runs it; a program that needs nothing else.

It ends with an error unless the package came from beside the solver and all outputs agree with the
package's own reference in float64.
"""

import importlib.util
import sys
import warnings
from pathlib import Path

import torch


def main(file: Path) -> None:
    """Loads the solver and compares one small call, on the GPU where there is one."""
    warnings.simplefilter("ignore")
    spec = importlib.util.spec_from_file_location("solver", file)
    solver = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(solver)
    import ragged_attention

    package = Path(ragged_attention.__file__).resolve().parent
    if package.parent != file.resolve().parent:
        raise ImportError(f"solver: it took {package}; the package beside it is needed")

    device = "cuda" if torch.cuda.is_available() else "cpu"
    generator = torch.Generator().manual_seed(0)

    def values(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator).to(device, torch.float16)

    q, k, v, dout = values(40, 3, 160), values(35, 1, 160), values(35, 1, 160), values(40, 3, 160)
    cu_q = torch.tensor([0, 17, 40], dtype=torch.int32, device=device)
    cu_k = torch.tensor([0, 30, 35], dtype=torch.int32, device=device)
    slopes = torch.rand((2, 3), generator=generator).to(device)
    got = solver.attention_varlen_feature_full_vjp(
        q, k, v, cu_q, cu_k, slopes, dout, False, -1, -1, 3.0, 0.75
    )
    exact = [tensor.double() for tensor in (q, k, v)]
    truth = ragged_attention.reference.full_vjp(
        *exact, cu_q, cu_k, slopes, dout.double(), softcap=3.0, scale_multiplier=0.75
    )
    for name, ours, right in zip(("out", "dq", "dk", "dv"), got, truth, strict=True):
        error = float((ours.double() - right).norm() / right.norm())
        if not error < 3e-3:
            raise ValueError(f"{name}: relative error {error:.1e}; less than 3e-3 is needed")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
