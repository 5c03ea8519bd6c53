"""Log Z from draws: against closed forms, in the forms that draws come in."""

import pickle
from types import SimpleNamespace

import annealed
import numpy as np
import pytest

rng = np.random.default_rng(5)
EXACT = 1.5 * np.log(2 * np.pi)
DRAWS = rng.normal(size=(4, 500, 3))


def log_density(x):
    return -0.5 * (x**2).sum(axis=1)


def assert_right(found, exact):
    assert 0 < found.standard_error < 0.05
    assert abs(found.log_z - exact) < 4 * found.standard_error


def test_draws_and_density_give_log_z():
    found = annealed.from_draws(DRAWS, log_density)
    assert_right(found, EXACT)
    assert found.overlap > 0.9 and 1_000 < found.effective_draws <= 2_000 and found.warnings == []
    assert "bridge sampling" in repr(found) and str(pickle.loads(pickle.dumps(found))) == str(found)
    for law in ["gaussian", "mixture"]:
        assert_right(annealed.from_draws(DRAWS, log_density, law=law), EXACT)


def test_draws_come_in_many_forms():
    found = annealed.from_draws(DRAWS, log_density).log_z
    assert_right(annealed.from_draws(DRAWS[0], log_density), EXACT)
    by_name = {"x": DRAWS[:, :, 0], "y": DRAWS[:, :, 1:]}
    assert annealed.from_draws(by_name, log_density).log_z == found
    idata = SimpleNamespace(posterior=SimpleNamespace(data_vars={**by_name, "other": DRAWS}))
    assert annealed.from_draws(idata, log_density, names=["x", "y"]).log_z == found
    assert annealed.from_draws(np.asfortranarray(DRAWS), log_density).log_z == found


def test_inference_data_of_arviz():
    arviz = pytest.importorskip("arviz")
    posterior = {"x": DRAWS[:, :, 0], "y": DRAWS[:, :, 1:]}
    old = hasattr(arviz, "from_json")
    idata = arviz.from_dict(posterior=posterior) if old else arviz.from_dict({"posterior": posterior})
    assert annealed.from_draws(idata, log_density).log_z == annealed.from_draws(DRAWS, log_density).log_z


def test_priors_bring_their_jacobian():
    # Exponential data with a gamma prior: the posterior is a gamma law.
    data = np.array([0.5, 1.5, 0.25])
    draws = {"rate": rng.gamma(2 + 3, 1 / (1 + data.sum()), size=(2, 1000))}
    exact = np.log(24) - 5 * np.log(1 + data.sum())  # Gamma(5) / Gamma(2) / (1 + sum)^5

    def log_likelihood(x):
        return 3 * np.log(x[:, 0]) - x[:, 0] * data.sum()

    found = annealed.from_draws(draws, prior={"rate": annealed.gamma(2, 1)}, log_likelihood=log_likelihood)
    assert_right(found, exact)
    outside = {"rate": np.where(draws["rate"] > 1, -1, draws["rate"])}
    with pytest.raises(ValueError, match="got .*-1.*expected a finite number above 0"):
        annealed.from_draws(outside, prior={"rate": annealed.gamma(2, 1)}, log_likelihood=log_likelihood)


def test_batches_are_whole_chains():
    sizes = []

    def watched(x):
        sizes.append(len(x))
        return log_density(x)

    annealed.from_draws(DRAWS, watched)
    assert sizes == [2, 1, 1, 14, 500, 3, 500, 500, 500, 1000, 1000]  # a few by the package and the library, to see shapes and values


