"""Free energies: against the closed form and pymbar."""

import pickle

import annealed
import numpy as np
import pytest

rng = np.random.default_rng(7)
#: W ~ N(dF + s^2 / 2, s^2), and W' ~ N(-dF + s^2 / 2, s^2), by Crooks' relation.
EXACT, SPREAD = 2.0, 1.5
FORWARD = rng.normal(EXACT + SPREAD**2 / 2, SPREAD, 800)
REVERSE = rng.normal(-EXACT + SPREAD**2 / 2, SPREAD, 600)


def test_crooks_relation():
    found = annealed.free_energy(FORWARD, REVERSE)
    assert 0 < found.standard_error < 0.1 and found.warnings == []
    assert abs(found.delta_f - EXACT) < 4 * found.standard_error
    assert found.interval[0] < found.delta_f < found.interval[1] and 0.1 < found.overlap < 1
    assert repr(found).startswith(f"dF = {found.delta_f:.3f} +- ") and pickle.loads(pickle.dumps(found)) == found
    assert annealed.free_energy(list(FORWARD), REVERSE.astype(object).astype(float)) == found


@pytest.mark.filterwarnings("ignore")
def test_signs_and_value_are_those_of_pymbar():
    pymbar = pytest.importorskip("pymbar")
    found, theirs = annealed.free_energy(FORWARD, REVERSE), pymbar.bar(FORWARD, REVERSE)
    assert found.delta_f == pytest.approx(theirs["Delta_f"], abs=1e-6)
    assert found.standard_error == pytest.approx(theirs["dDelta_f"], rel=0.02)


@pytest.mark.parametrize(("unit", "kt"), [("kJ/mol", 8.31446261815324e-3 * 300), ("kcal/mol", 8.31446261815324e-3 * 300 / 4.184)])
def test_units(unit, kt):
    plain, found = annealed.free_energy(FORWARD, REVERSE), annealed.free_energy(kt * FORWARD, kt * REVERSE, unit=unit, temperature=300)
    assert found.unit == unit and f"({unit}, Bennett" in repr(found)
    assert found.delta_f == pytest.approx(kt * plain.delta_f) and found.standard_error == pytest.approx(kt * plain.standard_error)
    assert found.interval == pytest.approx((kt * plain.interval[0], kt * plain.interval[1]))


@pytest.mark.parametrize(
    ("forward", "reverse"),
    [
        (FORWARD, 2.494 * REVERSE),
        (-FORWARD, -REVERSE),
        (FORWARD, -REVERSE),
        (FORWARD + 1, REVERSE),
        (2.494 * FORWARD, 2.494 * REVERSE),
    ],
)
def test_directions_that_exclude_one_another_warn(forward, reverse):
    found = annealed.free_energy(forward, reverse)
    assert "ForwardReverseGap" in found.warning_names and "the argument unit" in str(found), found


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"unit": None}, "invalid unit: got None, expected"),
        ({"unit": "kJ/mol"}, "invalid temperature: got none, expected the kelvins"),
        ({"temperature": 300}, "invalid temperature: got 300, expected none for works over kT"),
        ({"unit": "kJ/mol", "temperature": -1}, "invalid temperature: got -1"),
        ({"unit": "eV"}, "invalid unit: got eV, expected kT, kJ/mol or kcal/mol"),
    ],
)
def test_units_are_checked(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        annealed.free_energy(FORWARD, REVERSE, **arguments)


def test_little_overlap_warns():
    found = annealed.free_energy(FORWARD + 30, REVERSE + 30)
    assert found.warning_names == ["ForwardReverseGap", "LittleOverlap"] and "warning: " in str(found)
    assert found.interval[1] - found.interval[0] > 10


def test_small_errors_have_their_digits():
    found = annealed.free_energy(rng.normal(1, 1e-4, 500), rng.normal(-1, 1e-4, 500))
    assert " +- 0.0000" in repr(found) and repr(found)[:14] != "dF = 1.000 +- 0"


@pytest.mark.parametrize(
    ("forward", "reverse", "sentence"),
    [
        ([1.0], REVERSE, "invalid forward chains: got 1, expected at least 2"),
        ([1.0, np.nan], REVERSE, r"invalid forward: got nan at forward\[1\], expected a number or \+inf"),
        ([np.inf] * 50, REVERSE, r"invalid forward: got \+inf for each work"),
        (FORWARD, [1.0, 2.0, -np.inf], r"invalid reverse: got -inf at reverse\[2\]"),
        (FORWARD, [[1.0, 2.0]], r"invalid reverse: got an array of shape \(1, 2\), expected 1 dimensions"),
        (["a", "b"], REVERSE, "invalid forward: got an array of <U1, expected numbers"),
    ],
)
def test_bad_input_is_named(forward, reverse, sentence):
    with pytest.raises(ValueError, match=sentence):
        annealed.free_energy(forward, reverse)
