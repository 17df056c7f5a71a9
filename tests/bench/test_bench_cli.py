"""The command, as far as it goes without a GPU."""

import subprocess
import sys

import pytest
import torch
from bench_samples import timed
from ragged_attention.bench import cli, results
from ragged_attention.bench.floor import Ceilings
from ragged_attention.bench.repository import repository
from ragged_attention.bench.strata import Options


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--stratum", "none"], "stratum: 'none'; one of h48_fp16_qlong, "),
        (["--methods", "none"], "methods: 'none'; one of ours_sm90, "),
        (["--show", "none.json"], "show: none.json cannot be read ("),
    ],
)
def test_wrong_calls(capsys, arguments, message):
    assert cli.main(arguments) == 2
    assert capsys.readouterr().err.startswith(f"error: {message}")


def test_without_a_gpu(monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert cli.main([]) == 2
    assert capsys.readouterr().err == "error: device: torch sees no GPU; one is needed\n"


def test_showing_a_file_measures_nothing(gpu_report, tmp_path, capsys):
    file = tmp_path / "result.json"
    results.write(gpu_report, file)
    before = file.read_bytes()
    assert cli.main(["--show", str(file), "--plot"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[-4:] == [
        str(file),
        *(str(tmp_path / f"result-{name}.png") for name in ("roofline", "floor", "scaling")),
    ]
    assert file.read_bytes() == before


def test_a_wrong_result_of_ours_shows_in_the_exit_code(gpu_report, tmp_path):
    file = tmp_path / "result.json"
    gpu_report["strata"][1]["methods"]["ours_sm90"] = timed(1.0, ok=False, status="wrong, timed")
    results.write(gpu_report, file)
    assert cli.main(["--show", str(file)]) == 1


def test_extras_come_before_what_is_profiled(monkeypatch):
    done = []
    monkeypatch.setattr(cli, "run_stratum", lambda *_: done.append("stratum"))
    monkeypatch.setattr(cli, "run_extras", lambda *_: done.append("extras"))
    monkeypatch.setattr(results, "assemble", lambda *parts: parts)
    options = Options(quick=True)
    cli.run(["a case"] * 2, [], torch.device("cpu"), Ceilings(1, 1), options, "", extras=True)
    assert done == ["extras", "stratum", "stratum"]


def test_a_whole_run_with_a_gpu_that_is_not_there(monkeypatch, tmp_path, measured, capsys):
    """All between the arguments and the file, with the measuring itself left out."""
    seen = {}

    def run(cases, methods, device, ceilings, options, command, extras, complete):
        seen.update(cases=cases, methods=methods, options=options, command=command)
        seen.update(extras=extras, complete=complete)
        return {**measured, "ceilings": ceilings._asdict()}

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(cli, "measure_ceilings", lambda device: Ceilings(600.0, 4.0))
    monkeypatch.setattr(cli, "run", run)
    file = tmp_path / "out.json"
    words = ["--stratum", "h96_bf16_klong", "h48_fp16_qlong", "--methods", "eager"]
    assert cli.main([*words, "--quick", "--extras", "--json", str(file)]) == 0
    assert [c.name for c in seen["cases"]] == ["h48_fp16_qlong", "h96_bf16_klong"]
    assert [m.name for m in seen["methods"]] == ["eager"]
    assert seen["options"].asked_for
    assert seen["options"].quick
    assert not seen["options"].time_wrong
    assert seen["extras"] is True
    assert seen["complete"] is False
    assert seen["command"].startswith("python -m ragged_attention.bench --stratum h96_bf16_klong")
    assert results.read(file)["ceilings"] == {"mma_tflops": 600.0, "copy_tbps": 4.0}
    assert "ceilings: mma.sync 600 TFLOP/s" in capsys.readouterr().out

    assert cli.main(["--json", str(file)]) == 0
    assert len(seen["cases"]) == 6
    assert seen["complete"] is True
    assert not seen["options"].asked_for


def test_operator_imports_nothing_of_the_benchmark():
    code = "import sys, ragged_attention; print([m for m in sys.modules if '.bench' in m])"
    command = [sys.executable, "-c", code]
    folder = repository() / "python"
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_help_teaches(capsys):
    with pytest.raises(SystemExit) as leaving:
        cli.main(["--help"])
    assert leaving.value.code == 0
    text = capsys.readouterr().out
    for word in ("--stratum", "--methods", "--json", "--plot", "--quick", "--extras", "--show"):
        assert word in text
    assert "flash_attn_cute" in text
