"""The package's public face."""

import re
from pathlib import Path

import ragged_attention

ROOT = Path(__file__).resolve().parents[2]


def test_public_names():
    assert set(ragged_attention.__all__) == {
        "__version__",
        "attention_varlen_feature_full_vjp",
        "build_info",
        "reference",
    }
    for name in ragged_attention.__all__:
        assert getattr(ragged_attention, name)


def test_version_is_the_project_s():
    project = (ROOT / "CMakeLists.txt").read_text()
    (version,) = re.findall(r"project\(ragged_attention VERSION ([\d.]+)", project)
    assert ragged_attention.__version__ == version
