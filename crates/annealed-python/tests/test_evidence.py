"""Evidence: against closed forms, and how user's functions are called."""

import pickle
import sys
import threading
import time
import warnings

import annealed
import numpy as np
import pytest

DEVIATION = 0.1
#: Of N(1, DEVIATION^2) under N(0, 1), in two coordinates.
EXACT = 2 * (-0.5 / (1 + DEVIATION**2) - 0.5 * np.log(2 * np.pi * (1 + DEVIATION**2)))
PRIOR = {"x": annealed.independent(annealed.normal(0, 1), 2)}
QUICK = {"budget": 1e5}


def log_likelihood(x):
    return (-0.5 * ((x - 1) / DEVIATION) ** 2 - np.log(DEVIATION) - 0.5 * np.log(2 * np.pi)).sum(axis=1)


def gradient(x):
    return (1 - x) / DEVIATION**2


@pytest.fixture(scope="module")
def run():
    return annealed.evidence(PRIOR, log_likelihood, budget=300_000, seed=1)


def assert_right(run, error=0.2):
    assert 0 < run.standard_error < error
    assert abs(run.log_z - EXACT) < 4 * run.standard_error


def test_random_walks_find_the_closed_form(run):
    assert_right(run)
    assert run.interval[0] < run.log_z < run.interval[1]
    assert repr(run) == str(run).split("\n")[0] and "rounds" in str(run)
    assert run.evaluations <= 300_000 and run.seconds > 0 and run.stages > 10


def test_a_prior_of_ones_own_is_the_quantile_of_a_uniform_parameter():
    data = np.array([0.8, 1.4, 3.1])

    def quantile(u):  # Weibull's law of shape 1.5 and scale 2
        return 2 * (-np.log1p(-u)) ** (1 / 1.5)

    def log_likelihood(u):
        mean = quantile(u[:, 0])
        return -data.size * np.log(mean) - data.sum() / mean

    run = annealed.evidence({"u": annealed.uniform(0, 1)}, log_likelihood, until_error=0.05, seed=1)
    # By quadrature over the mean itself, with Weibull's density.
    mean = np.linspace(1e-4, 40, 400_001)
    weighted = 0.75 * (mean / 2) ** 0.5 * np.exp(-((mean / 2) ** 1.5)) * mean**-3.0 * np.exp(-data.sum() / mean)
    step = mean[1] - mean[0]
    assert abs(run.log_z - np.log(weighted.sum() * step)) < 4 * run.standard_error
    posterior_mean = (weighted * mean).sum() / weighted.sum()
    assert abs(quantile(run.draws(2000, seed=1)["u"]).mean() - posterior_mean) < 0.2


@pytest.mark.parametrize("slopes", ["function", "pair"])
def test_gradients_find_the_closed_form(slopes):
    if slopes == "pair":
        found = annealed.evidence(PRIOR, lambda x: (log_likelihood(x), gradient(x)), True, budget=500_000)
    else:
        found = annealed.evidence(PRIOR, log_likelihood, gradient, budget=500_000)
    assert_right(found, 0.1)


def test_settings_of_the_rounds_are_taken():
    fitted = annealed.evidence(PRIOR, log_likelihood, fitted=True, budget=300_000)
    assert_right(fitted)
    with pytest.raises(ValueError, match="expected one of annealed.evidence without fitted=True"):
        fitted.reverse(np.zeros((3, 2)))
    near = annealed.evidence(PRIOR, log_likelihood, gradient, base="laplace", budget=100_000)
    assert_right(near, 0.02)
    short = annealed.evidence(PRIOR, log_likelihood, until_error=0.1)
    assert short.standard_error <= 0.1 and "standard error reached" in str(short)
    assert annealed.evidence(PRIOR, log_likelihood, chains=64, rounds=2).chains == 64


