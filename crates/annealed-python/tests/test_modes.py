"""Tempering and nested levels, against closed forms."""

import pickle
import re

import annealed
import numpy as np
import pytest

PRIOR = {"x": annealed.normal(0, 2)}
SHARE, MODES, DEVIATION = 0.8, (-2.0, 2.0), 0.3


def log_likelihood(x):
    """Two modes, weighted so that the prior gives them the posterior shares .8 and .2."""
    terms = [
        np.log(share) - 0.5 * ((x[:, 0] - mode) / DEVIATION) ** 2
        for share, mode in zip((SHARE, 1 - SHARE), MODES)
    ]
    return np.logaddexp(*terms)


def gradient(x):
    terms = np.stack([np.log(s) - 0.5 * ((x[:, 0] - m) / DEVIATION) ** 2 for s, m in zip((SHARE, 1 - SHARE), MODES)])
    weights = np.exp(terms - np.logaddexp(*terms))
    return sum(w * (m - x[:, 0]) / DEVIATION**2 for w, m in zip(weights, MODES))[:, None]


#: Of the sum of two convolutions of N(0, 4) with a mode, at 2 from 0.
EXACT = np.log(DEVIATION) - 0.5 * np.log(4 + DEVIATION**2) - 0.5 * 4 / (4 + DEVIATION**2)


@pytest.mark.parametrize("slopes", [None, gradient])
def test_tempering_finds_both_modes_and_their_shares(slopes):
    run = annealed.tempering(PRIOR, log_likelihood, slopes, stages=8, rounds=8, seed=1)
    assert abs(run.log_z - EXACT) < 4 * run.standard_error < 0.4
    right = (run.parameters[:, 0] > 0).mean()
    assert abs(right - (1 - SHARE)) < 0.1
    assert (run.chains, run.stages) == (8, 8) and "round trips" in str(run)
    again = pickle.loads(pickle.dumps(run))
    assert str(again) == str(run) and (again.draws(50)["x"] == run.draws(50)["x"]).all()
    assert str(run.summary()).startswith("log Z = ") and run.effective_sample_size == pytest.approx(len(run.parameters))
    with pytest.raises(ValueError, match="got a result of levels or ladders"):
        run.plot("none.svg")
    with pytest.raises(ValueError, match="got a result without rounds from the prior"):
        run.reverse(np.zeros((3, 1)))


def test_nested_levels_find_the_closed_form():
    calls = []

    def counted(x):
        calls.append(len(x))
        return log_likelihood(x)

    run = annealed.nested(PRIOR, counted, islands=25, chains=8, moves=8, seed=2)
    assert abs(run.log_z - EXACT) < 4 * run.standard_error < 1
    assert run.chains == 25 and 3 < run.stages < 50 and "levels" in str(run)
    assert max(calls) <= 3
    weights = np.exp(run.log_weights - run.log_weights.max())
    assert 1 < run.effective_sample_size < len(weights)
    mean = (weights * run.parameters[:, 0]).sum() / weights.sum()
    assert run.summary()["x"]["mean"] == pytest.approx(mean)
    assert str(pickle.loads(pickle.dumps(run))) == str(run)


def test_any_number_of_threads_has_the_same_bits():
    for call, settings in [(annealed.tempering, {"rounds": 5}), (annealed.nested, {"islands": 4, "chains": 4, "moves": 4})]:
        one, three = (call(PRIOR, log_likelihood, seed=3, threads=threads, **settings) for threads in (1, 3))
        assert str(one) == str(three)


def test_warnings_are_in_words_of_the_package():
    few = annealed.nested(PRIOR, log_likelihood, islands=2, chains=8, moves=2)
    assert "FewFamilies" in few.warning_names and "pass more islands" in str(few)
    stuck = annealed.tempering(PRIOR, log_likelihood, stages=2, rounds=2, ladders=2, seed=1)
    assert "round trips between prior and posterior" in str(stuck)
    for text in [str(few), str(stuck)]:
        assert not re.search(r"resampled run|blocks|block_size|famil|betas|base and target|mixing kernel", text), text


def test_results_can_be_challenged():
    run = annealed.tempering(PRIOR, log_likelihood, stages=8, rounds=7, seed=1)
    judged = run.challenge(budget=50_000)
    assert abs(judged.log_z - EXACT) < 4 * judged.standard_error


@pytest.mark.parametrize(
    ("call", "settings", "sentence"),
    [
        (annealed.tempering, {"ladders": 1}, "invalid ladders: got 1, expected at least 2"),
        (annealed.tempering, {"rounds": 0}, "invalid rounds: got 0"),
        (annealed.tempering, {"stages": 0}, "invalid"),
        (annealed.tempering, {"samples": 0}, "invalid samples: got 0"),
        (annealed.nested, {"islands": 0}, "invalid islands: got 0"),
        (annealed.nested, {"share": 1}, "invalid share: got 1"),
        (annealed.nested, {"precision": 0}, "invalid precision: got 0"),
        (annealed.nested, {"moves": 2.5}, "invalid moves: got 2.5, expected an integer"),
        (annealed.nested, {"time_limit": -1}, "invalid time_limit: got -1"),
    ],
)
def test_bad_settings_are_named(call, settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        call(PRIOR, log_likelihood, **settings)


def test_a_nan_names_its_place():
    for call in (annealed.tempering, annealed.nested):
        with pytest.raises(ValueError, match="log_likelihood returned nan at x = "):
            call(PRIOR, lambda x: np.where(x[:, 0] > 5, np.nan, log_likelihood(x)), seed=1, **({"rounds": 5} if call is annealed.tempering else {}))


def test_a_time_limit_before_a_result():
    for call in (annealed.tempering, annealed.nested):
        with pytest.raises(TimeoutError, match="so that there is no estimate"):
            call(PRIOR, log_likelihood, time_limit=0)
