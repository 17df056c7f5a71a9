"""The family as data, and the visible panel drawn from it."""

import json

import pytest
import torch
from vjp_task import paths
from vjp_task.family import load_family

FAMILY = load_family()

# heads, dtype, batch, query lengths, key lengths: the six strata as they were set.
STRATA = {
    "h48_fp16_qlong": (48, "float16", 18, (1024, 2304), (96, 256)),
    "h64_bf16_qlong": (64, "bfloat16", 28, (768, 1536), (48, 160)),
    "h96_fp16_qlong": (96, "float16", 24, (512, 1024), (64, 192)),
    "h48_bf16_klong": (48, "bfloat16", 52, (48, 160), (768, 1792)),
    "h80_fp16_klong": (80, "float16", 36, (32, 128), (1024, 2048)),
    "h96_bf16_klong": (96, "bfloat16", 44, (24, 96), (640, 1408)),
}


def test_strata_are_the_six_that_were_set():
    read = {s.name: (s.heads, s.dtype, s.batch, s.q_length, s.k_length) for s in FAMILY.strata}
    assert read == STRATA
    assert list(read) == list(STRATA)


def test_what_all_strata_share():
    assert (FAMILY.head_dim, FAMILY.kv_heads) == (160, 1)
    assert (FAMILY.causal, FAMILY.window_left, FAMILY.window_right) == (False, -1, -1)
    assert (FAMILY.softcap, FAMILY.scale_multiplier) == (3.0, 0.75)
    assert (FAMILY.slope_factor, FAMILY.steps, FAMILY.pads) == ((0.5, 1.5), (2, 3), (8, 16, 24, 32))


def test_dtypes_are_those_of_torch():
    assert {getattr(torch, s.dtype) for s in FAMILY.strata} == {torch.float16, torch.bfloat16}


def test_unknown_stratum_is_named():
    with pytest.raises(ValueError, match=r"^stratum: 'h7'; one of h48_fp16_qlong, .* is needed$"):
        FAMILY.stratum("h7")
    assert FAMILY.stratum("h96_bf16_klong").batch == 44


def test_family_reads_from_a_file_of_choice(tmp_path):
    data = json.loads(paths.family_file().read_text())
    data["softcap"] = 5.0
    data["strata"] = data["strata"][:2]
    file = tmp_path / "family.json"
    file.write_text(json.dumps(data))
    other = load_family(file)
    assert other.softcap == 5.0
    assert [s.name for s in other.strata] == list(STRATA)[:2]
