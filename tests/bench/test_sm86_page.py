"""Which kernel is which, and the page from a disassembly and the sources of a repository."""

import shutil
from pathlib import Path

import pytest
from ragged_attention.bench.case import dense_case, load_cases
from ragged_attention.bench.machine_code import __main__ as command
from ragged_attention.bench.machine_code import dump, kernels, predict, sass
from ragged_attention.bench.machine_code.kernels import Tiles
from ragged_attention.bench.repository import repository
from test_machine_code import assemble

TABLE = """
constexpr int kKeyRows = 32;  // rows
template <int kPairs_, int kStrips_, int kCtas_>
struct KeyShape {
  static constexpr int kPairs = kPairs_;
};

struct TilesSm86 {
  static constexpr Tiles kRow = Tiles::kSm86;
  static constexpr int kRowWarps = 8;
  static constexpr int kRowStrips = 1;
  static constexpr int kRowKeys = 32;

  using LongKeys = KeyShape<6, 1, 1>;
  using ShortKeys = LongKeys;
};

struct TilesSm90 {
  static constexpr int kRowWarps = 4;
};
"""
PLAN = "constexpr int64_t kShortKeys = 512;\n"

ROW = "_ZN2ra10row_kernelINS_9RowTraitsIN7cutlass{dtype}ENS_9TilesSm86ELNS_9ScoreKindE{score}EEEEv"
KEY = (
    "_ZN2ra10key_kernelINS_9KeyTraitsIN7cutlass{dtype}ENS_9TilesSm86E"
    "NS_8KeyShapeILi6ELi1ELi1EEELNS_9ScoreKindE{score}EEEEv"
)
DTYPES = {"6half_t": "float16", "10bfloat16_t": "bfloat16"}

# Two sweeps of 80 and 120 tensor instructions, and one loop of two roles, as in the kernels.
ROW_CODE = """
first:
    80 x HMMA.16816.F32 R4, R8, R12, R4
    40 x LDSM.16.M88.4 R8, [R20]
    32 x MUFU.EX2 R4, R4
    @P1 BRA second
    5 x LDGSTS.E.BYPASS.LTC128B.128 [R4], [R6.64]
second:
    @P0 BRA first
third:
    120 x HMMA.16816.F32 R4, R8, R12, R4
    60 x LDSM.16.M88.4 R8, [R20]
    32 x MUFU.EX2 R4, R4
    5 x LDGSTS.E.BYPASS.LTC128B.128 [R4], [R6.64]
    @P0 BRA third
    EXIT
"""
KEY_CODE = """
loop:
    40 x HMMA.16816.F32 R4, R8, R12, R4
    @P0 BRA other
    32 x MUFU.EX2 R4, R4
    BRA joined
other:
    16 x FMUL R4, R4, R4
joined:
    40 x HMMA.16816.F32 R4, R8, R12, R4
    40 x LDSM.16.M88.4 R8, [R20]
    @P2 BRA copied
    10 x LDGSTS.E.BYPASS.LTC128B.128 [R4], [R6.64]
copied:
    @P1 BRA loop
    EXIT
"""


def library_text() -> str:
    return "".join(
        assemble(code, name.format(dtype=dtype, score=score))
        for name, code in ((ROW, ROW_CODE), (KEY, KEY_CODE))
        for dtype in DTYPES
        for score in "01"
    ) + assemble("EXIT", "_ZN2ra15mma_rate_kernelEi")


@pytest.fixture
def top(tmp_path, monkeypatch) -> Path:
    """A repository with a tile table, and a library that disassembles to the code above."""
    (tmp_path / "cutlass_kernels").mkdir()
    (tmp_path / "cutlass_kernels" / "tiles.h").write_text(TABLE)
    (tmp_path / "cutlass_kernels" / "plan.h").write_text(PLAN)
    shutil.copytree(repository() / "problems", tmp_path / "problems")
    monkeypatch.setattr(dump, "disassemble", lambda library, architecture: library_text())
    return tmp_path


@pytest.fixture
def tiles(top) -> Tiles:
    return kernels.read_tiles(top / "cutlass_kernels" / "tiles.h", "TilesSm86")


def loops_of(tiles: Tiles) -> predict.Loops:
    found = {}
    for function in sass.parse(library_text()):
        if kernel := kernels.identify(function.name, tiles, "TilesSm86"):
            found[kernel] = kernels.main_loops(function, kernel)
    return found


