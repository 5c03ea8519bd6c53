"""Draws as samplers lay them out: the right axes and names give log Z, other ones an error or a warning."""

import re
import warnings
from pathlib import Path
from types import SimpleNamespace

import annealed
import annealed._readers
import numpy as np
import pytest

PAGE = Path(__file__).parents[3] / "docs" / "python.md"
CHAINS, STEPS = 4, 500
#: The model: y ~ N(mu, sigma^2) with mu ~ N(0, 30^2), sigma half-normal; draws on a grid, so that they are exact.
Y = np.array([10.2, 11.1, 10.6, 11.9, 11.4])
PRIOR = {"mu": annealed.normal(0, 30), "sigma": annealed.half_normal(20)}
rng = np.random.default_rng(3)


def log_likelihood(x):
    mu, sigma = x[:, :1], x[:, 1:2]
    return (-0.5 * ((Y - mu) / sigma) ** 2 - np.log(sigma) - 0.5 * np.log(2 * np.pi)).sum(axis=1)


def exact_draws():
    mu, sigma = np.meshgrid(np.linspace(6, 16, 801), np.exp(np.linspace(-2.5, 2.5, 801)), indexing="ij")
    x = np.stack([mu.ravel(), sigma.ravel()], axis=1)
    log_f = log_likelihood(x) - 0.5 * (x[:, 0] / 30) ** 2 - np.log(30) - 0.5 * np.log(2 * np.pi)
    log_f += np.log(2 / 20) - 0.5 * np.log(2 * np.pi) - 0.5 * (x[:, 1] / 20) ** 2
    mass = np.exp(log_f) * x[:, 1]  # of equal steps of log sigma
    steps = np.array([10 / 800, 5 / 800])
    at = rng.choice(len(x), size=(CHAINS, STEPS), p=mass / mass.sum())
    jitter = rng.uniform(-0.5, 0.5, size=(2, CHAINS, STEPS))
    return x[at, 0] + jitter[0] * steps[0], x[at, 1] * np.exp(jitter[1] * steps[1]), np.log(mass.sum() * steps.prod())


MU, SIGMA, EXACT = exact_draws()
MODEL = {"prior": PRIOR, "log_likelihood": log_likelihood}


def assert_right(found, exact=EXACT):
    assert 0 < found.standard_error < 0.05
    assert abs(found.log_z - exact) < 4 * found.standard_error


class Table:
    """A table with the names of columns: what is read of a DataFrame of pandas or polars."""

    def __init__(self, columns):
        self.of = columns
        self.columns = list(columns)

    def __getitem__(self, name):
        return self.of[name]


def pandas_table(columns):
    return pytest.importorskip("pandas").DataFrame(columns)


def polars_table(columns):
    return pytest.importorskip("polars").DataFrame(columns)


def record_array(columns):
    return np.rec.fromarrays(list(columns.values()), names=list(columns))


def labelled(**more):
    chain, draw = np.indices((CHAINS, STEPS))
    return {"chain": chain.ravel(), "draw": draw.ravel(), "sigma": SIGMA.ravel(), "mu": MU.ravel(), **more}


@pytest.mark.parametrize("table", [Table, pandas_table, polars_table, record_array])
def test_tables_are_read_by_name(table):
    found = annealed.from_draws({"mu": MU, "sigma": SIGMA}, **MODEL)
    assert_right(found)
    assert annealed.from_draws(table(labelled()), **MODEL).log_z == found.log_z
    assert annealed.from_draws(table(labelled()), names=["sigma", "mu"], **MODEL).log_z == found.log_z
    assert_right(annealed.from_draws(table({"sigma": SIGMA[0], "mu": MU[0]}), **MODEL))
    shuffled = rng.permutation(CHAINS * STEPS)
    with pytest.raises(ValueError, match=r"got \d+ after \d+ in row \d+ of draw, expected numbers that rise within a chain"):
        annealed.from_draws(table({name: column[shuffled] for name, column in labelled().items()}), **MODEL)
    with pytest.raises(ValueError, match=r"got \('chain', 'draw', 'sigma'\), expected mu among them"):
        annealed.from_draws(table({name: column for name, column in labelled().items() if name != "mu"}), **MODEL)


