"""Thin front of `python -m vjp_task selfcheck`."""

import argparse
import sys
from pathlib import Path

# an installed package comes first: it has the compiled module
sys.path.append(str(Path(__file__).resolve().parent / "python"))

from vjp_task import selfcheck

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=selfcheck.__doc__)
    selfcheck.add_arguments(parser)
    sys.exit(selfcheck.run(parser.parse_args()))
