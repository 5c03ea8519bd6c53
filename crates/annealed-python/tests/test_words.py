"""Messages: they name Python's calls, and nothing that the package lacks."""

import re
import time
from pathlib import Path

import annealed
import numpy as np
import pytest
from annealed import _annealed

SOURCES = Path(__file__).parents[3] / "src"
PRIOR = {"x": annealed.independent(annealed.normal(0, 1), 2)}
#: Calls and arguments of Rust, and what only the Rust library has.
RUST = re.compile(r"fitted\(\)|NestedSmc|cookbook|::|`\w+\(|challenge (the run|again)|stages there|mixing kernel|\bMALA\b")


def log_likelihood(x):
    return (-0.5 * ((x - 1) / 0.1) ** 2).sum(axis=1)


def assert_of_python(text):
    assert not RUST.search(text), text


def test_replaced_phrases_are_those_of_the_library():
    files = SOURCES.rglob("*.rs")
    library = re.sub(r"\\\n\s*", "", "".join(file.read_text() for file in files))
    phrases = _annealed._phrases()
    assert len(phrases) > 20
    assert [phrase for phrase in phrases if phrase not in library.replace('\\"', '"')] == []


def test_advice_of_evidence():
    short = annealed.evidence(PRIOR, log_likelihood, until_error=1e-3, budget=60_000)
    assert "fitted=True" in str(short) and "fitted=True" in " ".join(short.warnings)
    with pytest.raises(ValueError, match="no chain of 256 has any weight: none reached a state.*Pass more chains.*by the prior") as raised:
        annealed.evidence(PRIOR, lambda x: np.full(len(x), -np.inf), budget=1e5)
    assert_of_python(str(raised.value))
    d = 40
    far = {"x": annealed.independent(annealed.normal(0, 1), d)}
    for scale in [0.003, 0.3]:
        run = annealed.evidence(far, lambda x: (-0.5 * ((x - 3) / scale) ** 2).sum(axis=1), budget=45_000, chains=8)
        assert run.warnings
        assert_of_python(str(run))


def wells(x):
    return (6 * x**2 - x**4 + 0.5 * x).sum(axis=1)


def test_a_base_that_could_not_be_fitted_is_not_advised():
    prior = {"x": annealed.independent(annealed.normal(0, 2), 8)}
    run = annealed.evidence(prior, wells, fitted=True, budget=30_000, seed=1)
    assert "MergedFamilies" in run.warning_names and "base: the path's own" in str(run)
    assert "run.challenge()" in str(run) and "fitted=True" not in str(run)
    assert_of_python(str(run))


def test_a_plateau_is_named():
    run = annealed.evidence({"x": annealed.normal(0, 1)}, lambda x: np.where(x[:, 0] > 3, 0, -1e6), until_error=0.1, seed=1)
    assert run.log_z < -1000 and "FlatFirstPass" in run.warning_names
    assert "annealed.nested" in str(run)
    assert_of_python(str(run))


def test_a_budget_that_an_error_names_suffices():
    prior = {"x": annealed.independent(annealed.normal(0, 1), 10)}
    for seed in (0, 2):
        settings = {"prior": prior, "log_likelihood": funnel, "fitted": True, "seed": seed}
        with pytest.raises(ValueError, match="of 64 chains") as raised:
            annealed.evidence(**settings, budget=1000)
        annealed.evidence(**settings, budget=int(re.search(r"at least (\d+)", str(raised.value))[1]))


def funnel(x):
    return -0.5 * np.exp(-x[:, 0]) * (x[:, 1:] ** 2).sum(axis=1) - 0.5 * (x.shape[1] - 1) * x[:, 0]


def test_an_unknown_error_is_no_number():
    d = 100
    prior = {"x": annealed.independent(annealed.normal(0, 10), d)}
    run = annealed.evidence(prior, lambda x: (-0.5 * ((x - 20) / 0.1) ** 2).sum(axis=1), budget=45_000, chains=8)
    assert run.standard_error == np.inf
    assert "+- inf" not in str(run) and "+- unknown" in str(run)
    assert "+- unknown" in str(run.summary())
    other = annealed.evidence(PRIOR, log_likelihood, budget=60_000, seed=1)
    assert "+- unknown" in str(annealed.log_ratio(run, other))
    rng = np.random.default_rng(0)
    machine = 20 * rng.normal(size=(10, 12)), rng.normal(size=10), rng.normal(size=12)
    one = annealed.rbm(*machine, chains=200, stages=1, base="uniform", seed=0)
    assert one.standard_error == np.inf and "+- 1.000" not in str(one) and "+- unknown" in str(one)
    assert "+- 1." not in str(annealed.log_ratio(one, other))