def test_rows_of_chains_may_alternate():
    by_step = {name: column.reshape(CHAINS, STEPS).T.ravel() for name, column in labelled().items()}
    assert annealed.from_draws(Table(by_step), **MODEL).log_z == annealed.from_draws(Table(labelled()), **MODEL).log_z


def test_chains_may_have_unequal_lengths():
    lengths = [500, 500, 500, 30]
    chains = [np.stack([MU[i, :n], SIGMA[i, :n]], axis=1) for i, n in enumerate(lengths)]
    found = annealed.from_draws(chains, **MODEL)
    assert_right(found)
    assert found.effective_draws > 700 and found.warnings == []  # cut to the shortest, they would be worth less than 120
    rows = np.concatenate(chains)
    table = Table({"chain": np.repeat(np.arange(4), lengths), "mu": rows[:, 0], "sigma": rows[:, 1]})
    assert annealed.from_draws(table, **MODEL).log_z == found.log_z


@pytest.mark.parametrize("table", [Table, pandas_table, record_array])
def test_a_list_of_tables_is_read_by_name(table):
    found = annealed.from_draws({"mu": MU, "sigma": SIGMA}, **MODEL)
    of_stan = {"lp__": rng.normal(size=STEPS), "divergent__": np.arange(STEPS) < 2}
    tables = [table({**of_stan, "sigma": SIGMA[i], "mu": MU[i]}) for i in range(CHAINS)]
    of_files = annealed.from_draws(tables, **MODEL)
    assert of_files.log_z == found.log_z
    assert f"{2 * CHAINS} divergent transitions" in str(of_files)
    of_function = dict(log_density=lambda x: -0.5 * (x**2).sum(axis=1))
    with pytest.raises(ValueError, match=r"got the columns \['sigma', 'mu'\] in table 1, expected those of table 0"):
        annealed.from_draws([table({"mu": MU[0], "sigma": SIGMA[0]}), table({"sigma": SIGMA[1], "mu": MU[1]})], **of_function)


def test_columns_as_posterior_and_cmdstanpy_name_them():
    columns = labelled()
    posterior = {".chain": columns["chain"] + 1, ".iteration": columns["draw"] + 1, ".draw": np.arange(CHAINS * STEPS) + 1}
    cmdstanpy = {"chain__": columns["chain"] + 1.0, "iter__": columns["draw"] + 1.0, "draw__": np.arange(CHAINS * STEPS) + 1.0}
    own = {"lp__": rng.normal(size=CHAINS * STEPS), "mu": columns["mu"], "sigma": columns["sigma"]}
    found = annealed.from_draws({"mu": MU, "sigma": SIGMA}, **MODEL).log_z
    for markers in [posterior, cmdstanpy]:
        table = Table({**markers, **own})
        assert annealed.from_draws(table, **MODEL).log_z == found
    logs = Table({**cmdstanpy, "lp__": own["lp__"], "mu": own["mu"], "log_sigma": np.log(own["sigma"])})
    seen = []
    annealed.from_draws(logs, lambda x: seen.append(x.shape[1]) or -0.5 * (x**2).sum(axis=1))
    assert set(seen) == {2}  # neither the markers nor lp__ are parameters


def test_vectors_are_the_columns_with_an_index():
    x = rng.normal(size=(2, 400, 12)) + np.arange(12)
    chain = np.indices((2, 400))[0].ravel()
    for shape in ["theta[{}]", "theta.{}"]:
        names = sorted(shape.format(i + 1) for i in range(12))  # theta[1], theta[10], .. as a text sorts them
        table = Table({"chain": chain, **{name: x[:, :, names_index(name)].ravel() for name in names}})
        prior = {"theta": annealed.independent(annealed.normal(0, 10), 12)}
        found = annealed.from_draws(table, prior=prior, log_likelihood=lambda x: -0.5 * ((x - np.arange(12)) ** 2).sum(axis=1))
        spread = 1 + 10**2
        exact = -0.5 * (np.arange(12) ** 2).sum() / spread - 6 * np.log(spread)
        assert abs(found.log_z - exact) < 0.3  # the draws are of the likelihood alone
        with pytest.raises(ValueError, match="invalid draws of theta: got 12 numbers a draw, expected 11, as its prior has"):
            annealed.from_draws(table, prior={"theta": annealed.independent(annealed.normal(0, 10), 11)}, log_likelihood=np.sum)


def names_index(name):
    return int(name[5:].strip("[].")) - 1 if name[5] != "." else int(name[6:]) - 1


