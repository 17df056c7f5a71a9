"""Cases of the benchmark and their tensors."""

import math

import pytest
import torch
from ragged_attention.bench.case import VIEWS, CaseSpec, View, dense_case, load_cases
from ragged_attention.bench.extras import (
    LONG_ROWS,
    LONG_SQUARES,
    SCALING_LOGITS,
    SHORT,
    scaling_case,
)
from ragged_attention.bench.inputs import make_problem, offsets
from ragged_attention.bench.repository import repository

CPU = torch.device("cpu")


def test_the_six_strata_are_the_visible_cases():
    cases = load_cases(repository() / "problems" / "visible_cases.json")
    assert [c.name for c in cases] == [
        *("h48_fp16_qlong", "h64_bf16_qlong", "h96_fp16_qlong"),
        *("h48_bf16_klong", "h80_fp16_klong", "h96_bf16_klong"),
    ]
    assert all(200e6 < c.logits < 400e6 for c in cases)


def test_case_survives_json():
    case = dense_case("name", (3, 5), (7, 2), heads=4, dtype="bfloat16")
    assert CaseSpec.from_json(case.to_json()) == case
    assert (case.batch, case.total_q, case.total_k, case.logits) == (2, 8, 9, 4 * (21 + 10))
    assert case.views == dict.fromkeys(VIEWS, View(1, 0))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"k_lengths": [1]}, r"^k_lengths: 1 sequences; q_lengths has 2$"),
        ({"views": {}}, r"^views: \[\]; \['dout', 'k', 'q', 'v'\] is needed$|are needed$"),
    ],
)
def test_case_that_does_not_fit_together(change, message):
    data = dense_case("name", (3, 5), (7, 2)).to_json() | change
    with pytest.raises(ValueError, match=message):
        CaseSpec.from_json(data)


def test_problem_has_the_operators_arguments():
    problem = make_problem(dense_case("name", (3, 5), (7, 2), heads=4), CPU)
    assert len(problem.arguments()) == 12
    assert problem.arguments()[7:] == (False, -1, -1, 3.0, 0.75)
    assert problem.q.shape == problem.dout.shape == (8, 4, 160)
    assert problem.k.shape == problem.v.shape == (9, 1, 160)
    assert problem.q.is_contiguous()
    assert problem.cu_k.tolist() == [0, 7, 9]
    assert problem.scale == pytest.approx(0.75 / math.sqrt(160))


def test_offsets_of_nothing():
    assert offsets((), CPU).tolist() == [0]


def test_short_and_long_sequences_have_as_many_logits():
    assert SHORT.batch == 20_000
    assert LONG_ROWS.batch == LONG_SQUARES.batch == 20
    assert LONG_ROWS.logits == SHORT.logits
    assert LONG_SQUARES.logits == pytest.approx(SHORT.logits, rel=1e-3)
    assert LONG_ROWS.total_q == SHORT.total_q


@pytest.mark.parametrize("logits", SCALING_LOGITS)
def test_scaling_cases_have_about_the_logits(logits):
    assert scaling_case(logits).logits == pytest.approx(logits, rel=0.03)


def test_scaling_spans_one_million_to_four_billion():
    assert SCALING_LOGITS[0] == pytest.approx(1e6, rel=0.05)
    assert SCALING_LOGITS[-1] == pytest.approx(4.3e9, rel=0.01)
