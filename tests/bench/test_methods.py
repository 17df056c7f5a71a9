"""The methods' adapters, as far as a machine without a GPU can tell."""

import dataclasses
import os
import sys
import types

import pytest
import torch
from bench_samples import CASES
from ragged_attention import native
from ragged_attention.bench import checking, methods
from ragged_attention.bench.case import dense_case
from ragged_attention.bench.inputs import make_problem
from ragged_attention.bench.methods import (
    eager,
    flash_attn_2,
    flash_attn_cute,
    flex_attention,
    ours,
    packed_pytorch,
)

CPU = torch.device("cpu")
GPU = torch.device("cuda", 0)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
@pytest.mark.parametrize("module", [eager, packed_pytorch], ids=["eager", "packed_pytorch"])
def test_pytorch_methods_are_right(case, module):
    problem = make_problem(case, CPU)
    results = module.METHOD.prepare(problem)()
    verdicts = checking.check(results, problem, checking.truth_of(problem))
    assert [v.reason for v in verdicts] == [""] * 4


def test_packed_pytorch_without_cap_and_with_empty_sequences():
    case = dense_case("empty", (3, 0, 4), (5, 2, 0), heads=2)
    problem = make_problem(dataclasses.replace(case, softcap=0.0), CPU)
    results = packed_pytorch.full_vjp(problem)
    verdicts = checking.check(results, problem, checking.truth_of(problem))
    assert [v.reason for v in verdicts] == [""] * 4


@pytest.mark.filterwarnings("ignore:flex_attention called without")
def test_flex_attention_scores_are_the_operators():
    """Its backward needs a GPU; the forward function is the whole adapter but for autograd."""
    problem = make_problem(CASES[0], CPU)
    wide = {name: getattr(problem, name).float() for name in ("q", "k", "v", "dout")}
    forward = flex_attention.attend(dataclasses.replace(problem, **wide), lambda f: f)
    try:
        out = forward(wide["q"], wide["k"], wide["v"])
    except ValueError as error:
        if "power of 2" not in str(error):
            raise
        pytest.skip(f"torch {torch.__version__}: {error}")
    truth = checking.truth_of(problem).exact[0]
    assert float((out - truth).norm() / truth.norm()) < 1e-5


def flash_attention_of_ours(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k,
                            softmax_scale, softcap, alibi_slopes):  # fmt: skip
    """What flash-attention's function computes, for autograd to go through."""
    outs = []
    for b in range(len(cu_seqlens_q) - 1):
        qs = q[cu_seqlens_q[b] : cu_seqlens_q[b + 1]].float()
        ks, vs = (x[cu_seqlens_k[b] : cu_seqlens_k[b + 1], 0].float() for x in (k, v))
        assert len(qs) <= max_seqlen_q
        assert len(ks) <= max_seqlen_k
        i, j = torch.arange(len(qs))[:, None], torch.arange(len(ks))
        s = softcap * torch.tanh(torch.einsum("ihd,jd->hij", qs, ks) * softmax_scale / softcap)
        s = s - alibi_slopes[b, :, None, None] * (i + len(ks) - len(qs) - j).abs()
        outs.append(torch.einsum("hij,jd->ihd", s.softmax(-1), vs))
    return torch.cat(outs).to(q.dtype)


def test_flash_attn_2_gets_its_arguments_and_gives_all_gradients(monkeypatch):
    fake = types.ModuleType("flash_attn")
    fake.flash_attn_varlen_func = flash_attention_of_ours
    fake.__version__ = "2.9"
    monkeypatch.setitem(sys.modules, "flash_attn", fake)
    assert flash_attn_2.METHOD.missing(GPU) == ""
    assert flash_attn_2.METHOD.version() == "2.9"
    problem = make_problem(CASES[0], CPU)
    call = flash_attn_2.METHOD.prepare(problem)
    for _ in range(2):  # each call is a forward and a backward of its own
        verdicts = checking.check(call(), problem, checking.truth_of(problem))
        assert [v.reason for v in verdicts] == [""] * 4
    assert not problem.q.requires_grad