def test_works_that_hardly_overlap():
    rng = np.random.default_rng(0)
    found = annealed.free_energy(rng.normal(30, 1, 300), rng.normal(30, 1, 300))
    assert "LittleOverlap" in found.warning_names
    assert "the two directions hardly overlap" in str(found) and "stages" not in str(found)


def test_draws_that_hardly_overlap():
    rng = np.random.default_rng(0)
    draws = np.exp(2 * rng.normal(size=(4, 500, 3)))
    found = annealed.from_draws(draws, lambda x: (-0.5 * (np.log(np.abs(x)) / 2) ** 2 - np.log(np.abs(x))).sum(axis=1), law="gaussian")
    assert_of_python(str(found))
    assert "forward" not in " ".join(found.warnings)


def test_results_of_one_seed_share_random_numbers():
    one = annealed.evidence(PRIOR, log_likelihood, budget=60_000)
    two = annealed.evidence(PRIOR, lambda x: log_likelihood(x) - 1, budget=60_000)
    shared = annealed.log_ratio(one, two)
    assert "SharedSeed" in shared.warning_names
    assert "both results are of annealed.evidence with seed=0" in str(shared)
    other = annealed.evidence(PRIOR, log_likelihood, budget=60_000, seed=1)
    assert "SharedSeed" not in annealed.log_ratio(one, other).warning_names
    draws = np.random.default_rng(0).normal(1, 0.1, size=(4, 500, 2))
    by_draws = annealed.from_draws(draws, log_likelihood)
    assert "SharedSeed" not in annealed.log_ratio(one, by_draws).warning_names
    assert "SharedSeed" in annealed.log_ratio(annealed.from_draws(draws[::-1], log_likelihood), by_draws).warning_names


def test_progress_knows_the_time_limit_and_comes_ten_times_a_second():
    told = []

    def slow(x):
        time.sleep(0.002)
        return log_likelihood(x)

    begun = time.monotonic()
    annealed.evidence(PRIOR, slow, time_limit=2, progress=lambda *at: told.append((time.monotonic() - begun, *at)))
    times = np.array([at[0] for at in told])
    assert len(told) > 3
    assert (np.diff(times) > 0.09).all()
    for seconds, text, done, total in told:
        left = re.search(r", (\d+) s left", text)
        assert left is None or int(left[1]) <= 2.6 - seconds, (seconds, text)
        assert 0 <= done <= total


@pytest.mark.parametrize(
    "function",
    [
        lambda x: log_likelihood(x - x.mean(axis=0)),
        lambda x: np.full(len(x), log_likelihood(x).sum()),
        lambda x: log_likelihood(x) + np.random.default_rng().normal(size=len(x)),
    ],
)
def test_values_that_depend_on_the_batch_are_refused(function):
    sentence = "log_likelihood returned .* for a state among 3, and .* for the same state alone; expected the same value: sum over axis=1"
    with pytest.raises(ValueError, match=sentence):
        annealed.evidence(PRIOR, function, budget=1e5)
    draws = np.random.default_rng(0).normal(size=(2, 100, 2))
    with pytest.raises(ValueError, match="log_density returned .* for a state among 2"):
        annealed.from_draws(draws, function)


def test_single_precision_may_differ_by_its_rounding():
    annealed._arrays.BatchFunction("f", lambda x: (1e3 + 1e-3 * len(x) * x[:, 0]).astype(np.float32)).check(np.ones((3, 1)))


def test_priors_name_what_they_need():
    with pytest.raises(ValueError, match=r"invalid alpha: got 3, expected a number for each probability: annealed.dirichlet\(\[1, 1, 1\]\)"):
        annealed.dirichlet(3)
    with pytest.raises(ValueError, match="got scale and variance, expected one of scale, variance and precision"):
        annealed.effects(annealed.normal(0, 1), 4, scale=0, variance=1)
    late = {"z": annealed.effects(annealed.normal(0, 1), 4, scale=4), "tau": annealed.half_normal(1)}
    with pytest.raises(ValueError, match="invalid prior: got z with scale=4, after 0 parameters, expected the index of an earlier one: put"):
        annealed.evidence(late, log_likelihood)


def test_a_machine_that_is_not_fitted():
    class BernoulliRBM:
        n_components = 4

    with pytest.raises(ValueError, match=r"got BernoulliRBM without components_, expected a fitted machine: call its fit\(X\) first"):
        annealed.rbm(BernoulliRBM())


def test_the_error_over_one_row_is_unknown():
    run = annealed.rbm(np.zeros((2, 3)), np.zeros(2), np.zeros(3), chains=200, stages=10)
    assert "+- unknown over rows" in str(run.score([[0, 1, 1]]))
