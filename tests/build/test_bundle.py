"""The bundle: what is in it, that it stands alone, and what is refused."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from building import ROOT
from vjp_task import bundle, closure
from vjp_task.cli import main
from vjp_task.guard.scan import scan
from vjp_task.panel import load_visible_panel

MAX_BYTES = 10e6  # without the compiled module


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A bundle without a compiled module, so that the portable path is what runs."""
    out = tmp_path_factory.mktemp("bundle") / "out"
    bundle.make_bundle(out, None)
    return out


def files_of(folder):
    return {f.relative_to(folder).as_posix() for f in folder.rglob("*") if f.is_file()}


def test_the_solver_is_the_main_one(made):
    main_solver = ROOT / "methods" / "main" / "solver.py"
    assert (made / "solver.py").read_bytes() == main_solver.read_bytes()


def test_the_package_is_what_importing_it_needs(made):
    names = {f for f in files_of(made) if f.startswith("ragged_attention/")}
    assert {f"ragged_attention/{n}.py" for n in ("__init__", "ops", "native", "portable")} <= names
    assert not [name for name in names if "bench" in name or "tolerance" in name]


def test_sources_and_just_the_headers_they_need(made):
    names = files_of(made / "kernels")
    assert {"cutlass_kernels/api.h", "cutlass_kernels/row/row_kernel.h"} <= names
    assert {"bindings/module.cpp", "include/cute/tensor.hpp", "bundle.json"} <= names
    everything = sum(1 for f in bundle.cutlass_include().rglob("*") if f.is_file())
    headers = [name for name in names if name.startswith("include/")]
    assert 50 < len(headers) < everything / 2
    assert sum(f.stat().st_size for f in made.rglob("*") if f.is_file()) < MAX_BYTES
    assert not [name for name in names if name.endswith("_ext.hpp")]


def test_it_names_commit_and_cutlass(made):
    mark = json.loads((made / "kernels" / "bundle.json").read_text())
    assert set(mark) == {"commit", "cutlass"}
    assert mark["cutlass"].count(".") == 2


def test_the_judge_would_take_it(made):
    assert scan(made, load_visible_panel().cases) == []


def test_it_runs_from_an_empty_folder_in_a_clean_process(made):
    before = files_of(made)
    assert bundle.check_bundle(made) == ""
    assert files_of(made) == before


@pytest.mark.parametrize(
    ("file", "change", "said"),
    [
        ("ragged_attention/portable.py", "alpha=scale)", "ValueError: dk: relative error .*"),
        ("ragged_attention/checks.py", None, "ModuleNotFoundError: No module named .*"),
        ("ragged_attention/__init__.py", None, "ModuleNotFoundError: .*|ImportError: .*"),
    ],
)
def test_a_bundle_that_does_not_run_is_refused(made, tmp_path, file, change, said):
    broken = tmp_path / "broken"
    shutil.copytree(made, broken)
    if change:
        text = (broken / file).read_text()
        assert change in text
        (broken / file).write_text(text.replace(change, "alpha=2 * scale)"))
    else:
        (broken / file).unlink()
    assert re.fullmatch(said, bundle.check_bundle(broken))


def test_command_end_to_end(tmp_path, capsys):
    out = tmp_path / "new" / "out"
    assert main(["bundle", "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"{out}: ")
    assert "imported and run from an empty folder: all outputs as the reference" in printed
    assert main(["bundle", "--out", str(out)]) == 2
    assert capsys.readouterr().err == (
        f"error: out: {out} is not empty; a new or empty folder is needed\n"
    )


def test_a_bundle_that_fails_its_check_ends_with_1(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(bundle, "check_bundle", lambda out: "ValueError: dk")
    assert main(["bundle", "--no-module", "--out", str(tmp_path / "out")]) == 1
    assert capsys.readouterr().err == "bundle FAILED: ValueError: dk\n"


def test_no_cutlass(tmp_path, monkeypatch):
    monkeypatch.setenv("CUTLASS_DIR", str(tmp_path))
    monkeypatch.setattr(bundle.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError) as error:
        bundle.make_bundle(tmp_path / "out", None)
    assert str(error.value) == (
        f"cutlass: no cutlass/version.h in {tmp_path}/include, {tmp_path}; run {sys.executable} "
        "-m pip install nvidia-cutlass, or set CUTLASS_DIR"
    )
    assert not (tmp_path / "out").exists()


def test_headers_are_followed_whatever_their_condition(tmp_path):
    files = {
        "source.cu": '#include "own.h"\n#include <lib/a.h>\n#include <vector>\n',
        "own.h": "",
        "include/lib/a.h": '#if 0\n#  include "b.h"\n#endif\n#include <lib/more_ext.hpp>\n',
        "include/lib/b.h": '#include "../lib/a.h"\n',
        "include/lib/more_ext.hpp": "",
        "include/lib/unused.h": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    sources, folders = [tmp_path / "source.cu"], [tmp_path / "include"]
    found = closure.included_headers(sources, folders, r"_ext\.hpp")
    assert list(found) == ["lib/a.h", "lib/b.h"]
    assert list(closure.included_headers(sources, folders)) == [*found, "lib/more_ext.hpp"]


def test_imports_are_followed_into_functions(tmp_path):
    package = tmp_path / "pack"
    files = {
        "__init__.py": "from pack import a\nimport os\n",
        "a.py": "def f():\n    from pack.sub.b import g\n    import pack.c\n",
        "sub/__init__.py": "",
        "sub/b.py": "def g(): ...\n",
        "c.py": "from pack.a import f\n",
        "unused.py": "",
    }
    for name, text in files.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)
    found = [f.relative_to(package).as_posix() for f in closure.imported_modules(package)]
    assert found == ["__init__.py", "a.py", "c.py", "sub/__init__.py", "sub/b.py"]


@pytest.mark.skipif(
    "RAGGED_ATTENTION_FULL_BUILD" not in os.environ,
    reason="compiling all kernels takes minutes; set RAGGED_ATTENTION_FULL_BUILD=1",
)
def test_the_real_kernels_are_built_on_import(made, tmp_path, fake_driver: Path):
    place = tmp_path / "place"
    shutil.copytree(made, place)
    program = "import ragged_attention; print(ragged_attention.build_info()['sm'])"
    environment = {**os.environ, "PYTHONPATH": str(place), "LD_LIBRARY_PATH": str(fake_driver)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True
    )
    assert done.stdout == "[86]\n", done.stderr
