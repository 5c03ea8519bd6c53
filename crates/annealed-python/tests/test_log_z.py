"""Log Z of energies: against quadrature and enumeration, and how bases and functions are read."""

import pickle
import time

import annealed
import numpy as np
import pytest

from test_interruption import CtrlC


def double_well(x):
    return -3 * (x[:, 0] ** 2 - 1) ** 2 - (x[:, 1] - 0.5 * x[:, 0]) ** 2


def slope(x):
    across = 2 * (x[:, 1] - 0.5 * x[:, 0])
    return np.column_stack([-12 * x[:, 0] * (x[:, 0] ** 2 - 1) + 0.5 * across, -across])


def by_quadrature(low, high, points=2001):
    side = np.linspace(low, high, points)
    grid = np.stack(np.meshgrid(side, side, indexing="ij"), axis=-1).reshape(-1, 2)
    weights = np.full(points, side[1] - side[0])
    weights[[0, -1]] /= 2
    return np.log(np.outer(weights, weights).ravel() @ np.exp(double_well(grid)))


EXACT = by_quadrature(-8, 8)
IN_BOX = by_quadrature(-1, 1.5)
SAMPLES = np.random.default_rng(0).normal([0, 0.2], [1, 0.9], size=(200, 2))
BASES = {
    "normal": annealed.independent(annealed.normal(0, 2), 2),
    "student_t": [annealed.student_t(4, 0, 1), annealed.student_t(4, 0, 1)],
    "samples": SAMPLES,
}


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("given", ["values", "gradient", "pair"])
def test_an_integral_is_that_of_quadrature(base, given):
    arguments = {
        "values": (double_well,),
        "gradient": (double_well, slope),
        "pair": (lambda x: (double_well(x), slope(x)), True),
    }
    run = annealed.log_z(BASES[base], *arguments[given], until_error=0.03, seed=2)
    assert run.standard_error <= 0.03
    assert abs(run.log_z - EXACT) < 4 * run.standard_error
    assert run.parameter_names == ["x[0]", "x[1]"]


@pytest.mark.parametrize("slopes", [None, slope])
def test_a_uniform_base_integrates_over_its_box(slopes):
    box = {"x": annealed.independent(annealed.uniform(-1, 1.5), 2)}
    run = annealed.log_z(box, double_well, slopes, until_error=0.03, seed=2)
    assert run.standard_error <= 0.03
    assert abs(run.log_z - IN_BOX) < 4 * run.standard_error
    draws = run.draws(500)["x"]
    assert draws.shape == (500, 2) and draws.min() > -1 and draws.max() < 1.5


@pytest.mark.parametrize("settings", [{"fitted": True}, {"chains": 64, "rounds": 3}])
def test_settings_of_the_rounds_are_taken(settings):
    for base, exact in [(BASES["normal"], EXACT), (annealed.independent(annealed.uniform(-1, 1.5), 2), IN_BOX)]:
        run = annealed.log_z(base, double_well, slope, seed=1, budget=200_000, **settings)
        assert abs(run.log_z - exact) < 4 * run.standard_error and run.standard_error < 0.2


def test_a_challenge_confirms_a_right_result():
    run = annealed.log_z(BASES["normal"], double_well, slope, seed=1, budget=200_000)
    judged = run.challenge(budget=100_000)
    assert abs(judged.log_z - EXACT) < 4 * judged.standard_error and judged.standard_error < 0.2
    assert "challenge: " in str(judged) and judged.draws(5)["x"].shape == (5, 2)
    with pytest.raises(ValueError, match="got a result of annealed.log_z"):
        run.reverse(np.zeros((5, 2)))


BITS = 10
WEIGHTS = np.random.default_rng(1).normal(size=(BITS, 16)) * 1.2
ALL = (np.arange(2**BITS)[:, None] >> np.arange(BITS) & 1).astype(float)


def network(x):
    return np.logaddexp(0, x @ WEIGHTS - 1).sum(axis=1) - 6 * np.tanh(x.sum(axis=1) - 4)


def network_slope(x):
    units = 1 / (1 + np.exp(1 - x @ WEIGHTS))
    return units @ WEIGHTS.T - 6 / np.cosh(x.sum(axis=1, keepdims=True) - 4) ** 2


#: log Z, and the means of the bits.
SUM = np.logaddexp.reduce(network(ALL))
MEANS = np.exp(network(ALL) - SUM) @ ALL


@pytest.mark.parametrize("slopes", [None, network_slope], ids=["values", "gradient"])
@pytest.mark.parametrize("base", [annealed.bits(BITS), annealed.bits(np.linspace(0.2, 0.8, BITS))], ids=["fair", "other"])
def test_a_sum_over_bits_is_that_of_enumeration(base, slopes):
    run = annealed.log_z(base, network, slopes, until_error=0.03, seed=3)
    assert run.standard_error <= 0.03
    assert abs(run.log_z - SUM) < 4 * run.standard_error
    draws = run.draws(4000)["x"]
    assert set(np.unique(draws)) == {0, 1}
    assert np.abs(draws.mean(axis=0) - MEANS).max() < 4 * 0.5 / run.effective_sample_size**0.5
    assert run.summary()["x[3]"]["mean"] == pytest.approx(MEANS[3], abs=4 * run.summary()["x[3]"]["error"] + 1e-6)