@pytest.mark.parametrize("packed", [True, False], ids=["with lse", "alone"])
def test_flash_attn_cute_gets_modifiers_and_flat_slopes(monkeypatch, packed):
    seen = []

    def attend(q, k, v, score_mod, score_mod_bwd, aux_tensors, **others):
        seen.append((score_mod, score_mod_bwd))
        slopes = aux_tensors[0].view(2, 3)
        out = flash_attention_of_ours(q, k, v, softcap=3.0, alibi_slopes=slopes, **others)
        return (out, None) if packed else out

    fake = types.ModuleType("flash_attn.cute")
    fake.flash_attn_varlen_func = attend
    monkeypatch.setitem(sys.modules, "flash_attn", types.ModuleType("flash_attn"))
    monkeypatch.setitem(sys.modules, "flash_attn.cute", fake)
    monkeypatch.setattr(flash_attn_cute, "_modifiers", lambda heads, cap: (heads, cap))
    assert flash_attn_cute.METHOD.missing(GPU) == ""
    problem = make_problem(CASES[0], CPU)
    results = flash_attn_cute.METHOD.prepare(problem)()
    verdicts = checking.check(results, problem, checking.truth_of(problem))
    assert [v.reason for v in verdicts] == [""] * 4
    assert seen == [(3, 3.0)]


@pytest.mark.parametrize("module", [flash_attn_2, flash_attn_cute])
def test_flash_attn_that_does_not_import_is_absent_with_its_reason(monkeypatch, module):
    monkeypatch.setitem(sys.modules, "flash_attn", None)
    monkeypatch.setitem(sys.modules, "flash_attn.cute", None)
    assert module.METHOD.missing(GPU).startswith(("flash_attn: not", "flash_attn.cute: not"))
    assert "ModuleNotFoundError" in module.METHOD.missing(GPU)
    assert module.METHOD.missing(CPU) == "needs a GPU, not cpu"


def test_ours_is_absent_for_the_modules_reasons(monkeypatch):
    monkeypatch.setattr(native, "load", lambda: None)
    monkeypatch.setattr(native, "why_missing", lambda: "no module")
    assert ours.SM90.missing(GPU) == "no module"

    class Module:
        def check_tiles(self, row, device):
            if row == "sm90":
                raise RuntimeError("device: too small")

    monkeypatch.setattr(native, "load", Module)
    assert ours.SM90.missing(GPU) == "device: too small"
    assert ours.SM86.missing(GPU) == ""
    assert ours.SM86.missing(CPU) == "needs a GPU, not cpu"


@pytest.mark.parametrize("before", [None, "sm90"])
def test_tile_row_holds_within_the_call_only(monkeypatch, before):
    monkeypatch.delenv(native.TILES_VARIABLE, raising=False)
    if before:
        monkeypatch.setenv(native.TILES_VARIABLE, before)
    seen = []
    monkeypatch.setattr(
        ours,
        "attention_varlen_feature_full_vjp",
        lambda *arguments: seen.append((os.environ[native.TILES_VARIABLE], len(arguments))),
    )
    ours.SM86.prepare(make_problem(CASES[0], CPU))()
    assert seen == [("sm86", 12)]
    assert os.environ.get(native.TILES_VARIABLE) == before
    assert ours.SM86.is_ours
    assert not eager.METHOD.is_ours


def test_selecting_methods():
    assert [m.name for m in methods.select(None)] == list(methods.METHODS)
    assert [m.name for m in methods.select(["eager", "ours_sm90"])] == ["ours_sm90", "eager"]
    with pytest.raises(ValueError, match=r"^methods: 'none'; one of ours_sm90, .* is needed$"):
        methods.select(["none"])
