"""The reader of ptxas's report, and the rule that a spill without a reason stops the build."""

from pathlib import Path

import ptxas_log
import pytest
from ptxas_log import AllowedSpill, Usage

REPORT = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_ZN2ra10row_kernelILi128EEEvPf' for 'sm_86'
ptxas info    : Function properties for _ZN2ra10row_kernelILi128EEEvPf
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 254 registers, used 1 barriers, 400 bytes smem, 552 bytes cmem[0]
ptxas info    : Compile time = 41.5 ms
ptxas info    : Compiling entry function '_ZN2ra10row_kernelILi128EEEvPf' for 'sm_90'
ptxas info    : Function properties for _ZN2ra10row_kernelILi128EEEvPf
    16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers
ptxas info    : Function properties for _ZN2ra6helperEf
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
"""
ROW = "_ZN2ra10row_kernelILi128EEEvPf"
USAGES = [
    Usage(ROW, "sm_86", registers=254, static_smem=400),
    Usage(ROW, "sm_90", registers=255, stack=16, spill_stores=8, spill_loads=12),
    Usage("_ZN2ra6helperEf", "sm_90"),
]


def report_beside(folder: Path) -> Path:
    """Writes the sample as the report of an object file, whose path is returned."""
    (folder / "row.cu.o.ptxas").write_text(REPORT)
    return folder / "row.cu.o"


def check(folder: Path, allowed: str, report_only: bool = False) -> int:
    (folder / "allowed_spills.txt").write_text(allowed)
    return ptxas_log.check(
        [report_beside(folder), folder / "host.cpp.o"],
        folder / "allowed_spills.txt",
        folder / "ptxas.txt",
        report_only,
    )


def test_parse_usage() -> None:
    assert ptxas_log.parse_usage(REPORT.splitlines()) == USAGES


def test_only_the_report_is_taken_out() -> None:
    assert all(ptxas_log.is_ptxas_line(line) for line in REPORT.splitlines())
    for line in (
        "row.cu(12): warning #177-D: variable declared but never referenced",
        "ptxas info    : (C7515) Potential Performance Loss: wgmma.mma_async are serialized",
        "ptxas warning : Registers are spilled",
        "ptxas error   : Entry function uses too much shared data",
    ):
        assert not ptxas_log.is_ptxas_line(line)


def test_summary_lists_every_kernel_and_architecture(tmp_path: Path) -> None:
    assert check(tmp_path, "sm_90 row_kernel<128>: eight bytes outside the loop\n") == 0
    assert (tmp_path / "ptxas.txt").read_text().splitlines() == [
        " arch  registers  stack  spill_stores  spill_loads  static_smem  kernel",
        "sm_90          0      0             0            0            0  helper",
        "sm_86        254      0             0            0          400  row_kernel<128>",
        "sm_90        255     16             8           12            0  row_kernel<128>",
    ]


@pytest.mark.parametrize(
    "allowed",
    ["", "sm_86 row_kernel<128>: other architecture\n", "sm_90 row_kernel<64>: other kernel\n"],
)
def test_spill_without_a_reason(
    allowed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(tmp_path, allowed) == 1
    assert capsys.readouterr().err == (
        "error: row_kernel<128>: spills 8 bytes of stores and 12 bytes of loads on sm_90; "
        "none are allowed unless allowed_spills.txt gives a reason\n"
    )


def test_spill_is_told_where_a_report_is_all_that_is_wanted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(tmp_path, "", report_only=True) == 0
    assert capsys.readouterr().err == (
        "note: row_kernel<128>: spills 8 bytes of stores and 12 bytes of loads on sm_90; "
        "none are allowed unless allowed_spills.txt gives a reason\n"
    )


def test_parse_allowed() -> None:
    text = "# comment\n\nsm_90 ra::row_kernel<ra::T<1> >: outside: the loop\n"
    assert ptxas_log.parse_allowed(text) == [
        AllowedSpill("sm_90", "row_kernel<T<1>>", "outside: the loop")
    ]


@pytest.mark.parametrize("line", ["sm_90 row_kernel:", "row_kernel: why", "sm_90 row_kernel"])
def test_reason_is_required(line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(tmp_path, f"# list\n{line}\n") == 1
    assert capsys.readouterr().err == (
        f"error: {tmp_path}/allowed_spills.txt: line 2: {line!r}; "
        "`<architecture> <part of the name>: <reason>` is needed\n"
    )


def test_compiler_failure_is_passed_on(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "row.o"
    script = "echo 'row.cu(3): error: no' >&2; exit 2"
    assert ptxas_log.run_compiler(["sh", "-c", script, "-o", str(target)]) == 2
    assert capfd.readouterr().err == "row.cu(3): error: no\n"
    assert not Path(f"{target}.ptxas").exists()


def test_compiler_report_is_kept(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "row.o"
    script = f"printf '%s' \"$0\" >&2; echo 'row.cu(3): warning: odd' >&2; echo > {target}"
    command = ["sh", "-c", script, REPORT, "-o", str(target)]
    assert ptxas_log.run_compiler(command) == 0
    assert capfd.readouterr().err == "row.cu(3): warning: odd\n"
    assert Path(f"{target}.ptxas").read_text() == REPORT