def test_draws_and_tables_are_of_the_posterior(run):
    draws = run.draws(2_000)["x"]
    assert draws.shape == (2_000, 2)
    precision = 1 + DEVIATION**-2
    table = run.summary()
    assert list(table) == run.parameter_names == ["x[0]", "x[1]"]
    for i, row in enumerate(table.values()):
        assert abs(row["mean"] - DEVIATION**-2 / precision) < 4 * row["error"] < 0.1
        assert row["sd"] == pytest.approx(precision**-0.5, rel=0.3)
        assert row["q5"] < row["median"] < row["q95"]
        assert draws[:, i].mean() == pytest.approx(row["mean"], abs=0.02)
    assert str(table).startswith("log Z = ") and str(pickle.loads(pickle.dumps(table))) == str(table)
    weights = np.exp(run.log_weights - run.log_weights.max())
    assert (run.parameters.T @ weights / weights.sum())[0] == pytest.approx(table["x[0]"]["mean"])
    assert run.effective_sample_size > 50
    assert (run.draws(50, seed=1)["x"] != run.draws(50, seed=2)["x"]).any()
    for arguments, sentence in [({"n": 0}, "got 0, expected at least 1"), ({"n": 2.5}, "got 2.5"), ({"seed": -1}, "got -1")]:
        with pytest.raises(ValueError, match=f"invalid .*: {sentence}"):
            run.draws(**arguments)


def test_results_pickle_and_plot(run, tmp_path):
    again = pickle.loads(pickle.dumps(run))
    assert str(again) == str(run) and (again.draws(50)["x"] == run.draws(50)["x"]).all()
    again.plot(tmp_path / "run.svg")
    assert "<svg" in (tmp_path / "run.svg").read_text()
    law = PRIOR["x"]
    assert pickle.loads(pickle.dumps(law)) == law and repr(law) == "annealed.independent(annealed.normal(0, 1), 2)"


def test_arviz_gets_draws_and_log_evidence(run):
    pytest.importorskip("arviz")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = run.to_arviz(100)
    assert data.posterior["x"].shape == (1, 100, 2)
    assert data.posterior.attrs["log_evidence"] == run.log_z


