"""Log p(x) of many data: against closed forms, and how the function is called."""

import pickle
import threading
import time

import annealed
import numpy as np
import pytest

RNG = np.random.default_rng(5)
D, P, B, NOISE = 3, 5, 20, 0.5
W = RNG.normal(size=(P, D)) / np.sqrt(D)
Z = RNG.normal(size=(B, D))
X = Z @ W.T + NOISE * RNG.normal(size=(B, P))
PRIOR = {"z": annealed.independent(annealed.normal(0, 1), D)}


def log_normal(x, covariance):
    square = (x * np.linalg.solve(covariance, x.T).T).sum(axis=1)
    return -0.5 * (square + np.linalg.slogdet(2 * np.pi * covariance)[1])


EXACT = log_normal(X, W @ W.T + NOISE**2 * np.eye(P))


def log_likelihood(z, x):
    return -0.5 * (((x - z @ W.T) / NOISE) ** 2).sum(axis=1) - P * np.log(NOISE * np.sqrt(2 * np.pi))


def gradient(z, x):
    return (x - z @ W.T) @ W / NOISE**2


def assert_right(run, exact=EXACT):
    z = (run.values - exact) / run.standard_errors
    assert np.abs(z).max() < 5 and 0.2 < (z**2).mean() < 3, z
    assert abs(run.mean - exact.mean()) < 4 * run.mean_error and run.mean_error < 0.08
    assert run.mean_interval[0] < run.mean < run.mean_interval[1]
    assert (run.intervals[:, 0] < run.values).all() and (run.values < run.intervals[:, 1]).all()


@pytest.fixture(scope="module")
def run():
    return annealed.log_likelihoods(PRIOR, log_likelihood, X, gradient, simulated=Z, seed=1)


def test_gradients_find_the_closed_form_of_each_datum(run):
    assert_right(run)
    assert run.indices.tolist() == list(range(B)) and run.spread == pytest.approx(EXACT.std(), rel=0.3)
    assert run.effective_sample_sizes.mean() > 6 and run.evaluations > 1e5 and run.seconds > 0
    assert "mean log p(x)" in str(run) and -0.2 < run.bias < 0


def test_simulated_data_have_estimates_from_above(run):
    gap, error = run.gap
    assert gap == pytest.approx((run.upper - run.values).mean()) and abs(gap) < 0.15 + 3 * error
    assert np.abs(run.upper - EXACT).max() < 1 and "gap of simulated data" in str(run)
    plain = annealed.log_likelihoods(PRIOR, log_likelihood, X, gradient, seed=1)
    assert plain.upper is None and plain.gap is None
    assert plain.values.tolist() == run.values.tolist()


def test_random_walks_find_the_closed_form():
    assert_right(annealed.log_likelihoods(PRIOR, log_likelihood, X, stages=300))


def test_a_seed_gives_the_same_bits_on_any_number_of_threads_and_pickles_keep_them():
    runs = [annealed.log_likelihoods(PRIOR, log_likelihood, X, stages=20, threads=threads, data_per_block=5) for threads in (1, 2)]
    one, two = runs
    assert one.values.tolist() == two.values.tolist() and one.mean_interval == two.mean_interval
    again = pickle.loads(pickle.dumps(one))
    assert again.values.tolist() == one.values.tolist() and str(again) == str(one) and again.warnings == one.warnings
    other = annealed.log_likelihoods(PRIOR, log_likelihood, X, stages=20, data_per_block=5, seed=1)
    assert other.values.tolist() != one.values.tolist()


@pytest.mark.parametrize("slopes", [None, gradient, True], ids=["values", "gradient", "pair"])
def test_each_call_has_the_same_shape(slopes):
    shapes, threads = set(), set()

    def function(z, x):
        shapes.add((z.shape, x.shape, z.dtype, x.dtype))
        threads.add(threading.get_ident())
        values = log_likelihood(z, x)
        return (values, gradient(z, x)) if slopes is True else values

    run = annealed.log_likelihoods(PRIOR, function, X.astype(np.float32), slopes, stages=10, data_per_block=8, chains=4)
    assert shapes == {((32, D), (32, P), np.dtype(float), np.dtype(np.float32))}
    assert threads == {threading.get_ident()} and run.padded_rows > 0


