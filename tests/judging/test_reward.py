"""The reward: its formula, its breakpoints, its bounds."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from vjp_task.cli import main
from vjp_task.reward import reward

S, U = 13.78, 210.39


@pytest.mark.parametrize(
    ("speedup", "expected"),
    [
        (0.0, 0.0),
        (0.5, 0.0),
        (1.0, 0.0),
        ((1 + S) / 2, 0.3),
        (S, 0.6),
        ((S + U) / 2, 0.8),
        (U, 1.0),
        (2 * U, 1.0),
        (math.inf, 1.0),
    ],
)
def test_value(speedup, expected):
    assert reward(speedup, S, U) == pytest.approx(expected, abs=1e-12)


def test_published_run():
    assert reward(4.13, S, U) == pytest.approx(0.6 * 3.13 / 12.78)


def test_no_jump_at_a_breakpoint():
    for point in (1.0, S, U):
        below, above = math.nextafter(point, 0), math.nextafter(point, math.inf)
        assert reward(above, S, U) - reward(below, S, U) == pytest.approx(0, abs=1e-12)


marks = st.floats(1.001, 1e4).flatmap(lambda s: st.tuples(st.just(s), st.floats(s * 1.001, 1e6)))


@given(st.floats(0, 1e7), st.floats(0, 1e7), marks)
def test_it_never_falls_and_stays_in_bounds(one, other, pair):
    low, high = sorted((one, other))
    assert 0 <= reward(low, *pair) <= reward(high, *pair) <= 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((-1.0, S, U), "speedup: -1; a number of at least 0 is needed"),
        ((math.nan, S, U), "speedup: nan; a number of at least 0 is needed"),
        ((2.0, 1.0, U), "s: 1; a finite number above 1 is needed"),
        ((2.0, S, S), "u: 13.78; a finite number above s, 13.78, is needed"),
        ((2.0, S, math.inf), "u: inf; a finite number above s, 13.78, is needed"),
    ],
)
def test_wrong_numbers(arguments, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        reward(*arguments)


def test_command(capsys):
    assert main(["reward", "--speedup", "4.13", "--s", "13.78", "--u", "210.39"]) == 0
    assert capsys.readouterr().out == "0.1469\n"
    assert main(["reward", "--speedup", "4.13", "--s", "0.5", "--u", "210.39"]) == 2
    assert capsys.readouterr().err == "error: s: 0.5; a finite number above 1 is needed\n"
