"""What compute-sanitizer watches: a few small calls on each row of the tile table.

Run as a script, each memory block allocated by itself, so that a step outside is seen. Values are
made and looked at on the CPU; few kernels other than ours run.
"""

import os

import torch
from ragged_attention import native
from support import Lengths, make_problem, run, strided_copy

RAGGED_LENGTHS: Lengths = [(33, 65), (0, 9), (130, 40), (4, 0), (1, 129), (65, 97)]
LONG_KEYS: Lengths = [(20, 420), (3, 290)]  # streamed rows and the wider key tiles of the sm90 row
# resident rows with weights and without, and streamed ones among them
SOME_LONG: Lengths = [(99, 400), (5, 300), (12, 17), (40, 120), (3, 60)]


def on_the_gpu(problem: dict[str, object]) -> dict[str, object]:
    """The same problem on the GPU, each tensor's storage as it is."""
    moved = dict(problem)
    for name, value in problem.items():
        if isinstance(value, torch.Tensor):
            storage = torch.empty(0, dtype=value.dtype).set_(value.untyped_storage()).cuda()
            moved[name] = storage.as_strided(value.shape, value.stride(), value.storage_offset())
    return moved


def call_on(row: str) -> None:
    """Plain, misaligned, with offsets that describe nothing, and with long keys."""
    os.environ[native.TILES_VARIABLE] = row
    for dtype, softcap, slope_sign in ((torch.float16, 3.0, 1.0), (torch.bfloat16, 0.0, 0.0)):
        problem = make_problem(
            RAGGED_LENGTHS, heads=3, dtype=dtype, softcap=softcap, slope_sign=slope_sign
        )
        misaligned = {**problem, "dout": strided_copy(problem["dout"], 1, 3, lead=1)}
        beyond = {**problem, "cu_q": problem["cu_q"] * 3, "cu_k": problem["cu_k"].flip(0)}
        longer = [
            make_problem(lengths, heads=3, dtype=dtype, softcap=softcap, slope_sign=slope_sign)
            for lengths in (LONG_KEYS, SOME_LONG)
        ]
        for arguments in (problem, misaligned, beyond, *longer):
            results = [r.cpu() for r in run(on_the_gpu(arguments))]
            assert all(bool(r.isfinite().all()) for r in results)


def main() -> None:
    watched = []
    for row in native.TILES:
        try:
            native.load().check_tiles(row, 0)
        except RuntimeError as error:
            print(f"row left out: {error}")
            continue
        call_on(row)
        watched.append(row)
    print("rows watched:", *watched)


if __name__ == "__main__":
    main()
