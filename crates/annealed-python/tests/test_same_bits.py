"""The bits of the Rust library: `integrations/python` makes the same runs in Rust, and `check.py` there hands them over."""

import json
import os
import struct

import annealed
import numpy as np
import pytest

RUNS = os.environ.get("ANNEALED_RUST_RUNS")


def number(i, j):
    return (37 * i + 101 * j) % 64 / 32 - 1


def rbm():
    units = np.arange(12)[:, None], np.arange(20)[None]
    return annealed.rbm(number(*units), number(50, np.arange(12)), number(51, np.arange(20)), stages=300, chains=300, seed=7)


MEASURED = [1.25, 0.5, 2.0, 1.75]
PRIOR = {"mu": annealed.normal(0, 2), "sigma": annealed.half_cauchy(1)}


def log_likelihood(x):
    mu, sigma = x.T
    z = [(y - mu) / (1 + sigma) for y in MEASURED]
    a, b, c, d = (-0.5 * z * z - sigma for z in z)
    return ((a + b) + c) + d


def evidence():
    return annealed.evidence(PRIOR, log_likelihood, budget=100_000, seed=3)


def draws():
    i = np.arange(80).reshape(2, 40)
    both = np.stack([1 + number(i, 3), 1.5 + number(i, 11)], axis=-1)
    return annealed.from_draws(both, prior=PRIOR, log_likelihood=log_likelihood, seed=5)


def gradient(x):
    mu, sigma = x.T
    slopes = [((y - mu) / (1 + sigma) ** 2, ((y - mu) / (1 + sigma)) ** 2 / (1 + sigma) - 1) for y in MEASURED]
    return np.stack([((a + b) + c) + d for a, b, c, d in zip(*slopes)], axis=-1)


def laplace():
    return annealed.evidence(PRIOR, log_likelihood, gradient, base="laplace", budget=100_000, seed=3)


def challenge():
    return evidence().challenge(budget=50_000)


def reverse():
    i = np.arange(40)
    return evidence().reverse(np.stack([1 + number(i, 3), 1.5 + number(i, 11)], axis=-1))


def tempering():
    return annealed.tempering(PRIOR, log_likelihood, rounds=5, seed=4)


def nested():
    return annealed.nested(PRIOR, log_likelihood, islands=4, chains=8, moves=8, seed=4)


def log_z_sum():
    return annealed.log_z_sum([evidence(), draws()])


def energy():
    def both(x):
        s, t = x[:, 0] * x[:, 0] - 1.5, x[:, 1] - 0.5 * x[:, 0]
        return -(s * s) - t * t, np.column_stack([-4 * s * x[:, 0] + t, -2 * t])

    return annealed.log_z([annealed.normal(0, 2), annealed.normal(0, 2)], both, True, budget=200_000, seed=3)


def energy_of_bits():
    w = number(np.arange(12), 5)

    def both(x):
        s = x @ w
        return s * (1.5 - 0.125 * s * s), (1.5 - 0.375 * s * s)[:, None] * w

    return annealed.log_z(annealed.bits(12), both, True, budget=200_000, seed=3)


RUNS_OF_PYTHON = [rbm, evidence, draws, energy, energy_of_bits, laplace, challenge, reverse, tempering, nested, log_z_sum]


def bits(*numbers):
    return [struct.unpack("<Q", struct.pack("<d", x))[0] for x in numbers]


@pytest.mark.skipif(RUNS is None, reason="integrations/python/check.py brings the runs of Rust")
@pytest.mark.parametrize("run", RUNS_OF_PYTHON, ids=lambda run: run.__name__)
def test_rust_has_the_same_bits(run):
    found = run()
    assert bits(found.log_z, found.interval[1]) == json.loads(RUNS)[run.__name__]


@pytest.mark.skipif(RUNS is None, reason="integrations/python/check.py brings the runs of Rust")
def test_rust_compares_with_the_same_bits():
    model = annealed.compare({"evidence": evidence(), "draws": draws()})["evidence"]
    assert bits(model.probability, model.probability_interval[1]) == json.loads(RUNS)["compare"]
    rows = number(np.arange(30)[:, None], np.arange(20)[None]) > 0
    run = rbm()
    found = annealed.compare_scores(run.score(rows), run.score(rows, log_z=100.0))
    assert bits(found.value, found.interval[1]) == json.loads(RUNS)["scores"]
