"""compute-sanitizer over a few small calls: no access out of bounds, no race in shared memory."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import ragged_attention

pytestmark = pytest.mark.gpu

TESTS = Path(__file__).resolve().parents[1]
SCRIPT = Path(__file__).with_name("sanitized_calls.py")


def find_sanitizer() -> str | None:
    """On PATH, in a CUDA toolkit, or from the PyPI package nvidia-cuda-sanitizer-api."""
    name = "compute-sanitizer"
    roots = [Path(p) / "nvidia" for p in sys.path] + [Path("/usr/local/cuda")]
    packaged = [str(f) for root in roots for f in sorted(root.glob(f"**/{name}")) if f.is_file()]
    return next((f for f in (shutil.which(name), *packaged) if f and os.access(f, os.X_OK)), None)


@pytest.mark.parametrize("tool", ["memcheck", "racecheck"])
def test_sanitizer(tool):
    sanitizer = find_sanitizer()
    if sanitizer is None:
        pytest.skip("compute-sanitizer is not installed; pip install nvidia-cuda-sanitizer-api")
    packages = Path(ragged_attention.__file__).parents[1]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(packages), str(TESTS)]),
        "PYTORCH_NO_CUDA_MEMORY_CACHING": "1",
    }
    result = subprocess.run(
        [sanitizer, "--tool", tool, "--error-exitcode", "9", sys.executable, str(SCRIPT)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=540,
    )
    report = result.stdout + result.stderr
    assert result.returncode == 0, report[-6000:]
    assert re.search(r"SUMMARY: 0 (errors|hazards)", report), report[-6000:]
    assert re.search(r"rows watched: \w+", report), report[-6000:]
