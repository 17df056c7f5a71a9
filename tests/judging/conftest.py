"""A tiny sealed panel, and one case run in a process of its own."""

import contextlib
import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from ragged_attention.bench.case import CaseSpec
from submissions import BASELINE
from vjp_task import seal
from vjp_task.cli import main
from vjp_task.draw import draw_panel
from vjp_task.family import load_family
from vjp_task.panel import scaled
from vjp_task.sealed import conversation, panel_run, process, scratch
from vjp_task.sealed.conversation import Outcome

CPU = torch.device("cpu")
TINY = 0.01
LIMITS = process.Limits(seconds=60, import_seconds=60)


@pytest.fixture(scope="session")
def tiny_cases():
    """A bfloat16 case with long keys and a float16 one with long queries, both tiny."""
    cases = draw_panel(load_family(), 12345).cases
    return [
        scaled(case, TINY) for case in cases if case.name in ("h48_bf16_klong", "h48_fp16_qlong")
    ]


@pytest.fixture(scope="session")
def sealed(tiny_cases, tmp_path_factory):
    """(manifest, what seal printed) of a panel of the two tiny cases."""
    folder = tmp_path_factory.mktemp("sealed")
    seed = folder / "seed"
    seed.write_text("nobody guesses this")
    options = ["--seed-file", str(seed), "--out", str(folder / "out"), "--device", "cpu"]
    options += ["--human-reference", "2", "--upper-proxy", "9", "h48_bf16_klong=5"]
    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
        patch.setattr(seal, "draw_sealed", lambda seed, scale: tiny_cases)
        assert main(["seal", *options]) == 0
    return folder / "out" / "manifest.json", printed.getvalue()


@pytest.fixture(scope="session")
def harness_root(tmp_path_factory):
    """The folder with the copied harness."""
    root = tmp_path_factory.mktemp("harness")
    process.copy_harness(root)
    return root


def run_in(
    folder: Path,
    harness: Path,
    submission: Path,
    spec: CaseSpec,
    samples=3,
    imported=None,
    device=CPU,
    **limits,
) -> Outcome:
    """Runs a submitted folder on one case, in `folder / "case"`."""
    scratch.copy_submission(submission, folder / "copied" / "solver")
    panel_run.lay_out(folder / "copied", folder / "case")
    worker = process.Worker(harness, folder / "case", device, replace(LIMITS, **limits))
    return conversation.run_case(
        spec, worker, device, samples, imported=imported or (lambda f: None)
    )


@pytest.fixture
def run_case(harness_root, tiny_cases, tmp_path) -> Callable[..., Outcome]:
    """`run_in` for the first tiny case."""

    def run(submission: Path, **options) -> Outcome:
        return run_in(tmp_path, harness_root, submission, tiny_cases[0], **options)

    return run


def write_plain(folder: Path, in_call: str = "", at_import: str = "") -> Path:
    """A solver that is plain, but for a few lines at its top and in each call."""
    folder.mkdir()
    (folder / "plain.py").write_text(BASELINE.read_text())
    (folder / "solver.py").write_text(
        "import os, sys, time\nimport torch\n"
        "from plain import attention_varlen_feature_full_vjp as plain\n"
        f"{at_import}\n"
        "def attention_varlen_feature_full_vjp(*arguments):\n"
        "    q, k, v = arguments[:3]\n"
        "    out, dq, dk, dv = plain(*arguments)\n"
        f"    {in_call or 'pass'}\n"
        "    return out, dq, dk, dv\n"
    )
    return folder


@pytest.fixture
def write_solver(tmp_path) -> Callable[..., Path]:
    """`write_plain` in a folder of the test's own."""

    def write(in_call: str = "", at_import: str = "") -> Path:
        return write_plain(tmp_path / "submission", in_call, at_import)

    return write