def test_tile_table_is_read(tiles):
    assert tiles.numbers["kRowWarps"] == 8
    assert tiles.numbers["kKeyRows"] == 32
    assert tiles.parameters == ("kPairs", "kStrips", "kCtas")
    assert tiles.shapes["LongKeys"] == {"kPairs": 6, "kStrips": 1, "kCtas": 1}
    assert tiles.shapes["ShortKeys"] == tiles.shapes["LongKeys"]


def test_tile_table_of_this_repository_is_read():
    sources = repository() / "cutlass_kernels"
    tiles = kernels.read_tiles(sources / "tiles.h", "TilesSm86")
    assert {"kRowWarps", "kRowStrips", "kRowKeys", "kKeyRows"} <= set(tiles.numbers)
    assert {"kPairs", "kStrips", "kCtas"} <= set(tiles.shapes["LongKeys"])
    assert set(tiles.shapes) >= {"LongKeys", "ShortKeys"}
    assert predict.read_short_keys(sources / "plan.h") > 0


def test_table_without_what_is_needed(tmp_path):
    file = tmp_path / "tiles.h"
    file.write_text("struct Other {\n};\n")
    message = r"^tiles: tiles\.h has no TilesSm86 or no KeyShape; both are needed$"
    with pytest.raises(ValueError, match=message):
        kernels.read_tiles(file, "TilesSm86")
    with pytest.raises(ValueError, match=r"^plan: tiles\.h has no kShortKeys; it is needed$"):
        predict.read_short_keys(file)


@pytest.mark.parametrize("mangled", DTYPES)
@pytest.mark.parametrize("score", ["bounded", "general"])
def test_kernels_are_identified(tiles, mangled, score):
    fill = {"dtype": mangled, "score": ["bounded", "general"].index(score)}
    row = kernels.identify(ROW.format(**fill), tiles, "TilesSm86")
    assert (row.kind, row.dtype, row.score) == ("row", DTYPES[mangled], score)
    assert (row.warps, row.own, row.streamed, row.roles) == (8, 128, 32, 1)
    key = kernels.identify(KEY.format(**fill), tiles, "TilesSm86")
    assert (key.kind, key.dtype, key.score) == ("key", DTYPES[mangled], score)
    assert (key.warps, key.own, key.streamed, key.roles) == (12, 96, 32, 2)
    assert key.shape == tiles.shapes["LongKeys"]


def test_other_functions_are_not(tiles):
    name = ROW.format(dtype="6half_t", score=0)
    assert kernels.identify(name.replace("Sm86", "Sm90"), tiles, "TilesSm86") is None
    assert kernels.identify("_ZN2ra15mma_rate_kernelEi", tiles, "TilesSm86") is None


def test_kernel_that_the_table_does_not_describe(tiles):
    name = KEY.format(dtype="6half_t", score=0).replace("Li6E", "Li6ELi7E")
    with pytest.raises(ValueError, match=r"^tiles: .* for key_kernel; tiles\.h must name it$"):
        kernels.identify(name, tiles, "TilesSm86")
    without = Tiles({}, tiles.shapes, tiles.parameters)
    with pytest.raises(ValueError, match=r"^tiles: 'kRowWarps' for row_kernel; tiles\.h must"):
        kernels.identify(ROW.format(dtype="6half_t", score=0), without, "TilesSm86")


def test_warps_and_products_of_the_main_loops(tiles):
    for kernel, loops in loops_of(tiles).items():
        if kernel.kind == "row":
            assert [loop.name for loop in loops] == ["sweep 1", "sweep 2"]
            assert [loop.products for loop in loops] == [2, 3]
            assert [[role.warps for role in loop.roles] for loop in loops] == [[8], [8]]
            assert all(loop.roles[0].path.count("LDGSTS") == 5 for loop in loops)
        else:
            (loop,) = loops
            assert loop.products == 4
            # 40 copies a stage, 10 on a path: 4 warps copy, all of the second role
            assert [role.warps for role in loop.roles] == [6, 4, 2]
            assert [role.path.count("MUFU") for role in loop.roles] == [32, 0, 0]
            assert [role.path.count("LDGSTS") for role in loop.roles] == [0, 10, 0]
            assert loop.clocks.tensor == 12 * 80 * 4


