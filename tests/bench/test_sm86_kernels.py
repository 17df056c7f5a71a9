"""Which kernel is which, and which of its main loops."""

import re
from math import inf

import pytest
from ragged_attention.bench.machine_code import kernels, sass
from ragged_attention.bench.machine_code.kernels import Tiles
from ragged_attention.bench.machine_code.loops import MainLoop, main_loops
from ragged_attention.bench.machine_code.sharing import read_rule
from ragged_attention.bench.repository import repository
from sm86_samples import (
    ALL_WEIGHED_CODE,
    ANEW_CODE,
    DTYPES,
    KEY,
    RESIDENT,
    RESIDENT_CODES,
    ROW,
    STREAMED_CODE,
    WEIGHED_CODE,
    loops_of,
    read_table,
)
from test_machine_code import assemble


@pytest.fixture
def tiles(tmp_path) -> Tiles:
    return read_table(tmp_path)


def test_tile_table_is_read(tiles):
    assert tiles.numbers["kRowWarps"] == 8
    assert tiles.numbers["kKeyRows"] == 32
    assert tiles.parameters == ("kPairs", "kStrips", "kStages", "kCtas")
    assert tiles.shapes["LongKeys"] == {"kPairs": 6, "kStrips": 1, "kStages": 4, "kCtas": 1}
    assert tiles.shapes["ShortKeys"] == tiles.shapes["LongKeys"]


def test_tile_table_of_this_repository_is_read():
    sources = repository() / "cutlass_kernels"
    tiles = kernels.read_tiles(sources / "tiles.h", "TilesSm86")
    assert {"kRowWarps", "kRowStrips", "kRowKeys", "kKeyRows"} <= set(tiles.numbers)
    last_steps = tiles.number("kResidentKeys") // kernels.STEP
    assert kernels.weighed_steps(1, tiles) == 1
    assert 0 < kernels.weighed_steps(last_steps, tiles) < last_steps
    assert tiles.number("kResidentWarps") > 0 < tiles.number("kResidentMeanKeys")
    assert {"kPairs", "kStrips", "kCtas"} <= set(tiles.shapes["LongKeys"])
    assert set(tiles.shapes) >= {"LongKeys", "ShortKeys"}
    assert min(read_rule(sources / "plan.h")) > 0


@pytest.mark.parametrize(
    ("steps", "weighed"), [(0, 0), (1, 1), (6, 6), (7, 6), (8, 4), (9, 1), (10, 0), (11, 0)]
)
def test_steps_whose_weights_fit_beside_the_keys(tiles, steps, weighed):
    """Of 98,560 bytes, K and V of a step take 10,240, and its weights 4,096."""
    assert kernels.weighed_steps(steps, tiles) == weighed


def test_table_without_what_is_needed(tmp_path):
    file = tmp_path / "tiles.h"
    file.write_text("struct Other {\n};\n")
    message = r"^tiles: tiles\.h has no TilesSm86 or no KeyShape; both are needed$"
    with pytest.raises(ValueError, match=message):
        kernels.read_tiles(file, "TilesSm86")
    with pytest.raises(ValueError, match=r"^plan: tiles\.h has no kWaves; it is needed$"):
        read_rule(file)


@pytest.mark.parametrize("mangled", DTYPES)
@pytest.mark.parametrize("score", ["bounded", "general"])
def test_kernels_are_identified(tiles, mangled, score):
    fill = {"dtype": mangled, "score": ["bounded", "general"].index(score)}
    row = kernels.identify(ROW.format(**fill), tiles, "TilesSm86")
    assert (row.kind, row.dtype, row.score) == ("row", DTYPES[mangled], score)
    assert (row.warps, row.own, row.streamed, row.roles) == (8, 128, 32, 1)
    resident = kernels.identify(RESIDENT.format(**fill), tiles, "TilesSm86")
    assert str(resident) == f"{DTYPES[mangled]} {score} resident_row_kernel"
    assert (resident.warps, resident.own, resident.streamed, resident.roles) == (8, 128, 32, 1)
    modes = [("weighed", 144, 16, 16, 8), ("anew", 144, 16, 16, 8), ("streamed", inf, 128, 32, 1)]
    assert list(resident.modes) == (modes if score == "bounded" else modes[1:])
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
    with pytest.raises(ValueError, match=r"^tiles: no kRowWarps; tiles\.h must have it$"):
        kernels.identify(ROW.format(dtype="6half_t", score=0), without, "TilesSm86")


def test_warps_and_products_of_the_main_loops(tiles):
    for kernel, loops in loops_of(tiles).items():
        if kernel.kind == "resident_row":
            continue  # below
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


def resident_loops(tiles: Tiles, score: int, code: str) -> list[MainLoop]:
    """The main loops of a float16 resident row kernel of that code."""
    (function,) = sass.parse(assemble(code, RESIDENT.format(dtype="6half_t", score=score)))
    return main_loops(function, kernels.identify(function.name, tiles, "TilesSm86"))


