"""A made-up tile table and library: code whose main loops are those of the sm_86 kernels."""

from pathlib import Path

from ragged_attention.bench.machine_code import kernels, predict, sass
from ragged_attention.bench.machine_code.kernels import Tiles
from ragged_attention.bench.machine_code.loops import main_loops
from ragged_attention.bench.machine_code.sharing import SharingRule
from test_machine_code import assemble

TABLE = """
constexpr int kKeyRows = 32;  // rows
template <int kPairs_, int kStrips_, int kStages_, int kCtas_>
struct KeyShape {
  static constexpr int kPairs = kPairs_;
};

struct TilesSm86 {
  static constexpr Tiles kRow = Tiles::kSm86;
  static constexpr int kRowWarps = 8;
  static constexpr int kRowStrips = 1;
  static constexpr int kRowKeys = 32;
  static constexpr int kResidentWarps = 8;
  static constexpr int kResidentBytes = 98560;
  static constexpr int kResidentKeys = 144;
  static constexpr int kResidentMeanKeys = 256;

  using LongKeys = KeyShape<6, 1, 4, 1>;
  using ShortKeys = LongKeys;
  static constexpr int kKeyTeam = 4;
};

struct TilesSm90 {
  static constexpr int kRowWarps = 4;
};
"""
PLAN = """
constexpr int64_t kShortKeys = 512;
constexpr int kWaves = 2;
constexpr int kWavesWithSmallSums = 4;
constexpr int64_t kSumsOfQ = 40;
"""
RULE = SharingRule(waves=2, waves_with_small_sums=4, sums_of_q=40)

ROW = "_ZN2ra10row_kernelINS_9RowTraitsIN7cutlass{dtype}ENS_9TilesSm86ELNS_9ScoreKindE{score}EEEEv"
RESIDENT = ROW.replace("10row_kernel", "19resident_row_kernel").replace("9Row", "14Resident")
KEY = (
    "_ZN2ra10key_kernelINS_9KeyTraitsIN7cutlass{dtype}ENS_9TilesSm86E"
    "NS_8KeyShapeILi6ELi1ELi4ELi1EEELNS_9ScoreKindE{score}EEEEv"
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
# The streamed sweeps may come before the others or after them, as the compiler likes.
ANEW_CODE = """
anew1:
    40 x HMMA.16816.F32 R4, R8, R12, R4
    20 x LDSM.16.M88.4 R8, [R20]
    16 x MUFU.EX2 R4, R4
    @P0 BRA anew1
anew2:
    60 x HMMA.16816.F32 R4, R8, R12, R4
    30 x LDSM.16.M88.4 R8, [R20]
    16 x MUFU.EX2 R4, R4
    @P0 BRA anew2
"""
WEIGHED_CODE = """
weighed1:
    40 x HMMA.16816.F32 R4, R8, R12, R4
    20 x LDSM.16.M88.4 R8, [R20]
    16 x MUFU.EX2 R4, R4
    1 x STS.128 [R4], R8
    @P0 BRA weighed1
weighed2:
    40 x HMMA.16816.F32 R4, R8, R12, R4
    20 x LDSM.16.M88.4 R8, [R20]
    1 x LDS.128 R8, [R4]
    @P0 BRA weighed2
"""
# The same for sequences whose steps are all weighed, with a few more instructions.
ALL_WEIGHED_CODE = (
    WEIGHED_CODE.replace("weighed", "all")
    .replace("all1:", "all1:\n    3 x IADD3 R1, R1, R1, R1")
    .replace("all2:", "all2:\n    2 x IADD3 R1, R1, R1, R1")
)
STREAMED_CODE = ROW_CODE.replace("    EXIT\n", "")
RESIDENT_CODES = {  # by ScoreKind
    "0": STREAMED_CODE + WEIGHED_CODE + ANEW_CODE + ALL_WEIGHED_CODE + "    EXIT\n",
    "1": ANEW_CODE + STREAMED_CODE + "    EXIT\n",
}
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


def write_sources(folder: Path) -> Path:
    """The folder, with the two headers that are read."""
    folder.mkdir(exist_ok=True)
    (folder / "tiles.h").write_text(TABLE)
    (folder / "plan.h").write_text(PLAN)
    return folder


def read_table(folder: Path) -> Tiles:
    """The tile table, written into the folder first."""
    return kernels.read_tiles(write_sources(folder) / "tiles.h", "TilesSm86")


def library_text() -> str:
    return "".join(
        assemble(code, name.format(dtype=dtype, score=score))
        for dtype in DTYPES
        for score in "01"
        for name, code in ((ROW, ROW_CODE), (RESIDENT, RESIDENT_CODES[score]), (KEY, KEY_CODE))
    ) + assemble("EXIT", "_ZN2ra15mma_rate_kernelEi")


def loops_of(tiles: Tiles) -> predict.Loops:
    found = {}
    for function in sass.parse(library_text()):
        if kernel := kernels.identify(function.name, tiles, "TilesSm86"):
            found[kernel] = main_loops(function, kernel)
    return found
