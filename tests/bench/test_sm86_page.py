"""The page from a disassembly and the sources of a repository."""

import shutil
from pathlib import Path

import pytest
from ragged_attention.bench.case import load_cases
from ragged_attention.bench.machine_code import __main__ as command
from ragged_attention.bench.machine_code import dump
from ragged_attention.bench.repository import repository
from sm86_samples import library_text, write_sources


@pytest.fixture
def top(tmp_path, monkeypatch) -> Path:
    """A repository with a tile table, and a library that disassembles to the code above."""
    write_sources(tmp_path / "cutlass_kernels")
    shutil.copytree(repository() / "problems", tmp_path / "problems")
    monkeypatch.setattr(dump, "disassemble", lambda library, architecture: library_text())
    return tmp_path


def test_page(top, monkeypatch, capsys):
    monkeypatch.setattr(command, "repository", lambda: top)
    out = top / "sm86.md"
    assert command.main(["some.a", "--out", str(out)]) == 0
    text = out.read_text()
    assert "Written by `python -m ragged_attention.bench.machine_code some.a --out" in text
    # warps; HMMA, LDSM, LDS, STS, other shared, MUFU, fp32, integer; issued
    row = "| row, 128 rows | float16 | bounded | sweep 1 | all"
    assert f"{row} | 8 | 80 | 40 | 0 | 0 | 5 | 32 | 0 | 0 | 159 |" in text
    resident = "| resident rows | bfloat16 | bounded | weighed sweep 1 | all"
    assert f"{resident} | 8 | 40 | 20 | 0 | 1 | 0 | 16 | 0 | 3 | 81 |" in text
    key = "| key, 96 keys | bfloat16 | general | rows"
    assert f"{key} | dV | 6 | 80 | 40 | 0 | 0 | 0 | 32 | 0 | 0 | 156 |" in text
    assert f"{key} | dK, copying | 4 | 80 | 40 | 0 | 0 | 10 | 0 | 16 | 0 | 149 |" in text
    # products, tensor, shared, MUFU, arithmetic, issue, part, slowest, bound, strict
    clocks = "2 | 2,560 | 1,440 | 512 | 0 | 318 | 12% | tensor | 100% | 94% |"
    assert f"| row, 128 rows | float16 | bounded | sweep 1 | {clocks}" in text
    clocks = "3 | 1,920 | 960 | 256 | 0 | 214 | 11% | tensor | 100% | 95% |"
    assert f"| resident rows | float16 | general | anew sweep 2 | {clocks}" in text
    assert "32 keys for the row kernel, 32 rows for the key kernel." in text
    assert text.count("| resident rows | float16 | bounded |") == 2 * 6  # of two twins, one
    unwrapped = text.replace("\n", " ")
    assert "at most 256 keys a sequence on average take `resident rows`: up to 144" in unwrapped
    assert "all steps of up to 96 keys; of more keys the last, down to 1 of 9 steps" in unwrapped
    for case in load_cases(top / "problems" / "visible_cases.json"):
        assert text.count(f"| {case.name} |") == 2
    words = [line for line in text.splitlines() if not line.startswith(("|", "Written by"))]
    assert max(map(len, words)) <= 100


def test_page_that_cannot_be(top, monkeypatch, capsys):
    monkeypatch.undo()
    monkeypatch.setattr(command, "repository", lambda: top)
    assert command.main(["none.a"]) == 2
    assert capsys.readouterr().err == (
        "error: library: none.a is no file; build the kernels, or name their library\n"
    )


def script(folder: Path, body: str) -> None:
    file = folder / "cuobjdump"
    file.write_text(f"#!/bin/sh\n{body}\n")
    file.chmod(0o755)


@pytest.mark.parametrize(
    ("body", "error", "message"),
    [
        ("echo oops >&2; exit 1", RuntimeError, r"^cuobjdump: failed on lib\.a \(oops\)$"),
        ("echo nothing", ValueError, r"^library: lib\.a has no code for sm_86; build it for that"),
    ],
)
def test_disassembling_that_fails(tmp_path, monkeypatch, body, error, message):
    script(tmp_path, body)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    (tmp_path / "lib.a").touch()
    with pytest.raises(error, match=message):
        dump.disassemble(tmp_path / "lib.a", "sm_86")


def test_disassembling(tmp_path, monkeypatch):
    script(tmp_path, 'echo "Function : x $@"; nvdisasm')
    (tmp_path / "nvdisasm").write_text("#!/bin/sh\necho found")
    (tmp_path / "nvdisasm").chmod(0o755)
    (tmp_path / "lib.a").touch()
    monkeypatch.setattr(dump, "find_cuobjdump", lambda: tmp_path / "cuobjdump")
    text = dump.disassemble(tmp_path / "lib.a", "sm_86")
    assert text == f"Function : x -sass -arch sm_86 {tmp_path / 'lib.a'}\nfound\n"


def test_cuobjdump_of_nowhere(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(dump.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(dump.Path, "is_file", lambda self: False)
    with pytest.raises(RuntimeError, match=r"^cuobjdump: not on PATH.*install nvidia-cuda-cuobj"):
        dump.find_cuobjdump()


def test_page_of_the_built_library(tmp_path):
    library = repository() / "build" / "libragged_attention_kernels.a"
    if not library.is_file():
        pytest.skip("build/ has no kernel library")
    sources = [file for file in (repository() / "cutlass_kernels").rglob("*") if file.is_file()]
    if library.stat().st_mtime < max(file.stat().st_mtime for file in sources):
        pytest.skip("build/ has a kernel library older than its sources")
    try:
        dump.find_cuobjdump()
    except RuntimeError as error:
        pytest.skip(str(error))
    text = command.make_page(library, repository(), "command")
    assert text.count("| row, ") >= 8  # two sweeps, two dtypes, two tables
    assert text.count("| resident rows ") == 40  # six sweeps and four, two dtypes, two tables
    assert text.count("| key, ") >= 6