STREAMED = [("streamed sweep 1", 2, 80, 32, 0, 0), ("streamed sweep 2", 3, 120, 32, 0, 0)]
ANEW = [("anew sweep 1", 2, 40, 16, 0, 0), ("anew sweep 2", 3, 60, 16, 0, 0)]
WEIGHED = [("weighed sweep 1", 2, 40, 16, 1, 0), ("weighed sweep 2", 2, 40, 0, 0, 1)]
BOTH_WEIGHED = WEIGHED_CODE + ALL_WEIGHED_CODE


@pytest.mark.parametrize(
    ("score", "parts", "expected"),
    [
        (0, (STREAMED_CODE, ANEW_CODE, BOTH_WEIGHED), WEIGHED + ANEW + STREAMED),
        (0, (WEIGHED_CODE, STREAMED_CODE, ANEW_CODE), WEIGHED + ANEW + STREAMED),
        (1, (ANEW_CODE, STREAMED_CODE), ANEW + STREAMED),
    ],
)
def test_main_loops_of_resident_rows_whatever_their_order(tiles, score, parts, expected):
    loops = resident_loops(tiles, score, "".join(parts) + "EXIT\n")
    found = []
    for loop in loops:
        ((warps, path),) = loop.roles
        assert warps == 8
        assert loop.clocks.tensor == 8 * 4 * path.count("HMMA")
        counts = [path.count(name) for name in ("HMMA", "MUFU", "STS", "LDS")]
        found.append((loop.name, loop.products, *counts))
    assert found == expected
    assert [loop.mode.name for loop in loops] == [name.split()[0] for name, *_ in expected]


@pytest.mark.parametrize(
    "parts", [(WEIGHED_CODE, ALL_WEIGHED_CODE), (ALL_WEIGHED_CODE, WEIGHED_CODE)]
)
def test_of_two_weighed_loops_the_one_that_issues_more(tiles, parts):
    loops = resident_loops(tiles, 0, STREAMED_CODE + ANEW_CODE + "".join(parts) + "EXIT\n")
    weighed = [loop for loop in loops if loop.mode.name == "weighed"]
    assert [loop.roles[0].path.count("IADD3") for loop in weighed] == [3, 2]
    assert [loop.clocks.issue for loop in weighed] == [
        2 * (40 + 20 + 16 + 2 + 3),
        2 * (40 + 20 + 2 + 2),
    ]


@pytest.mark.parametrize(
    ("score", "old", "new", "message"),
    [
        # weights that are never stored: a second loop that computes S anew
        (
            0,
            "1 x STS.128",
            "1 x STS.64",
            "0 main loops of a {} look like weighed sweep 1; 1 or 2 must",
        ),
        (
            0,
            "1 x LDS.128",
            "1 x MUFU.EX2",
            "0 main loops of a {} look like weighed sweep 2; 1 or 2 must",
        ),
        (0, "60 x HMMA", "40 x HMMA", "2 main loops of a {} look like anew sweep 1; 1 must"),
        (0, "120 x HMMA", "80 x HMMA", "2 main loops of a {} look like streamed sweep 1; 1 must"),
        (1, "60 x HMMA", "50 x HMMA", "0 main loops of a {} look like anew sweep 2; 1 must"),
        (1, "@P0 BRA anew2", "NOP", "0 main loops of a {} look like anew sweep 2; 1 must"),
        (
            *(0, "1 x STS.128 [R4], R8\n    @P0 BRA all1", "@P0 BRA all1"),  # one of two
            "2 main loops of a {} look like anew sweep 1; 1 must",
        ),
        (
            *(0, "    EXIT", WEIGHED_CODE.replace("weighed", "third") + "EXIT"),
            "3 main loops of a {} look like weighed sweep 1; 1 or 2 must",
        ),
        (
            *(
                0,
                "    EXIT",
                "extra:\n50 x HMMA.16816.F32 R4, R8, R12, R4\n@P0 BRA extra\n    EXIT",
            ),
            "9 main loops in a {}, 1 of them unknown; it must have only "
            "weighed sweep 1, weighed sweep 2, anew sweep 1, anew sweep 2, "
            "streamed sweep 1, streamed sweep 2",
        ),
    ],
)
def test_main_loops_that_a_kernel_should_not_have(tiles, score, old, new, message):
    code = RESIDENT_CODES[str(score)]
    assert old in code
    what = f"float16 {['bounded', 'general'][score]} resident_row_kernel"
    with pytest.raises(ValueError, match=f"^library: {re.escape(message.format(what))}$"):
        resident_loops(tiles, score, code.replace(old, new))


@pytest.mark.parametrize("name", [ROW, KEY])
def test_kernel_without_a_main_loop(tiles, name):
    (function,) = sass.parse(assemble("EXIT", name.format(dtype="6half_t", score=0)))
    kernel = kernels.identify(function.name, tiles, "TilesSm86")
    with pytest.raises(ValueError, match=r"^library: 0 main loops of a float16 bounded (row|key)_"):
        main_loops(function, kernel)
