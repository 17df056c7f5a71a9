"""What the machine code of the kernels says about a card that is not at hand: an sm_86 of 84 SMs.

`python -m ragged_attention.bench.machine_code` writes `docs/sm86.md`.
"""