def test_names_are_never_ignored():
    array = np.stack([MU, SIGMA], axis=2)
    assert_right(annealed.from_draws(array, **MODEL))
    with pytest.raises(ValueError, match=r"invalid names: got \['mu', 'sigma'\], expected none beside an array without names"):
        annealed.from_draws(array, names=["mu", "sigma"], **MODEL)
    with pytest.raises(ValueError, match=r"invalid names: got \['mu', 'tau'\], expected those of the prior, \['mu', 'sigma'\]"):
        annealed.from_draws({"mu": MU, "tau": SIGMA}, names=["mu", "tau"], **MODEL)
    with pytest.raises(ValueError, match=r"got \['mu', 'mu'\], expected each once"):
        annealed.from_draws({"mu": MU, "tau": SIGMA}, names=["mu", "mu"], **MODEL)
    found = annealed.from_draws({"m": MU, "s": SIGMA}, names=["m", "s"], prior=list(PRIOR.values()), log_likelihood=log_likelihood)
    assert_right(found)
    assert annealed.from_draws({"sigma": SIGMA, "mu": MU}, names=["sigma", "mu"], **MODEL).log_z == found.log_z


def test_numpyro_groups_by_chain_or_is_refused():
    theta = rng.normal(size=(CHAINS, STEPS, 8)) * 0.5
    prior = {**PRIOR, "theta": annealed.independent(annealed.normal(0, 0.5), 8)}
    grouped = {"mu": MU, "sigma": SIGMA, "theta": theta}  # mcmc.get_samples(group_by_chain=True)
    found = annealed.from_draws(grouped, prior=prior, log_likelihood=log_likelihood)
    assert_right(found)
    flat = {name: x.reshape(-1, *x.shape[2:]) for name, x in grouped.items()}  # mcmc.get_samples(), fit.stan_variables()
    for draws in [flat, {"theta": flat["theta"]}, {"theta": flat["theta"][:, :, None]}]:
        with pytest.raises(ValueError, match=r"group_by_chain=True.*numpy.reshape\(x, \(chains, -1"):
            annealed.from_draws(draws, lambda x: -0.5 * (x**2).sum(axis=1))
    few = {"theta": rng.normal(size=(60, 80))}  # 60 draws of a vector of 80, or 60 chains
    vector = {"prior": {"theta": annealed.independent(annealed.normal(0, 1), 80)}, "log_likelihood": np.sum}
    for model in [vector, {"log_density": gaussian}]:
        with pytest.raises(ValueError, match=r"group_by_chain=True.*x\[..., None\] of scalars"):
            annealed.from_draws(few, **model)
    chains = {"theta": few["theta"][..., None]}
    assert_right(annealed.from_draws(chains, gaussian), 0.5 * np.log(2 * np.pi))
    again = {name: np.reshape(x, (CHAINS, -1, *np.shape(x)[1:])) for name, x in flat.items()}  # the call of the error
    assert annealed.from_draws(again, prior=prior, log_likelihood=log_likelihood).log_z == found.log_z
    one = annealed.from_draws({"mu": MU.ravel(), "sigma": SIGMA.ravel()}, **MODEL)  # scalars alone are one chain
    assert_right(one)


def ensemble(steps, walkers, d, correlation, seed):
    """Autoregressions of N(0, 1), laid out as emcee's get_chain(): (steps, walkers, d)."""
    own = np.random.default_rng(seed)
    x = np.empty((steps, walkers, d))
    x[0] = own.normal(size=(walkers, d))
    for t in range(1, steps):
        x[t] = correlation * x[t - 1] + (1 - correlation**2) ** 0.5 * own.normal(size=(walkers, d))
    return x


def gaussian(x):
    return -0.5 * (x**2).sum(axis=1)


