"""One short run of each function, against exact answers: the part of the tests that the repository's gate runs."""

import inspect
import itertools

import annealed
import numpy as np
import pytest

NORMAL = {"x": annealed.normal(0, 1)}
#: Of N(x; 1, 1) at x ~ N(0, 1): N(1; 0, 2).
EVIDENCE = -0.25 - 0.5 * np.log(4 * np.pi)


def log_likelihood(x):
    return (-0.5 * (x - 1) ** 2 - 0.5 * np.log(2 * np.pi))[:, 0]


def assert_right(found, exact, most=0.1):
    assert abs(found.log_z - exact) < 4 * found.standard_error < 4 * most, str(found)


def evidence():
    run = annealed.evidence(NORMAL, log_likelihood, until_error=0.05, seed=1)
    assert_right(run, EVIDENCE)
    return run


def rbm():
    W, a, b = np.arange(12).reshape(3, 4) / 6 - 1, np.ones(3), np.zeros(4)
    v = np.array(list(itertools.product([0, 1], repeat=4)))
    exact = np.log(np.exp(np.logaddexp(0, a + v @ W.T).sum(axis=1)).sum())
    run = annealed.rbm(W, a, b, base="uniform", chains=256, stages=100, seed=1)
    assert_right(run, exact)
    return run


def log_likelihoods():
    X = np.array([0.3, -1.0, 2.0])
    found = annealed.log_likelihoods(NORMAL, lambda z, x: -0.5 * ((x - z[:, 0]) ** 2 + np.log(2 * np.pi)), X, stages=50)
    exact = -0.25 * X**2 - 0.5 * np.log(4 * np.pi)
    assert (abs(found.values - exact) < 5 * found.standard_errors).all()
    return found


def from_draws():
    draws = {"x": 0.5 + np.sqrt(0.5) * np.random.default_rng(1).normal(size=(2, 500))}
    found = annealed.from_draws(draws, prior=NORMAL, log_likelihood=log_likelihood)
    assert_right(found, EVIDENCE)
    return found


def free_energy():
    # Works N(1.5, 1): dF = 1.5 - 1/2 forwards, by Crooks' relation N(-.5, 1) backwards.
    rng = np.random.default_rng(1)
    found = annealed.free_energy(rng.normal(1.5, 1, 400), rng.normal(-0.5, 1, 400))
    assert abs(found.delta_f - 1) < 4 * found.standard_error < 0.4
    return found


def mbar():
    k = np.array([1.0, 2.0, 4.0])
    x = np.concatenate([np.random.default_rng(1).normal(size=200) / np.sqrt(k) for k in k])
    found = annealed.mbar(0.5 * k[:, None] * x**2, [200] * 3, draws="independent")
    assert abs(found.delta_f[0, 2] - 0.5 * np.log(4)) < 4 * found.standard_errors[0, 2] < 0.4
    return found


def log_ratio():
    one, other = (annealed.evidence(NORMAL, log_likelihood, until_error=0.05, seed=seed) for seed in (1, 2))
    found = annealed.log_ratio(one, other)
    assert abs(found.value) < 4 * found.standard_error < 0.4
    return found


def compare():
    runs = {"one": annealed.evidence(NORMAL, log_likelihood, until_error=0.05, seed=1)}
    runs["other"] = annealed.evidence(NORMAL, lambda x: log_likelihood(x) - 1, until_error=0.05, seed=2)
    found = annealed.compare(runs)
    assert abs(found["one"].probability - 1 / (1 + np.exp(-1))) < 0.1
    return found


def log_z_sum():
    runs = [annealed.evidence(NORMAL, log_likelihood, until_error=0.05, seed=seed) for seed in (1, 2)]
    found = annealed.log_z_sum(runs)
    assert_right(found, 2 * EVIDENCE, 0.2)
    return found


def compare_scores():
    one, other = (annealed.rbm(np.full((2, 4), w), np.zeros(2), np.zeros(4), base="uniform", chains=64, stages=20) for w in (0.1, -0.5))
    rows = np.array(list(itertools.product([0, 1], repeat=4)))[:12]
    exact = [run.score(rows, log_z=run.exact()).by_row.mean() for run in (one, other)]
    found = annealed.compare_scores(one.score(rows), other.score(rows))
    assert abs(found.value - (exact[0] - exact[1])) < 4 * found.standard_error < 2
    return found


def tempering():
    run = annealed.tempering(NORMAL, log_likelihood, rounds=6, stages=6, seed=1)
    assert_right(run, EVIDENCE)
    return run


def nested():
    run = annealed.nested(NORMAL, log_likelihood, chains=16, moves=10, islands=25, seed=1)
    assert_right(run, EVIDENCE, 0.3)
    return run


def log_z():
    run = annealed.log_z(annealed.normal(0, 2), lambda x: -0.5 * x[:, 0] ** 2, until_error=0.05, seed=1)
    assert_right(run, 0.5 * np.log(2 * np.pi))
    return run


def bits():
    run = annealed.log_z(annealed.bits(4), lambda x: x.sum(axis=1), until_error=0.05, seed=1)
    assert_right(run, 4 * np.log(1 + np.e))
    return annealed.bits(4)


CALLS = [evidence, rbm, log_likelihoods, from_draws, free_energy, mbar, log_ratio, compare, log_z_sum, compare_scores]
CALLS += [tempering, nested, log_z, bits]


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__)
def test_a_short_run_is_right(call):
    assert str(call()) and getattr(annealed, call.__name__).__doc__


def test_each_function_has_a_short_run():
    #: A library of BridgeStan takes a compiler of Stan; the package's other functions are priors.
    left_out = {"stan"}
    functions = {name for name in annealed.__all__ if inspect.isfunction(getattr(annealed, name))}
    functions -= {name for name in functions if getattr(annealed, name).__module__ == "annealed._priors"}
    assert functions - left_out == {call.__name__ for call in CALLS}
