"""Several results together: tables of models, sums over data sets."""

import pickle

import annealed
import numpy as np
import pytest

MEASURED = 1.3


def evidence(deviation, seed, shift=0.0):
    """The evidence of one measurement, 1.3 +- 0.5, under a prior of this deviation."""

    def log_likelihood(x):
        return -0.5 * ((x[:, 0] - MEASURED) / 0.5) ** 2 - np.log(0.5 * np.sqrt(2 * np.pi)) + shift

    return annealed.evidence({"x": annealed.normal(0, deviation)}, log_likelihood, budget=60_000, seed=seed)


def exact(deviation):
    variance = deviation**2 + 0.25
    return -0.5 * MEASURED**2 / variance - 0.5 * np.log(2 * np.pi * variance)


@pytest.fixture(scope="module")
def runs():
    return {"narrow": evidence(0.1, 1), "medium": evidence(1.0, 2), "wide": evidence(10.0, 3)}


def test_probabilities_are_those_of_the_closed_form(runs):
    found = annealed.compare(runs)
    expected = np.exp([exact(deviation) for deviation in (0.1, 1.0, 10.0)])
    for name, probability in zip(runs, expected / expected.sum()):
        model = found[name]
        assert abs(model.probability - probability) < 4 * model.probability_error < 0.2
        assert model.probability_interval[0] < model.probability < model.probability_interval[1]
        assert (model.log_z, model.interval) == (runs[name].log_z, runs[name].interval) and model.prior == pytest.approx(1 / 3)
    assert found.models[0].name == "medium" and found.models[0].from_best is None
    ratio = annealed.log_ratio(runs["wide"], runs["medium"])
    assert found["wide"].from_best == (ratio.value, ratio.standard_error, ratio.interval)
    assert sum(found.probabilities.values()) == pytest.approx(1) and list(found.probabilities)[0] == "medium"
    assert str(found).startswith("model ") and repr(found) == str(found)
    assert pickle.loads(pickle.dumps(found)) == found
    priors = annealed.compare(runs, priors={"narrow": 0, "medium": 1, "wide": 3})
    assert priors["narrow"].probability == 0 and priors["wide"].prior == 0.75


def test_warnings_of_one_model_are_not_hidden_by_another(runs):
    d = 100
    prior = {"x": annealed.independent(annealed.normal(0, 10), d)}
    poor = annealed.evidence(prior, lambda x: (-0.5 * ((x - 20) / 0.1) ** 2).sum(axis=1), budget=45_000, chains=8, seed=4)
    found = annealed.compare({**runs, "poor": poor})
    assert poor.warnings and found["poor"].warnings[: len(poor.warnings)] == poor.warnings
    assert "UnknownError" in found["poor"].warning_names and found["medium"].warnings == []
    assert "poor !" in str(found) and f"warning: poor: {poor.warnings[0]}" in str(found)
    shared = annealed.compare({"one": evidence(1.0, 7), "two": evidence(2.0, 7)})
    assert shared.warning_names == ["SharedSeed"] and shared.warnings[0] in str(shared)


def test_sums_of_data_sets(runs):
    parts = [runs["medium"], evidence(1.0, 5), evidence(1.0, 6)]
    found = annealed.log_z_sum(parts)
    assert found.log_z == sum(part.log_z for part in parts) and found.data_sets == 3
    assert abs(found.log_z - 3 * exact(1.0)) < 4 * found.standard_error < 0.4
    assert found.standard_error == pytest.approx(np.sqrt(sum(part.standard_error**2 for part in parts)))
    assert found.warnings == [] and "sum of 3" in str(found) and str(pickle.loads(pickle.dumps(found))) == str(found)
    models = annealed.compare({"sum": parts, "other": [runs["wide"], evidence(10.0, 8), evidence(10.0, 9)]})
    assert models["sum"].log_z == found.log_z and models.warnings == []
    unlike = annealed.compare({"sum": parts, "one": runs["wide"]})
    assert unlike.warning_names == ["DifferentData"] and "sum of 3, one of 1" in unlike.warnings[0]
    assert annealed.log_z_sum([found, runs["wide"]]).data_sets == 4
    with pytest.raises(ValueError, match="got an earlier result again as result 3"):
        annealed.log_z_sum([found, parts[1]])
    both = annealed.compare({"one": [runs["wide"], parts[1]], "two": [runs["narrow"], parts[1]]})
    assert both.warning_names == ["SharedSeed"]
    # The warnings of a part are those of the sum.
    low = annealed.evidence({"x": annealed.normal(0, 1)}, lambda x: -0.5e4 * (x[:, 0] - 3) ** 2, until_error=1e-4, budget=45_000, seed=11)
    whole = annealed.log_z_sum([runs["medium"], low])
    assert whole.warning_names[: len(low.warning_names)] == low.warning_names != []
    assert whole.warnings[0] == f"result 1: {low.warnings[0]}" and whole.warnings[0] in str(whole)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda runs: annealed.compare([*runs.values()]), "invalid runs: got list, expected a dict"),
        (lambda runs: annealed.compare({}), "models"),
        (lambda runs: annealed.compare({"one": 1.0}), "invalid run one: got float"),
        (lambda runs: annealed.compare({"one": runs["wide"], "two": runs["wide"]}), "got one result as one and two"),
        (lambda runs: annealed.compare(runs, priors={"wide": 1}), r"invalid priors: got \['wide'\], expected a number for each"),
        (lambda runs: annealed.compare({"one": runs["wide"]}, priors={"one": -1}), "invalid priors"),
        (lambda runs: annealed.compare({"one": runs["wide"]}, priors={"one": "x"}), "invalid prior of one: got 'x', expected a number"),
        (lambda runs: annealed.log_z_sum([]), "results"),
        (lambda runs: annealed.log_z_sum(runs["wide"]), "invalid results: got Evidence, expected a list"),
        (lambda runs: annealed.log_z_sum([runs["wide"]] * 2), "got an earlier result again as result 1"),
        (lambda runs: annealed.log_z_sum([runs["wide"], 3]), "invalid result 1: got int"),
    ],
)
def test_bad_input_is_named(runs, call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call(runs)


def test_a_model_that_was_not_compared_is_a_key_error():
    run = annealed.evidence({"x": annealed.normal(0, 1)}, lambda x: -0.5 * x[:, 0] ** 2, rounds=2)
    with pytest.raises(KeyError, match="other"):
        annealed.compare({"one": run})["other"]