def test_emcee_has_steps_first():
    exact = 1.5 * np.log(2 * np.pi)
    chain = ensemble(1500, 32, 3, 0.97, 0)
    with pytest.raises(ValueError, match=r"1500 chains of 32 draws, expected \(chains, draws, ..\).*emcee.*draws.swapaxes\(0, 1\)"):
        annealed.from_draws(chain, gaussian)
    with pytest.raises(ValueError, match=r"got 15, expected at least 20.*swapaxes"):
        annealed.from_draws(ensemble(10, 15, 2, 0.5, 1), gaussian)
    assert_right(annealed.from_draws(chain.swapaxes(0, 1), gaussian), exact)
    right = annealed.from_draws(ensemble(100, 80, 3, 0.5, 2).swapaxes(0, 1), gaussian)
    assert_right(right, exact)
    assert "ExchangedAxes" not in right.warning_names
    for correlation in [0.3, 0.8]:  # fewer steps than walkers pass for chains and draws
        wrong = annealed.from_draws(ensemble(100, 200, 3, correlation, 3), gaussian)
        assert "ExchangedAxes" in wrong.warning_names
        assert "draws.swapaxes(0, 1)" in str(wrong) and "warning" in repr(wrong)


def test_right_axes_of_all_correlations_do_not_warn():
    for correlation in [-0.6, 0.0, 0.5, 0.9, 0.999]:
        for seed in range(20):
            for shape in [(20, 4, 5), (200, 10, 2), (1000, 2, 1)]:
                draws = ensemble(*shape, correlation, seed).swapaxes(0, 1)
                assert "ExchangedAxes" not in [name for name, _ in annealed._readers.doubts(draws, False)]


def test_inference_data_has_named_axes():
    def array(values, *axes):
        return SimpleNamespace(values=values, dims=axes)

    idata = SimpleNamespace(posterior=SimpleNamespace(data_vars={"mu": array(MU, "chain", "draw"), "sigma": array(SIGMA.T, "draw", "chain")}))
    found = annealed.from_draws({"mu": MU, "sigma": SIGMA}, **MODEL)
    assert annealed.from_draws(idata, **MODEL).log_z == found.log_z
    many = {name: array(x.reshape(100, 20), "chain", "draw") for name, x in [("mu", MU), ("sigma", SIGMA)]}
    assert_right(annealed.from_draws(many, **MODEL))  # more chains than draws, by name
    extracted = {name: array(x.ravel(), "sample") for name, x in [("mu", MU), ("sigma", SIGMA)]}
    with pytest.raises(ValueError, match=r"got the axes \('sample',\) of mu, expected chain and draw"):
        annealed.from_draws(extracted, **MODEL)


def nested_sampling(live=500, dead=6000, d=2):
    """Weighted samples as dynesty has them: in the order of their likelihood, with log weights. N(0, 1) under a wide uniform."""
    volume = np.exp(-np.arange(1, dead + 1) / live)  # of the ball within the disc of radius 5
    radius = 5 * volume ** (1 / d)
    angle = rng.uniform(0, 2 * np.pi, dead)
    samples = radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return SimpleNamespace(samples=samples, logwt=-0.5 * radius**2 + np.log(volume))