def test_prediction_by_hand(tiles):
    loops = loops_of(tiles)
    spec = dense_case("case", (64,), (192,), heads=48)  # rows and keys fill their tiles
    found = predict.predict(spec, loops, tiles, short_keys=512)
    rows = 64 * 48
    assert found.row.padding == found.key.padding == 1
    assert found.row.bound_ms == pytest.approx(5 * 320 * rows * 192 / 154.8e9)
    assert found.key.bound_ms == pytest.approx(4 * 320 * rows * 192 / 154.8e9)
    assert found.row.strict_ms > found.row.bound_ms
    assert found.row.bytes == rows * (4 * 320 + 8) + 192 * 640
    assert found.key.bytes == rows * 2 * (2 * 320 + 8) + 192 * 1280  # two key tiles
    assert found.key_tiles == 2
    assert found.passes == found.worst_passes == pytest.approx(8 + 24 / 320)
    assert found.slack == pytest.approx(6 * 2**20 / 42 / (640 * 32))
    assert found.row.memory_ms == pytest.approx(found.row.bytes / 768e6)
    assert found.ms(strict=False) == pytest.approx(
        max(found.row.bound_ms, found.row.memory_ms) + max(found.key.bound_ms, found.key.memory_ms)
    )
    assert found.ms(strict=True) >= found.ms(strict=False)


def test_padding_counts_ends_of_tiles(tiles):
    spec = dense_case("case", (1,), (97,), heads=48)
    found = predict.predict(spec, loops_of(tiles), tiles, short_keys=512)
    assert found.row.padding == pytest.approx(128 * 128 / (48 * 97))
    assert found.key.padding == pytest.approx(112 * 64 / (48 * 97))  # pairs have 16 keys
    assert found.key_tiles == 2


def test_whole_tiles_side_by_side_share_their_rows(tiles):
    """68 sequences of two tiles are enough for a tile for each CTA, 67 are not."""
    for sequences, passes in ((68, 6 + 16 / 320), (67, 8 + 24 / 320)):
        spec = dense_case("case", (64,) * sequences, (192,) * sequences, heads=48)
        found = predict.predict(spec, loops_of(tiles), tiles, short_keys=512)
        assert found.passes == pytest.approx(passes)
        assert found.worst_passes == pytest.approx(8 + 24 / 320)


def test_the_larger_of_tensor_and_memory_time_counts(tiles):
    short = predict.predict(dense_case("", (128,), (32,)), loops_of(tiles), tiles, short_keys=512)
    assert short.row.ms(strict=False) == short.row.memory_ms > short.row.bound_ms
    long = predict.predict(dense_case("", (128,), (960,)), loops_of(tiles), tiles, short_keys=512)
    assert long.row.ms(strict=False) == long.row.bound_ms > long.row.memory_ms
    assert long.row.ms(strict=True) == long.row.strict_ms
    assert long.key.ms(strict=True) == long.key.worst_memory_ms > long.key.strict_ms


def test_case_without_its_kernel(tiles):
    spec = dense_case("case", (1,), (97,), heads=48)
    with pytest.raises(
        ValueError, match=r"^library: no main loop of a float16 row kernel; rebuild"
    ):
        predict.predict(spec, {}, tiles, short_keys=512)


def test_page(top, monkeypatch, capsys):
    monkeypatch.setattr(command, "repository", lambda: top)
    out = top / "sm86.md"
    assert command.main(["some.a", "--out", str(out)]) == 0
    text = out.read_text()
    assert "Written by `python -m ragged_attention.bench.machine_code some.a --out" in text
    # warps; HMMA, LDSM, LDS, STS, other shared, MUFU, fp32, integer; issued
    row = "| row, 128 rows | float16 | bounded | sweep 1 | all"
    assert f"{row} | 8 | 80 | 40 | 0 | 0 | 5 | 32 | 0 | 0 | 159 |" in text
    key = "| key, 96 keys | bfloat16 | general | rows"
    assert f"{key} | dV | 6 | 80 | 40 | 0 | 0 | 0 | 32 | 0 | 0 | 156 |" in text
    assert f"{key} | dK, copying | 4 | 80 | 40 | 0 | 0 | 10 | 0 | 16 | 0 | 149 |" in text
    # products, tensor, shared, MUFU, arithmetic, issue, part, slowest, bound, strict
    clocks = "2 | 2,560 | 1,440 | 512 | 0 | 318 | 12% | tensor | 100% | 94% |"
    assert f"| row, 128 rows | float16 | bounded | sweep 1 | {clocks}" in text
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
    try:
        dump.find_cuobjdump()
    except RuntimeError as error:
        pytest.skip(str(error))
    text = command.make_page(library, repository(), "command")
    assert text.count("| row, ") >= 8  # two sweeps, two dtypes, two tables
    assert text.count("| key, ") >= 6
