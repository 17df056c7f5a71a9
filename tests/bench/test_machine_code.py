"""From a disassembly to clocks: control flow, paths, pipes. The disassembly is made up."""

import re
from collections import Counter

import pytest
from ragged_attention.bench.machine_code import pipes, sass
from ragged_attention.bench.machine_code.sass import Path


def assemble(text: str, name: str = "kernel") -> str:
    """A disassembly of these lines, labels resolved; `4 x OP` repeats an instruction."""
    labels, code = {}, []
    for line in filter(None, map(str.strip, text.splitlines())):
        if line.endswith(":"):
            labels[line[:-1]] = 16 * len(code)
            continue
        repeated = re.fullmatch(r"(\d+) x (.*)", line)
        code += [repeated[2]] * int(repeated[1]) if repeated else [line]
    lines = [f"\t\tFunction : {name}", '\t.headerflags\t@"EF_CUDA_SM86"']
    for i, instruction in enumerate(code):
        for label, address in labels.items():
            instruction = re.sub(rf"\b{label}\b", hex(address), instruction)
        lines.append(f"        /*{16 * i:04x}*/  {instruction} ;    /* 0x000fe20000000000 */")
        lines.append("                                              /* 0x000fc00000000f00 */")
    return "\n".join(lines) + "\n"


def loops_of(text: str) -> tuple[list[sass.Block], list[sass.Loop]]:
    (function,) = sass.parse(assemble(text))
    blocks = sass.blocks_of(function)
    return blocks, sass.tensor_loops(blocks)


def paths_of(text: str) -> list[Path]:
    blocks, (loop,) = loops_of(text)
    return sass.paths(blocks, loop)


PLAIN = """
    MOV R1, c[0x0][0x28]
outer:
    LDS R2, [R3]
spin:
    LDS R4, [R5]
    @!P0 BRA spin
inner:
    20 x HMMA.16816.F32 R4, R8, R12, R4
    10 x LDSM.16.M88.4 R8, [R20]
wait:
    2 x LDS.64 R4, [R5]
    @!P1 BRA wait
    @!PT LDS RZ, [RZ]
    @P0 BRA inner
    @P2 BRA outer
    EXIT
"""


def test_functions_are_told_apart():
    text = assemble("EXIT", "first") + assemble("NOP\nEXIT", "second")
    assert [(f.name, len(f.instructions)) for f in sass.parse(text)] == [
        ("first", 1),
        ("second", 2),
    ]


def test_innermost_loop_with_tensor_instructions_is_found():
    (path,) = paths_of(PLAIN)
    assert path.count("HMMA") == 20
    assert path.count("LDSM") == 10
    assert path.count("LDS") == 2  # the inner wait once; outer's and what is never true not
    assert path.count("NOP") == 1
    assert path.count("BRA") == 2
    assert path.opcodes.total() == 20 + 10 + 2 + 1 + 2


def test_loops_come_in_the_order_of_the_code():
    text = """
    first:
        2 x HMMA.16816.F32 R4, R8, R12, R4
        @P0 BRA first
    second:
        3 x HMMA.16816.F32 R4, R8, R12, R4
        @P0 BRA second
        EXIT
    """
    blocks, loops = loops_of(text)
    counts = [sass.paths(blocks, loop)[0].count("HMMA") for loop in loops]
    assert counts == [2, 3]


def test_code_without_a_tensor_loop():
    assert loops_of("2 x HMMA.16816.F32 R4, R8, R12, R4\nEXIT")[1] == []
    assert loops_of("loop:\nFADD R1, R2, R3\n@P0 BRA loop\nEXIT")[1] == []


ROLES = """
    MOV R1, c[0x0][0x28]
loop:
    4 x HMMA.16816.F32 R4, R8, R12, R4
    @P0 BRA other
    6 x MUFU.EX2 R4, R4
    3 x FMUL R4, R4, R4
    BRA joined
other:
    5 x FADD R4, R4, R4
joined:
    2 x HMMA.16816.F32 R4, R8, R12, R4
    BRA.CONV ~URZ, after
    7 x MOV R9, R9
    CALL.REL.NOINC sub
after:
    @!P3 BRA copied
    8 x LDGSTS.E.BYPASS.LTC128B.128 [R4], [R6.64]
    2 x LDGSTS.E.LTC128B [R4], [R6.64]
copied:
    BRA.DIV ~URZ, sub
    @P5 BRA loop
    EXIT
sub:
    9 x NOP
    RET.REL.NODEC R20 0x0
"""