def test_weighted_samples_of_dynesty():
    results = nested_sampling()
    weights = np.exp(results.logwt - np.logaddexp.reduce(results.logwt))
    exact = np.log(2 * np.pi)
    with pytest.raises(ValueError, match="SimpleNamespace with weights, expected equally weighted draws.*docs/python.md"):
        annealed.from_draws(results, gaussian)
    for name in ["logwt", ".log_weight", "weights"]:
        table = Table({"x": results.samples[:, 0], "y": results.samples[:, 1], name: results.logwt})
        with pytest.raises(ValueError, match=f"got a column {name}, expected equally weighted draws"):
            annealed.from_draws(table, gaussian, names=["x", "y"])
    assert annealed.from_draws(results.samples, gaussian).warnings  # unweighted, the best last
    equal = results.samples[rng.choice(len(weights), size=len(weights), p=weights)]  # as samples_equal() has them
    assert "CopiedDraws" in annealed.from_draws(equal, gaussian).warning_names
    results.importance_weights = lambda: weights
    scope = {"results": results, "np": np, "rng": rng}
    exec(re.search(r"### Weighted draws.*?```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[1], scope)
    found = annealed.from_draws(scope["draws"], gaussian)
    assert_right(found, exact)
    assert found.warnings == []


def test_copies_are_not_new_draws():
    draws = rng.normal(size=(1, 100, 2))
    more = rng.normal(size=(1, 100, 2))
    for copied in [np.concatenate([draws, more, draws], axis=1), np.concatenate([draws, np.roll(draws, 3, axis=1), more])]:
        assert "CopiedDraws" in annealed.from_draws(copied, gaussian).warning_names
    metropolis = np.repeat(rng.normal(size=(2, 300, 2)), 3, axis=1)  # a rejected move repeats its draw
    assert annealed.from_draws(metropolis, gaussian).warning_names == []
    rounded = rng.normal(size=(2, 2000, 1)).round(3)
    assert annealed.from_draws(rounded, gaussian).warning_names == []


def test_masked_numbers_are_refused():
    masked = np.ma.masked_greater(np.stack([MU, SIGMA], axis=2), 12)
    for draws in [masked, {"mu": masked[:, :, 0], "sigma": SIGMA}]:
        with pytest.raises(ValueError, match=r"invalid draws.*: got a masked array with \d+ masked numbers, expected none"):
            annealed.from_draws(draws, **MODEL)
    assert_right(annealed.from_draws(np.ma.array(np.stack([MU, SIGMA], axis=2)), **MODEL))
    with pytest.raises(ValueError, match="invalid forward: got a masked array with 1 masked"):
        annealed.free_energy(np.ma.masked_equal([1.0, 2.0, 3.0], 2), [1.0, 2.0])


@pytest.mark.parametrize(
    ("draws", "sentence"),
    [
        (np.ones((3, 400)), r"shape \(3, 400\), expected \(draws, d\) with more draws than coordinates; pass draws.T .*draws\[..., None\]"),
        ("draws.csv", "got 'draws.csv', expected what the file holds: pandas.read_csv"),
        (Table({"chain;mu;sigma": ["0;1.5;2.5"] * 30}), "got one column 'chain;mu;sigma', expected one for each parameter: .*sep"),
        (Table({"mu\tsigma": ["1.5\t2.5"] * 30}), r"got one column 'mu\\tsigma'"),
        (object(), "got object, expected an array, a table, a dict or InferenceData"),
        ({}, "got no variables"),
        (np.ones((4, 500, 0)), r"shape \(4, 500, 0\), expected at least one coordinate"),
        ({"x": np.ones((4, 500)), "y": np.ones((2, 500))}, "expected the same chains and draws: an array"),
        ([np.zeros((30, 2)), np.zeros((40, 3))], r"chains of the shapes \[\(30, 2\), \(40, 3\)\]"),
        ([np.zeros((30, 2)), np.zeros((0, 2))], "no draws of a chain"),
        (Table({"x": np.empty(0)}), "got a table without rows"),
        (Table({"chain": [0] * 30}), r"got the columns \('chain',\), expected one for each parameter"),
        (Table({"x": ["a"] * 30}), "invalid draws of x: got an array of <U1, expected numbers"),
    ],
)
def test_bad_input_is_named(draws, sentence):
    with pytest.raises(ValueError, match=sentence):
        annealed.from_draws(draws, gaussian)


def test_a_draw_that_its_prior_excludes_has_a_place():
    prior = {"scale": annealed.half_normal(1), "p": annealed.dirichlet([2, 3, 4])}
    draws = {"scale": np.abs(rng.normal(size=(2, 300))), "p": rng.dirichlet([2, 3, 4], size=(2, 300))}
    draws["p"][1, 7] = [0.5, 0.5, 0.5]
    with pytest.raises(ValueError, match="invalid draws: got .*0.5 at draw 7 of chain 1, expected numbers above 0 whose sum is 1"):
        annealed.from_draws(draws, prior=prior, log_likelihood=lambda x: np.zeros(len(x)))


def test_no_warning_of_numpy_comes_out():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        annealed.from_draws(np.stack([MU, SIGMA], axis=2), **MODEL)


def test_divergences_that_the_sampler_recorded_warn():
    rng = np.random.default_rng(5)
    x, diverging = rng.normal(size=(4, 500)), rng.random((4, 500)) < 0.01
    data = SimpleNamespace(posterior={"x": x}, sample_stats=SimpleNamespace(diverging=diverging))
    table = Table({"x": x.ravel(), "chain": np.repeat(range(4), 500), "divergent__": diverging.ravel().astype(int)})
    given = {"prior": {"x": annealed.normal(0, 1)}, "log_likelihood": lambda x: np.zeros(len(x))}
    for draws in [data, table]:
        found = annealed.from_draws(draws, **given)
        assert "Divergences" in found.warning_names and f"{diverging.sum()} divergent transitions" in str(found)
    assert annealed.from_draws({"x": x}, **given).warning_names == []