def test_a_wrong_gradient_of_bits_costs_time_alone():
    run = annealed.log_z(annealed.bits(BITS), network, lambda x: -network_slope(x), until_error=0.1, seed=3)
    assert abs(run.log_z - SUM) < 4 * run.standard_error


def test_a_flip_is_one_call_of_a_block():
    calls = []

    def counted(x):
        calls.append(len(x))
        return network(x)

    settings = {"chains": 64, "block_size": 64, "threads": 1, "rounds": 2}
    run = annealed.log_z(annealed.bits(BITS), counted, flips=5, **settings)
    assert set(calls) <= {64, 3, 1} and 64 * len(calls) < 1.1 * run.evaluations + 64 * 60


def test_seeds_threads_and_pickles():
    settings = {"budget": 200_000, "seed": 9}
    for arguments in [(BASES["samples"], double_well, slope), (annealed.bits(BITS), network, network_slope)]:
        one = annealed.log_z(*arguments, threads=1, **settings)
        other = annealed.log_z(*arguments, threads=3, **settings)
        assert one.log_z == other.log_z
        copy = pickle.loads(pickle.dumps(one))
        assert str(copy) == str(one) and (copy.draws(10)["x"] == one.draws(10)["x"]).all()
    assert pickle.loads(pickle.dumps(annealed.bits(3))) == annealed.bits(3) == annealed.bits([0.5] * 3)


def test_the_finished_rounds_are_kept():
    def slow(x):
        time.sleep(0.002)
        return network(x)

    with CtrlC(2.0) as ctrl_c, pytest.raises(annealed.Interrupted) as stopped:
        annealed.log_z(annealed.bits(BITS), slow, rounds=30, flips=1)
    run = stopped.value.result
    assert ctrl_c.waited < 1 and "ended: interrupted" in str(run)
    assert abs(run.log_z - SUM) < 4 * run.standard_error


@pytest.mark.parametrize(
    "base, expected",
    [
        (annealed.bits(2), None),
        ([annealed.normal(0, 1), annealed.uniform(0, 1)], "different laws of the coordinates, expected annealed.normal for all"),
        ([annealed.student_t(4, 0, 1), annealed.student_t(5, 0, 1)], "with the same degrees of freedom"),
        ({"s": annealed.half_normal(1)}, "annealed.half_normal for s, expected annealed.normal for all"),
        ({}, "priors"),
        (np.zeros(3), "invalid base: got an array of shape .3,., expected 2 dimensions"),
        (np.zeros((1, 2)), "at least 2 samples"),
        (np.zeros((5, 2)), "coordinates that vary freely"),
        (np.eye(2), r"invalid base: got samples of zeros and ones alone, which look like bits, .* annealed.bits\(n\)"),
        (np.array([[0.0, np.nan], [1, 2]]), r"invalid base: got nan at base\[0, 1\], expected finite numbers"),
        (3, "invalid prior: got 3"),
        (annealed.normal(0, 1), None),
    ],
)
def test_what_is_a_base(base, expected):
    def f(x):
        return -0.5 * (x**2).sum(axis=1)

    if expected is None:
        assert annealed.log_z(base, f, rounds=1, chains=16).chains == 16
        return
    with pytest.raises(ValueError, match=expected):
        annealed.log_z(base, f)


def test_bad_input_is_named():
    for bad in [0, 2.5, -1]:
        with pytest.raises(ValueError, match="invalid bits"):
            annealed.bits(bad)
    with pytest.raises(ValueError, match=r"invalid bits: got 1.0 at bits\[1\], expected probabilities strictly between"):
        annealed.bits([0.5, 1.0])
    base = annealed.bits(BITS)
    with pytest.raises(ValueError, match="there is no challenge to bits"):
        annealed.log_z(base, network, rounds=1).challenge()
    with pytest.raises(ValueError, match="invalid fitted"):
        annealed.log_z(base, network, fitted=True)
    with pytest.raises(ValueError, match="invalid step_size: got 0.3, expected none for a base of bits"):
        annealed.log_z(base, network, step_size=0.3)
    with pytest.raises(ValueError, match="invalid flips: got 3, expected none for a base over vectors"):
        annealed.log_z(BASES["normal"], double_well, flips=3)
    with pytest.raises(ValueError, match="invalid flips: got 0"):
        annealed.log_z(base, network, flips=0)
    with pytest.raises(ValueError, match="log_density returned nan at x.0. = "):
        annealed.log_z(base, lambda x: np.where(x[:, 3] > 0, np.nan, 0.0))
    with pytest.raises(ValueError, match="log_density returned an array of int"):
        annealed.log_z(base, lambda x: x.sum(axis=1).astype(int))
    with pytest.raises(ValueError, match="pass `gradient=True`"):
        annealed.log_z(base, lambda x: (network(x), network_slope(x)))
    with pytest.raises(ValueError, match="gradient returned an array of shape"):
        annealed.log_z(base, network, lambda x: x[:, :2])
    with pytest.raises(ZeroDivisionError):
        annealed.log_z(base, lambda x: 1 / 0)
    with pytest.raises(ValueError, match="gradient"):
        annealed.log_z(BASES["normal"], double_well, lambda x: -slope(x))
    with pytest.raises(TimeoutError):
        annealed.log_z(base, network, time_limit=1e-6)