def test_arviz_that_is_missing_is_named(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz", None)
    with pytest.raises(ImportError, match="pip install arviz"):
        run.to_arviz()


def test_a_nan_names_six_of_many_parameters():
    prior = {"rate": annealed.gamma(2, 1), "x": annealed.independent(annealed.normal(0, 1), 8)}
    with pytest.raises(ValueError, match=r"nan at rate = .*, x\[4\] = [-\d.e]+ and 3 more; expected"):
        annealed.evidence(prior, lambda x: x[:, 0] * np.nan, lambda x: 0 * x, **QUICK)


def test_minus_infinity_is_a_likelihood_of_zero():
    half = annealed.evidence(PRIOR, lambda x: np.where(x[:, 0] > 0, 0.0, -np.inf), **QUICK)
    assert abs(half.log_z + np.log(2)) < 4 * half.standard_error < 1


def test_any_number_of_threads_has_the_same_bits(run):
    for threads in [1, 3]:
        other = annealed.evidence(PRIOR, log_likelihood, budget=300_000, seed=1, threads=threads)
        assert str(other) == str(run) and (other.parameters == run.parameters).all()


def test_runs_side_by_side_and_within_another_have_the_same_bits(run):
    found = []

    def one():
        found.append(annealed.evidence(PRIOR, log_likelihood, budget=300_000, seed=1))

    threads = [threading.Thread(target=one) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    def calls_another(x):
        if not len(found) > 2:
            one()
        return log_likelihood(x)

    annealed.evidence(PRIOR, calls_another, **QUICK)
    assert [str(other) for other in found] == [str(run)] * 3


def test_functions_are_called_with_batches_by_the_calling_thread():
    sizes, threads, layouts = [], set(), set()

    def watched(x):
        sizes.append(len(x))
        threads.add(threading.get_ident())
        layouts.add((x.dtype, x.flags.c_contiguous, x.flags.writeable, x.shape[1]))
        return log_likelihood(x)

    annealed.evidence(PRIOR, watched, **QUICK)
    assert np.median(sizes) == 128 and threads == {threading.get_ident()}
    assert layouts == {(np.dtype(np.float64), True, True, 2)}
    sizes.clear()
    annealed.evidence(PRIOR, watched, block_size=256, **QUICK)
    assert np.median(sizes) == 256


def test_other_threads_go_on_meanwhile():
    counts = [0]
    stop = threading.Event()

    def count():
        while not stop.wait(0.001):
            counts[0] += 1

    thread = threading.Thread(target=count)
    thread.start()
    annealed.rbm(np.ones((60, 200)) * 0.01, np.zeros(60), np.zeros(200), chains=512, stages=1000, threads=1)
    stop.set()
    thread.join()
    assert counts[0] > 20


def test_parameters_stay_within_their_bounds():
    seen = []
    prior = {
        "rate": annealed.gamma(2, 1),
        "share": annealed.beta(2, 2),
        "p": annealed.dirichlet([1, 1, 1]),
        "means": annealed.ordered(annealed.normal(0, 1), 2),
        "effects": annealed.effects(annealed.normal(0, 1), 2, location=5, scale=0),
        "rest": annealed.student_t(4, 0, 1),
    }

    def constant(x):
        seen.append(x)
        return np.zeros(len(x))

    run = annealed.evidence(prior, constant, budget=50_000)
    assert abs(run.log_z) < 1e-9
    x = np.concatenate(seen)
    assert x.shape[1] == 10 and (x[:, 0] > 0).all() and ((0 < x[:, 1]) & (x[:, 1] < 1)).all()
    assert np.allclose(x[:, 2:5].sum(axis=1), 1) and (x[:, 5] <= x[:, 6]).all()
    assert {name: values.shape for name, values in run.draws(10).items()} == {
        "rate": (10,), "share": (10,), "p": (10, 3), "means": (10, 2), "effects": (10, 2), "rest": (10,)
    }  # fmt: skip


def test_a_sequence_of_priors_has_names():
    run = annealed.evidence([annealed.normal(0, 1), annealed.uniform(0, 3)], log_likelihood, **QUICK)
    assert run.draws(3)["x"].shape == (3, 2)
    for prior in [3, "normal"]:
        with pytest.raises(ValueError, match="invalid prior: got .*, expected a dict of priors by name"):
            annealed.evidence(prior, log_likelihood)
    of_precision = annealed.effects(annealed.normal(0, 1), 8, location=0, precision=1)
    assert repr(of_precision) == "annealed.effects(annealed.normal(0, 1), 8, location=0, precision=1)"
    assert repr(annealed.effects(annealed.normal(0, 1), 8, scale=1)) == "annealed.effects(annealed.normal(0, 1), 8, scale=1)"
    one = {"x": annealed.ordered(annealed.normal(0, 1), 1), "y": annealed.independent(annealed.normal(0, 1), 1)}
    run = annealed.evidence(one, log_likelihood, **QUICK)
    assert run.draws(3)["x"].shape == run.draws(3)["y"].shape == (3, 1)
    assert list(run.summary()) == run.parameter_names == ["x[0]", "y[0]"]
    with pytest.raises(ValueError, match=r"prior of x: got 1, expected one such as"):
        annealed.evidence({"x": 1}, log_likelihood)
    with pytest.raises(ValueError, match="invalid deviation: got -1"):
        annealed.normal(0, -1)
    for text in ["wide", "1"]:
        with pytest.raises(ValueError, match=f"invalid deviation: got '{text}', expected a number"):
            annealed.normal(0, text)


class Mistake(Exception):
    pass


@pytest.mark.parametrize("after", [0, 1, 50])
def test_exceptions_come_back_as_they_were_raised(after):
    calls = [0]
    mistake = Mistake("of mine")

    def failing(x):
        calls[0] += 1
        if calls[0] > after:
            raise mistake
        return log_likelihood(x)

    with pytest.raises(Mistake) as raised:
        annealed.evidence(PRIOR, failing, **QUICK)
    assert raised.value is mistake and raised.traceback[-1].name == "failing"
    assert calls[0] == after + 1  # no call after the failure


def test_progress_is_told_and_may_fail():
    told = []
    annealed.evidence(PRIOR, log_likelihood, progress=lambda *at: told.append(at), **QUICK)
    assert told and all(isinstance(text, str) and 0 <= done <= total for text, done, total in told)

    def failing(*_):
        raise Mistake

    with pytest.raises(Mistake):
        annealed.evidence(PRIOR, log_likelihood, progress=failing, **QUICK)


def test_a_line_of_progress_goes_to_standard_error(capsys, monkeypatch):
    monkeypatch.setattr("annealed._progress.PATIENCE", 0.0)
    annealed.evidence(PRIOR, log_likelihood, progress=True, **QUICK)
    annealed.evidence(PRIOR, log_likelihood, **QUICK)
    out, err = capsys.readouterr()
    assert "% done" in err and err.endswith("\r") and out == ""


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (lambda x: log_likelihood(x)[:, None], r"log_likelihood returned an array of shape \(3, 1\) .* expected numbers of shape \(3,\)"),
        (lambda x: log_likelihood(x).sum(), r"log_likelihood returned an array of shape \(\)"),
        (lambda x: None, "log_likelihood returned an array of shape .* and type object"),
        (lambda x: np.where(x[:, 0] > 0, np.nan, 0.0), r"log_likelihood returned nan at x\[0\] = \d\.\d+, x\[1\] = .*; expected a number"),
        (lambda x: np.full(len(x), np.inf), r"log_likelihood returned inf at x\[0\] = "),
        (lambda x: log_likelihood(x).astype(int), "log_likelihood returned an array of int64, expected floats"),
        (lambda x: log_likelihood(x) > 0, "log_likelihood returned an array of bool, expected floats"),
        (lambda x: (log_likelihood(x), gradient(x)), "log_likelihood returned a pair.*pass `gradient=True`"),
        (lambda x: [log_likelihood(x), gradient(x)], "log_likelihood returned a pair.*pass `gradient=True`"),
        (lambda x: np.full(len(x), -np.inf), "no chain of 256 has any weight"),
        (3, "invalid log_likelihood: got 3"),
    ],
)
def test_bad_functions_are_named(function, sentence):
    with pytest.raises(ValueError, match=sentence):
        annealed.evidence(PRIOR, function, **QUICK)


