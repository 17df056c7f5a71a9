"""Draws of case specifications: reproducible, in range, the visible panel among them."""

import dataclasses

import pytest
from ragged_attention.bench.case import VIEWS, CaseSpec, View
from vjp_task import paths
from vjp_task.cli import main
from vjp_task.draw import draw_case, draw_panel
from vjp_task.family import load_family
from vjp_task.panel import Panel, load_visible_panel, scaled

FAMILY = load_family()
VISIBLE = load_visible_panel()

# Logits of one draw of each stratum, in millions; another draw lies within 20 %.
LOGITS = (260, 220, 215, 344, 369, 246)


def test_visible_panel_is_the_draw_of_its_seed():
    assert draw_panel(FAMILY, VISIBLE.seed) == VISIBLE
    assert [case.name for case in VISIBLE.cases] == [s.name for s in FAMILY.strata]
    assert VISIBLE.to_text() == paths.visible_cases_file().read_text()


@pytest.mark.parametrize(
    ("case", "logits"),
    list(zip(VISIBLE.cases, LOGITS, strict=True)),
    ids=lambda x: getattr(x, "name", x),
)
def test_visible_cases_have_the_size_that_was_set(case, logits):
    assert case.logits / 1e6 == pytest.approx(logits, rel=0.2)


@pytest.mark.parametrize("stratum", FAMILY.strata, ids=lambda s: s.name)
def test_draws_stay_in_range_and_reach_the_ends(stratum):
    cases = [draw_case(FAMILY, stratum, seed) for seed in range(400)]
    for field, bounds in (("q_lengths", stratum.q_length), ("k_lengths", stratum.k_length)):
        lengths = [n for case in cases for n in getattr(case, field)]
        assert (min(lengths), max(lengths)) == bounds
        middle = (bounds[0] + bounds[1]) / 2
        assert sum(lengths) / len(lengths) == pytest.approx(middle, rel=0.02)
    assert {case.batch for case in cases} == {stratum.batch}
    views = {case.views[name] for case in cases for name in VIEWS}
    assert views == {View(step, pad) for step in FAMILY.steps for pad in FAMILY.pads}


def test_views_are_drawn_for_each_tensor_on_its_own():
    cases = [draw_case(FAMILY, FAMILY.strata[0], seed) for seed in range(50)]
    assert max(len(set(case.views.values())) for case in cases) == len(VIEWS)


def test_same_seed_same_case_and_another_seed_another():
    stratum = FAMILY.strata[3]
    assert draw_case(FAMILY, stratum, 7) == draw_case(FAMILY, stratum, 7)
    assert draw_case(FAMILY, stratum, 7).q_lengths != draw_case(FAMILY, stratum, 8).q_lengths
    seeds = [case.seed for seed in (1, 2) for case in draw_panel(FAMILY, seed).cases]
    assert len(set(seeds)) == 12
    assert all(0 <= seed < 2**53 for seed in seeds)


def test_counts_of_a_case():
    case = dataclasses.replace(VISIBLE.cases[0], heads=3, q_lengths=(2, 0, 5), k_lengths=(7, 4, 1))
    assert (case.batch, case.total_q, case.total_k, case.logits) == (3, 7, 12, 3 * (14 + 0 + 5))


def test_json_gives_the_same_panel_back():
    panel = draw_panel(FAMILY, 99)
    assert Panel.from_text(panel.to_text()) == panel
    case = panel.cases[0]
    assert CaseSpec.from_json(case.to_json()) == case


def test_json_that_does_not_fit_together_is_refused():
    data = VISIBLE.cases[0].to_json()
    short = {**data, "k_lengths": data["k_lengths"][1:]}
    with pytest.raises(ValueError, match=r"^k_lengths: 17 sequences; q_lengths has 18$"):
        CaseSpec.from_json(short)
    views = {name: view for name, view in data["views"].items() if name != "dout"}
    with pytest.raises(ValueError, match=r"^views: \['k', 'q', 'v'\]; \['dout', .* are needed$"):
        CaseSpec.from_json({**data, "views": views})


def test_select_keeps_the_panels_order():
    names = [VISIBLE.cases[4].name, VISIBLE.cases[1].name]
    assert VISIBLE.select(names) == (VISIBLE.cases[1], VISIBLE.cases[4])
    assert VISIBLE.select(None) == VISIBLE.cases
    with pytest.raises(ValueError, match=r"^case: 'h1'; one of h48_fp16_qlong, .* is needed$"):
        VISIBLE.select(["h1"])


def test_scaled_lengths_and_batch():
    case = VISIBLE.cases[0]
    half = scaled(case, 0.5)
    assert half.q_lengths == tuple(round(n / 2) for n in case.q_lengths[:9])
    assert half.k_lengths == tuple(round(n / 2) for n in case.k_lengths[:9])
    assert scaled(case, 1) == case
    assert dataclasses.replace(half, q_lengths=(), k_lengths=()) == dataclasses.replace(
        case, q_lengths=(), k_lengths=()
    )


def test_scaled_keeps_a_case_ragged():
    tiny = scaled(VISIBLE.cases[5], 1e-6)
    assert tiny.batch == 4
    assert set(tiny.q_lengths + tiny.k_lengths) == {8}
    small = dataclasses.replace(VISIBLE.cases[5], q_lengths=(3, 20), k_lengths=(40, 0))
    assert scaled(small, 0.1).q_lengths == (3, 8)
    assert scaled(small, 0.1).k_lengths == (8, 0)


@pytest.mark.parametrize("factor", [0, -1, 1.5, float("nan")])
def test_scale_out_of_range_is_refused(factor):
    message = r"^scale: (0|-1|1\.5|nan); a number above 0 and at most 1 is needed$"
    with pytest.raises(ValueError, match=message):
        scaled(VISIBLE.cases[0], factor)


def test_draw_command_prints_the_panel(capsys):
    assert main(["draw", "--seed", str(VISIBLE.seed)]) == 0
    assert capsys.readouterr().out == VISIBLE.to_text()