def test_blocks_are_equal_by_default():
    shapes = set()

    def function(z, x):
        shapes.add(len(z))
        return log_likelihood(z, x)

    data = np.resize(X, (65, P))
    annealed.log_likelihoods(PRIOR, function, data, stages=2, moves=1, chains=2)
    assert shapes == {44}


def test_a_network_in_two_dimensions_agrees_with_a_grid():
    # x ~ N(b tanh(a z + c), 0.2^2), with several posterior modes of some data.
    rng, noise, count = np.random.default_rng(1), 0.2, 30
    a, c, b = 1.5 * rng.normal(size=(32, 2)), rng.normal(size=32), rng.normal(size=(8, 32)) / np.sqrt(32)
    x = np.tanh(rng.normal(size=(count, 2)) @ a.T + c) @ b.T + noise * rng.normal(size=(count, 8))

    def pair(z, x):
        hidden = np.tanh(z @ a.T + c)
        off = x - hidden @ b.T
        return log_normal(off, noise**2 * np.eye(8)), (off @ b / noise**2 * (1 - hidden**2)) @ a

    def by_grid(points):
        axis = np.linspace(-6, 6, points)
        z = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
        log_prior, means = log_normal(z, np.eye(2)) + 2 * np.log(axis[1] - axis[0]), np.tanh(z @ a.T + c) @ b.T
        return np.array([np.logaddexp.reduce(log_prior + log_normal(datum - means, noise**2 * np.eye(8))) for datum in x])

    exact = by_grid(301)
    assert np.abs(exact - by_grid(151)).max() < 1e-6
    run = annealed.log_likelihoods({"z": annealed.independent(annealed.normal(0, 1), 2)}, pair, x, True, seed=1)
    assert_right(run, exact)
    held = (run.intervals[:, 0] <= exact) & (exact <= run.intervals[:, 1])
    assert held.sum() >= 26 and run.mean_interval[0] <= exact.mean() <= run.mean_interval[1]


def test_data_may_be_indices_and_priors_may_be_bounded():
    # x ~ Poisson(rate) with the prior rate ~ Gamma(2, 1): a negative binomial law.
    counts = np.array([0, 1, 3, 7, 12])
    log_factorial = np.array([np.log(np.arange(1, x + 1)).sum() for x in counts])

    def function(rate, index):
        assert index.dtype.kind == "i"
        return counts[index] * np.log(rate[:, 0]) - rate[:, 0] - log_factorial[index]

    def slope(rate, index):
        return counts[index, None] / rate - 1

    exact = np.log(counts + 1.0) - (counts + 2) * np.log(2)
    for slopes in (None, slope):
        assert_right(annealed.log_likelihoods({"rate": annealed.gamma(2, 1)}, function, np.arange(5), slopes, chains=64), exact)


def test_data_in_doubt_are_named():
    far = X.copy()
    far[3] += 40
    run = annealed.log_likelihoods(PRIOR, log_likelihood, far, stages=5, moves=1)
    assert 3 in run.warnings and "LowEffectiveSampleSize" in run.warning_names[3]
    assert set(run.warnings) == set(run.warning_names) and "indices" in str(run)
    assert "use more stages, another base" not in " ".join(run.warnings[3])


def test_one_outlying_datum_is_to_be_run_apart():
    far, away = X.copy(), W[:, 0] / np.linalg.norm(W[:, 0])
    far[3] += 300 * NOISE * away
    run = annealed.log_likelihoods(PRIOR, log_likelihood, far, gradient)
    assert list(run.warnings) == [3] and ", with the indices [3]: run them apart" in str(run)
    assert str(run).endswith("or its p(x) may be infinite")
    exact = log_normal(far, W @ W.T + NOISE**2 * np.eye(P))
    alone = annealed.log_likelihoods(PRIOR, log_likelihood, far[list(run.warnings)], gradient, stages=5000)
    assert abs(alone.values[0] - exact[3]) < 0.3 * abs(run.values[3] - exact[3])


