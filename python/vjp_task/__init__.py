"""The benchmark task around the operator: problem family, panels, checking, timing, reports."""

import os

# Read when torch is loaded: threads that spin while they wait make a busy CPU ten times slower.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
