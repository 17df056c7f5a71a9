"""`python -m ragged_attention.bench`."""

import sys

from ragged_attention.bench.cli import main

if __name__ == "__main__":
    sys.exit(main())
