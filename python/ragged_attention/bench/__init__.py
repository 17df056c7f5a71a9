"""The benchmark: `python -m ragged_attention.bench --help`.

Measures the card's two ceilings, checks every method's results, times all methods side by side.
The operator needs nothing of this package.
"""