def test_ways_through_a_loop_by_role_and_by_who_copies():
    found = {
        (p.count("MUFU"), p.count("FADD"), sass.copies(p), p.count("LDGSTS"))
        for p in paths_of(ROLES)
    }
    assert found == {(6, 0, 0, 0), (6, 0, 8, 10), (0, 5, 0, 0), (0, 5, 8, 10)}
    for path in paths_of(ROLES):
        assert path.count("HMMA") == 6
        assert path.count("MOV", "CALL", "NOP") == 0  # lanes that have parted, and subroutines


def test_longest_of_ways_that_look_the_same():
    (path,) = paths_of("""
    loop:
        HMMA.16816.F32 R4, R8, R12, R4
        @P0 BRA short
        4 x IADD3 R1, R1, R1, R1
        BRA end
    short:
        1 x FADD R1, R1, R1
    end:
        @P1 BRA loop
        EXIT
    """)
    assert path.count("IADD3") == 4
    assert path.count("FADD") == 0


def test_block_that_jumps_back_without_closing_a_loop():
    """Code moved out of line returns to the middle of straight code: no loop of its own."""
    blocks, loops = loops_of("""
        @P0 BRA away
    back:
        2 x HMMA.16816.F32 R4, R8, R12, R4
        EXIT
    away:
        BRA back
    """)
    assert loops == []
    assert len(blocks) == 3


def path(**counts: int) -> Path:
    return Path(Counter({name.replace("_", "."): n for name, n in counts.items()}))


def test_clocks_of_each_pipe():
    mix = path(HMMA_16816_F32=10, MUFU_EX2=3, FFMA=8, IADD3=4, LDSM_16_M88_4=2, BRA=1)
    clocks = pipes.clocks([(8, mix)])
    assert clocks.tensor == 8 * 10 * 4
    assert clocks.mufu == 8 * 3 * 2
    assert clocks.arithmetic == 8 * 12 / 4  # fp32 and integer together
    assert clocks.shared == 8 * 2 * 4
    assert clocks.issue == 8 * 28 / 4
    assert clocks.other_issue == 8 * 18 / 4
    assert clocks.slowest == "tensor"
    assert clocks.bound == 1
    assert clocks.strict == pytest.approx(320 / (320 + 36))


def test_integer_alone_has_half_the_lanes():
    assert pipes.clocks([(1, path(IADD3=8))]).arithmetic == 4
    assert pipes.clocks([(1, path(IADD3=4, FADD=4))]).arithmetic == 2
    assert pipes.clocks([(1, path(FADD=8))]).arithmetic == 2


def test_roles_add_up():
    clocks = pipes.clocks([(6, path(HMMA=1, MUFU_TANH=2)), (2, path(HMMA=3))])
    assert clocks.tensor == 4 * (6 + 6)
    assert clocks.mufu == 2 * 12


def test_slowest_pipe_bounds():
    clocks = pipes.clocks([(1, path(HMMA=1, LDS_128=4))])
    assert clocks.slowest == "shared"
    assert clocks.bound == clocks.strict == pytest.approx(4 / 16)


@pytest.mark.parametrize(
    ("opcode", "size"),
    [
        *(("LDSM.16.M88.4", 512), ("LDSM.16.MT88.4", 512), ("LDSM.16.M88.2", 256)),
        *(("LDSM.16.M88", 128), ("LDS", 128), ("LDS.64", 256), ("LDS.U.128", 512)),
        *(("STS.128", 512), ("STS", 128), ("LDGSTS.E.BYPASS.LTC128B.128", 512)),
        *(("LDGSTS.E.LTC128B", 128), ("LDGSTS.E.BYPASS.LTC128B.128.ZFILL", 512)),
        *(("SHFL.BFLY", 128), ("ATOMS.ARRIVE.64", 256), ("LDG.E.128", 0), ("HMMA.16816.F32", 0)),
    ],
)
def test_bytes_through_shared_memory(opcode, size):
    assert pipes.shared_bytes(Path(Counter([opcode]))) == size