@pytest.mark.parametrize(
    ("draws", "settings", "sentence"),
    [
        (DRAWS[:, :10], {}, r"invalid draws of a chain: got 10, expected at least 20; the shape \(4, 10, 3\) is read as"),
        (DRAWS[0, 0], {}, r"shape \(3,\), expected 2 or 3 dimensions"),
        (np.where(DRAWS > 3, np.nan, DRAWS), {}, "got nan at draw 213 of chain 0"),
        (DRAWS, {"law": "cauchy"}, "invalid law: got cauchy"),
        ({"x": DRAWS}, {"names": ["y"]}, "expected y among them"),
        (DRAWS, {"prior": {"x": annealed.normal(0, 1)}, "log_likelihood": log_density}, "got log_density and prior and log_like"),
        (np.abs(DRAWS), {"prior": {"x": annealed.normal(0, 1)}}, "got log_density and prior: give one or the other"),
    ],
)
def test_bad_input_is_named(draws, settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        annealed.from_draws(draws, log_density, **settings)


def test_priors_and_draws_have_one_size():
    with pytest.raises(ValueError, match="dimension mismatch in draws: got 3, expected 1"):
        annealed.from_draws(DRAWS, prior={"x": annealed.normal(0, 1)}, log_likelihood=log_density)
    with pytest.raises(ValueError, match="got prior: give one or the other"):
        annealed.from_draws(DRAWS, prior={"x": annealed.normal(0, 1)})
    with pytest.raises(ValueError, match="got neither: give one or the other"):
        annealed.from_draws(DRAWS)


def test_draws_outside_of_the_target_are_named():
    for value, text in [(np.nan, "NaN"), (-np.inf, "-inf")]:
        with pytest.raises(ValueError, match=f"log density {text} at draw 0 of chain 0, .*positive parameter.*or give prior"):
            annealed.from_draws(DRAWS, lambda x: np.full(len(x), value))
    farthest = abs(DRAWS).max()  # Draws of the fitted law go beyond.
    with pytest.raises(ValueError, match=r"log_density returned nan at x\[:, 0\] = .*, x\[:, 1\] = .*; expected"):
        annealed.from_draws(DRAWS, lambda x: np.where(abs(x).max(axis=1) > farthest, np.nan, log_density(x)))
    prior = {"x": annealed.independent(annealed.normal(0, 1), 3)}
    with pytest.raises(ValueError, match="log density -inf at draw 0 of chain 0, expected a finite log likelihood"):
        annealed.from_draws(DRAWS, prior=prior, log_likelihood=lambda x: np.full(len(x), -np.inf))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x: np.zeros(len(x)),
        lambda x: 0.5 * (x**2).sum(axis=1),  # a forgotten sign
        lambda x: log_density(x[:, :2]),  # one column is not the density's
    ],
)
def test_densities_without_a_normalising_constant_are_refused(wrong):
    with pytest.raises(ValueError, match="expected a lower value: it has no normalising constant"):
        annealed.from_draws(DRAWS, wrong)


def test_a_density_that_refuses_values_far_away_is_used():
    def bounded(x):
        if abs(x).max() > 20:
            raise ValueError("far away")
        return log_density(x)

    assert_right(annealed.from_draws(DRAWS, bounded), EXACT)


@pytest.mark.parametrize("other", [2 * DRAWS, DRAWS + 0.5])
def test_draws_of_another_density_are_named(other):
    assert "ForwardReverseGap" in annealed.from_draws(other, log_density).warning_names


def test_single_precision_is_noticed():
    large = annealed.from_draws(DRAWS, lambda x: (log_density(x) - 1e7).astype(np.float32))
    assert "Rounding" in large.warning_names
    assert annealed.from_draws(DRAWS, lambda x: log_density(x).astype(np.float32)).warnings == []


def test_copies_of_rounded_draws_are_named():
    few = rng.normal(size=(60, 10))[rng.integers(0, 60, 4000)]
    assert "CopiedDraws" in annealed.from_draws(few.round(5), log_density).warning_names
    one = rng.normal(size=(4, 500, 1)).round(2)  # Few digits of one coordinate are no copies.
    assert annealed.from_draws(one, log_density).warnings == []


def test_elements_in_the_order_of_their_names_are_refused():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({f"theta[{i}]": rng.normal(size=500) for i in sorted(range(12), key=str)})
    with pytest.raises(ValueError, match=r"got the column theta\[2\] after theta\[11\].*names=\['theta', ..\]"):
        annealed.from_draws(table, log_density)
    assert annealed.from_draws(table, log_density, names=["theta"]).warnings == []
    mixed = pandas.DataFrame({"chain": [1, "B"] * 250, "x": rng.normal(size=500)})
    assert annealed.from_draws(mixed, log_density).warnings == []
    with pytest.raises(ValueError, match="got NaN in the column chain"):
        annealed.from_draws(pandas.DataFrame({"chain": [1, np.nan] * 250, "x": rng.normal(size=500)}), log_density)


def test_exceptions_come_back():
    def failing(x):
        if len(x) > 500:
            raise KeyError("of the law")
        return log_density(x)

    with pytest.raises(KeyError, match="of the law"):
        annealed.from_draws(DRAWS, failing)