@pytest.mark.parametrize(
    ("slopes", "sentence"),
    [
        (lambda x: 1.2 * gradient(x), "wrong gradient in coordinate"),
        (lambda x: gradient(x)[:, 0], "gradient returned an array of shape"),
        (True, "log_likelihood returned ndarray, expected a pair"),
        ("numeric", "invalid gradient: got 'numeric'"),
    ],
)
def test_bad_gradients_are_named(slopes, sentence):
    with pytest.raises(ValueError, match=sentence):
        annealed.evidence(PRIOR, log_likelihood, slopes, **QUICK)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"budget": 10}, "invalid budget: got 10"),
        ({"budget": 1e4 + 0.5}, "invalid budget: got 10000.5, expected an integer"),
        ({"budget": -1}, "invalid budget: got -1"),
        ({"chains": 0}, "invalid chains: got 0"),
        ({"rounds": 0}, "invalid rounds: got 0"),
        ({"step_size": 0}, "got 0"),
        ({"until_error": -1}, "invalid until_error: got -1"),
        ({"time_limit": float("nan")}, "invalid time_limit: got NaN"),
        ({"progress": "yes"}, "invalid progress: got 'yes', expected True, False, or a function"),
    ],
)
def test_bad_settings_are_named(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        annealed.evidence(PRIOR, log_likelihood, **settings)


def test_single_precision_is_known_to_the_run():
    shift = 1e6  # Rounded by 0.03.

    def single(x):
        return (log_likelihood(x) + shift).astype(np.float32)

    assert "Rounding" in annealed.evidence(PRIOR, single, budget=300_000).warning_names
    double = annealed.evidence(PRIOR, lambda x: log_likelihood(x) + shift, budget=300_000)
    assert "Rounding" not in double.warning_names


def test_two_results_have_a_ratio(run):
    other = annealed.evidence(PRIOR, lambda x: log_likelihood(x) - 1, budget=300_000, seed=2)
    ratio = annealed.log_ratio(run, other)
    assert abs(ratio.value - 1) < 4 * ratio.standard_error and ratio.interval[0] < 1 < ratio.interval[1] + 1
    assert repr(ratio).startswith("log(Z_1/Z_2) = ") and pickle.loads(pickle.dumps(ratio)) == ratio
    with pytest.raises(ValueError, match="got float"):
        annealed.log_ratio(run, 1.0)
    with pytest.raises(ValueError, match="got one result twice"):
        annealed.log_ratio(run, run)


@pytest.mark.parametrize("fitted", [False, True])
def test_functions_of_jax_compile_once_after_the_first_calls(fitted):
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    traces = []

    @jax.jit
    def log_likelihood(x):
        traces.append(x.shape)
        return -0.5 * ((1.0 - x) ** 2).sum(axis=1)

    prior = {"theta": annealed.normal(0, 2)}
    run = annealed.evidence(prior, log_likelihood, until_error=0.05, fitted=fitted)
    assert traces == [(3, 1), (1, 1), (64, 1)]
    exact = annealed.evidence(prior, lambda x: -0.5 * ((1.0 - x) ** 2).sum(axis=1), until_error=0.05, fitted=fitted)
    assert abs(run.log_z - exact.log_z) < 1e-9


@pytest.mark.parametrize("slopes", [None, gradient])
def test_a_challenge_confirms_a_right_result(slopes):
    run = annealed.evidence(PRIOR, log_likelihood, slopes, budget=150_000, seed=2)
    judged = run.challenge()
    assert_right(judged)
    assert "\nchallenge: " in str(judged) and "starts" in str(judged)
    assert judged.evaluations > 1.5 * run.evaluations and judged.draws(10)["x"].shape == (10, 2)
    assert run.challenge(budget=100_000, seed=5).evaluations < run.evaluations + 100_000


def test_a_challenge_finds_a_spike():
    def spike(x):  # Nine tenths in a spike forty times narrower than the rest.
        square = (x**2).sum(axis=1)
        return np.logaddexp(np.log(0.1) - 0.5 * square, np.log(0.9) - 0.5 * square / 0.025**2 - 4 * np.log(0.025)) - 2 * np.log(2 * np.pi)

    prior = {"x": annealed.independent(annealed.normal(0, 2), 4)}
    exact = np.logaddexp(
        np.log(0.1) - 2 * np.log(2 * np.pi * 5), np.log(0.9) - 2 * np.log(2 * np.pi * (4 + 0.025**2))
    )  # convolutions at 0
    run = annealed.evidence(prior, spike, budget=300_000, seed=1)
    judged = run.challenge()
    assert run.log_z < exact - 1 and abs(judged.log_z - exact) < 4 * judged.standard_error < 1
    assert "FirstRunTooLow" in judged.warning_names and "run.challenge(budget=..)" in str(judged)


def test_a_time_limit_ends_the_search_of_a_challenge():
    calls = []

    def slow(x):
        calls.append(len(x))
        time.sleep(0.002)
        return log_likelihood(x)

    # The search for modes makes thousands of calls with single states.
    run = annealed.evidence(PRIOR, slow, budget=50_000)
    begun, before = time.monotonic(), len(calls)
    with pytest.raises(TimeoutError, match="time limit reached"):
        run.challenge(time_limit=2)
    assert time.monotonic() - begun < 4 and calls[before:].count(1) > 100


def test_a_wrong_gradient_is_named_before_a_mode_is_searched():
    calls = []

    def counted(x):
        calls.append(len(x))
        return log_likelihood(x)

    with pytest.raises(ValueError, match="gradient"):
        annealed.evidence(PRIOR, counted, lambda x: -gradient(x), base="laplace")
    assert len(calls) < 40, calls


def test_a_reverse_run_from_exact_samples_joins_the_rounds():
    rng = np.random.default_rng(4)
    run = annealed.evidence(PRIOR, log_likelihood, budget=200_000, seed=3)
    precision = 1 + DEVIATION**-2
    exact = DEVIATION**-2 / precision + rng.normal(size=(256, 2)) * precision**-0.5
    both = run.reverse(exact, exact=True)
    assert both.is_exact and abs(both.log_z - EXACT) < 4 * both.standard_error < 0.4
    assert both.reverse_log_weights.shape == (256,)
    assert run.reverse({"x": exact}, exact=True).log_z == both.log_z
    own = run.reverse(run.draws(200), seed=9)
    assert not own.is_exact and own.interval[0] < EXACT < own.interval[1]
    near = annealed.evidence(PRIOR, log_likelihood, gradient, base="laplace", budget=100_000)
    assert abs(near.reverse(exact, exact=True).log_z - EXACT) < 0.05
    for samples, sentence in [(exact[:, :1], r"\(256, 1\), expected \(n, 2\)"), ({"y": exact}, r"got \['y'\], expected those of the prior")]:
        with pytest.raises(ValueError, match=sentence):
            run.reverse(samples)


def test_further_runs_need_the_function(run):
    again = pickle.loads(pickle.dumps(run))
    for call in [again.challenge, lambda: again.reverse(np.zeros((3, 2)))]:
        with pytest.raises(ValueError, match="invalid run: got a result without its function"):
            call()


@pytest.mark.parametrize(
    ("slopes", "settings", "sentence"),
    [
        (None, {"base": "laplace"}, "invalid base: got laplace without a gradient"),
        (gradient, {"base": "mode"}, "invalid base: got 'mode', expected prior or laplace"),
        (gradient, {"base": "laplace", "fitted": True}, "invalid fitted: got True with base='laplace'"),
    ],
)
def test_bases_that_are_none_are_named(slopes, settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        annealed.evidence(PRIOR, log_likelihood, slopes, **settings)