def test_a_likelihood_without_an_upper_bound_is_named():
    for slopes in (None, lambda z, x: 1.2 * z):
        with pytest.raises(ValueError, match="no finite integral.*likelihood without an upper bound"):
            annealed.log_likelihoods(PRIOR, lambda z, x: 0.6 * (z**2).sum(axis=1), X, slopes)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"data": X[:0]}, "data"),
        ({"data": X[17]}, r"got an array of shape \(5,\), which is 5 data of one number each; a single datum x of 5 numbers is data=x\[None\]"),
        ({"simulated": Z[:, :2]}, "simulated"),
        ({"chains": 1}, "chains"),
        ({"stages": 0}, "stages"),
        ({"data_per_block": 0}, "data_per_block"),
        ({"log_likelihood": None}, "log_likelihood"),
        ({"log_likelihood": lambda z, x: x.sum(axis=0)}, "shape"),
        ({"log_likelihood": lambda z, x: log_likelihood(z, x) - log_likelihood(z, x).mean()}, "same state alone"),
        ({"log_likelihood": lambda z, x: np.where((x == X[7]).all(axis=1), np.nan, 0.0)}, "datum 7: log_likelihood returned nan"),
        ({"log_likelihood": lambda z, x: np.where((x == X[7]).all(axis=1), -np.inf, 0.0)}, "datum 7"),
        ({"gradient": lambda z, x: -gradient(z, x)}, "gradient"),
        ({"gradient": True}, "pair"),
    ],
)
def test_bad_input_is_refused(change, message):
    given = {"log_likelihood": log_likelihood, "data": X, "stages": 5, **change}
    with pytest.raises(ValueError, match=message):
        annealed.log_likelihoods(PRIOR, **given)


def test_exceptions_and_time_limits():
    def fails(z, x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        annealed.log_likelihoods(PRIOR, fails, X)

    def slow(z, x):
        time.sleep(0.01)
        return log_likelihood(z, x)

    with pytest.raises(TimeoutError, match="before the first data were done"):
        annealed.log_likelihoods(PRIOR, slow, X, time_limit=0.2)
    run = annealed.log_likelihoods(PRIOR, slow, X, data_per_block=1, moves=1, stages=20, threads=1, time_limit=12)
    assert 1 <= len(run.indices) <= B and len(run.values) == len(run.indices)


def test_estimates_go_to_arviz(run):
    pytest.importorskip("arviz")
    group = run.to_arviz()["log_likelihood"]
    assert group["log_p"].dims == ("chain", "draw", "datum") and group["datum"].values.tolist() == run.indices.tolist()
    assert group["log_p"].values[0, 0].tolist() == run.values.tolist()
    assert group.attrs["mean"] == run.mean and group["standard_error"].values[0, 0].tolist() == run.standard_errors.tolist()


def test_progress_is_shown():
    seen = []
    annealed.log_likelihoods(PRIOR, log_likelihood, X, stages=2000, progress=lambda *at: seen.append(at))
    assert seen and all(0 <= done <= total for _, done, total in seen)


def test_functions_of_jax_compile_once():
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    traces = []

    @jax.jit
    def function(z, x):
        traces.append(z.shape)
        return log_likelihood(z, x)

    assert_right(annealed.log_likelihoods(PRIOR, function, X, jax.jit(gradient)))
    assert traces == [(16 * B, D)]


def test_latent_vectors_of_other_data_warn():
    with pytest.warns(UserWarning, match="are not the latent vectors that generated `data`"):
        annealed.log_likelihoods(PRIOR, log_likelihood, X, gradient, simulated=Z + 3.0, stages=50)
