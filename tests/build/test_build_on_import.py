"""A bundle builds its module on import: once, only where it must, and never fatally.

Small kernels stand for the real ones, and a driver that tells of one card of 8.6 for a real one.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from building import HERE
from ragged_attention import build_on_import, module_probe
from vjp_task import bundle

MODULE = f"ragged_attention/_native{sysconfig.get_config_var('EXT_SUFFIX')}"
BUILDING = "ragged_attention: building kernels for sm_86 with nvcc "

# Imports the bundle on the path, says what it found, and computes something.
PROGRAM = """
import warnings
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    import ragged_attention, torch
print(ragged_attention.build_info()["backend"], ragged_attention.build_info()["sm"])
q, cu = torch.ones(3, 2, 160, dtype=torch.float16), torch.tensor([0, 3], dtype=torch.int32)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    out, *_ = ragged_attention.attention_varlen_feature_full_vjp(
        q, q[:, :1], q[:, :1], cu, cu, None, q)
assert torch.equal(out, q)
for warning in said:
    print(f"{warning.category.__name__}: {warning.message}")
"""


@pytest.fixture(scope="module")
def small_bundle(tmp_path_factory):
    """A bundle with small kernels and no module."""
    out = tmp_path_factory.mktemp("bundle") / "out"
    bundle.make_bundle(out, None)
    sources = out / "kernels" / "cutlass_kernels"
    for file in sources.rglob("*.c[up]*"):
        if file.name != "build_info.cpp":
            file.unlink()
    shutil.copy(HERE / "small_kernels" / "library.cu", sources)
    return out


@pytest.fixture
def place(small_bundle, tmp_path):
    """A copy of it that a test may change."""
    shutil.copytree(small_bundle, tmp_path / "place")
    return tmp_path / "place"


def start(place, driver=None, **variables):
    environment = {**os.environ, "PYTHONPATH": str(place), "OMP_NUM_THREADS": "1", **variables}
    environment.pop("LD_LIBRARY_PATH", None)
    if driver:
        environment["LD_LIBRARY_PATH"] = str(driver)
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def end(process):
    """What it printed, stdout and stderr; it must not fail."""
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    return out, err


def test_nothing_is_built_without_a_card(place):
    out, err = end(start(place))
    assert out == "portable None\n"
    assert err == ""
    assert not (place / MODULE).exists()


def test_two_processes_build_one_module(place, fake_driver, toolkit):
    """In place of one that does not load; later imports build nothing."""
    (place / MODULE).write_bytes(b"built for another machine")
    outputs = [end(process) for process in [start(place, fake_driver) for _ in range(2)]]
    assert [out for out, _ in outputs] == ["native [86]\n"] * 2
    told = sorted(err for _, err in outputs)
    assert told[0] == ""
    assert told[1].startswith(f"{BUILDING}{toolkit.version}; this happens once")
    assert not (place / "kernels" / "build").exists()
    built = (place / MODULE).stat().st_mtime_ns
    assert end(start(place, fake_driver)) == ("native [86]\n", "")
    assert end(start(place)) == ("native [86]\n", "")
    assert (place / MODULE).stat().st_mtime_ns == built


def test_no_compiler(place, fake_driver, tmp_path):
    out, err = end(start(place, fake_driver, CUDA_HOME=str(tmp_path)))
    assert out == (
        "portable None\n"
        "RuntimeWarning: ragged_attention takes its portable path: the kernels were not built "
        f"(CUDA_HOME: {tmp_path} has no bin/nvcc; set it to a toolkit, or unset it)\n"
    )
    assert err == ""


def test_an_error_of_the_compiler_is_quoted(place, fake_driver, toolkit):
    (place / "kernels" / "cutlass_kernels" / "library.cu").write_text("not C++\n")
    out, err = end(start(place, fake_driver))
    assert "RuntimeWarning: ragged_attention takes its portable path: the kernels were not" in out
    assert "library.cu(1): error: " in out
    assert BUILDING in err
    assert not (place / MODULE).exists()


def test_a_folder_that_cannot_be_written(place, fake_driver, toolkit):
    (place / "kernels" / ".lock").mkdir()
    out, _ = end(start(place, fake_driver))
    assert out.startswith("portable None\nRuntimeWarning: ragged_attention takes its portable path")
    assert "Is a directory" in out


def test_a_checkout_is_no_bundle():
    assert not build_on_import.in_bundle()


@pytest.mark.parametrize(
    ("sm", "capability", "runs"),
    [
        ([86, 90], 86, True),
        ([86, 90], 89, True),
        ([86, 90], 90, True),
        ([86], 90, False),
        ([90], 86, False),
        ([89], 86, False),
        ([86, 90], 120, False),
        ([], 86, False),
    ],
)
def test_which_code_runs_on_which_card(sm, capability, runs):
    assert module_probe.suits(sm, capability) == runs


@pytest.mark.parametrize(
    ("capabilities", "sm", "suits"),
    [
        ([], None, True),
        ([86], None, False),
        ([86], [86, 90], True),
        ([86, 90], [86], False),
        ([75], None, True),  # no kernels for such a card
        ([75, 86], [86], True),
    ],
)
def test_when_there_is_something_to_build(capabilities, sm, suits):
    assert build_on_import._suits({"capabilities": capabilities, "sm": sm}) == suits


def test_a_module_that_crashes_is_none(tmp_path, monkeypatch):
    probe = tmp_path / "probe.py"
    crash = "import os, sys\nif '_native' in sys.argv[1]:\n    os.abort()\n"
    probe.write_text(crash + Path(module_probe.__file__).read_text())
    monkeypatch.setattr(module_probe, "__file__", str(probe))
    found = build_on_import._probe()
    assert (set(found), found["sm"]) == ({"capabilities", "sm"}, None)


def test_a_probe_that_fails_is_told(tmp_path, monkeypatch):
    probe = tmp_path / "probe.py"
    probe.write_text("raise SystemExit(7)\n")
    monkeypatch.setattr(module_probe, "__file__", str(probe))
    build_on_import.ready.cache_clear()
    with pytest.warns(RuntimeWarning) as told:
        assert not build_on_import.ready()
    build_on_import.ready.cache_clear()
    assert str(told[0].message) == (
        "ragged_attention takes its portable path: the kernels were not built "
        f"({probe}: ended with 7; 0 is needed)"
    )


def test_a_command_that_fails_stops_the_others(tmp_path):
    slow = ["sh", "-c", "sleep 60", str(tmp_path / "slow")]
    fails = ["sh", "-c", "echo first; echo 'x.cu(3): error: bad'; exit 2", str(tmp_path / "fails")]
    with pytest.raises(build_on_import.BuildError, match=r"^x\.cu\(3\): error: bad$"):
        build_on_import._run([fails, slow])
    with pytest.raises(build_on_import.BuildError, match=r"^sh ended with 3$"):
        build_on_import._run([["sh", "-c", "exit 3", str(tmp_path / "quiet")]])


def test_an_answer_is_remembered(monkeypatch):
    asked = []
    monkeypatch.setattr(
        build_on_import, "_probe", lambda: asked.append(1) or {"capabilities": [], "sm": [86]}
    )
    build_on_import.ready.cache_clear()
    assert [build_on_import.ready(), build_on_import.ready()] == [True, True]
    assert asked == [1]
    build_on_import.ready.cache_clear()
