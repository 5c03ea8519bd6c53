"""Restricted Boltzmann machines: against enumeration by NumPy, and what users hand in."""

import doctest
import itertools
import pickle

import annealed
import numpy as np
import pytest

rng = np.random.default_rng(3)
W, a, b = rng.normal(size=(4, 7)), rng.normal(size=4), rng.normal(size=7)
QUICK = {"chains": 512, "stages": 200}


def log_f(v, w=W, a=a, b=b):
    """Log f of rows: the hidden units are summed out."""
    return v @ b + np.logaddexp(0, a + v @ w.T).sum(axis=1)


def enumerated():
    log_fs = log_f(np.array(list(itertools.product([0, 1], repeat=7))))
    return np.log(np.exp(log_fs).sum())


@pytest.fixture(scope="module")
def run():
    return annealed.rbm(W, a, b, seed=1, **QUICK)


def test_log_z_is_that_of_enumeration(run):
    assert run.exact() == pytest.approx(enumerated(), abs=1e-5)  # of single precision
    assert 0 < run.standard_error < 0.05
    assert abs(run.log_z - enumerated()) < 4 * run.standard_error
    lower, upper = run.interval
    assert lower < run.log_z < upper and run.certified_lower_bound < enumerated()
    assert run.warnings == run.warning_names == []
    assert repr(run) == str(run).split("\n")[0]
    assert (run.chains, run.stages, run.hidden_units, run.visible_units) == (512, 200, 4, 7)
    assert run.log_weights.shape == (512,) and run.states.shape == (512, 7) and run.states.dtype == bool
    assert run.starts.startswith("starts, by pilots")


def test_scores_are_those_of_the_formula(run):
    rows = rng.integers(0, 2, size=(40, 7))
    score = run.score(rows, log_z=run.exact())
    by_hand = log_f(rows) - enumerated()
    assert score.mean == pytest.approx(by_hand.mean(), abs=1e-5)
    assert score.standard_error == pytest.approx(by_hand.std(ddof=1) / 40**0.5, rel=1e-5)
    assert score.interval == (score.mean, score.mean) and score.rows == 40
    own = run.score(rows)
    assert own.interval[0] < own.mean < own.interval[1]
    assert own.mean == pytest.approx(score.mean + run.exact() - run.log_z)
    assert run.score(rows, log_z=run.reverse("exact")).interval[1] < own.interval[1]


def test_scores_by_row_are_compared_in_pairs(run):
    rows = rng.integers(0, 2, size=(60, 7))
    w = W + 0.1 * rng.normal(size=W.shape)
    other = annealed.rbm(w, a, b, seed=2, **QUICK)
    one, two = run.score(rows), other.score(rows)
    assert one.by_row.shape == (60,) and one.by_row == pytest.approx(log_f(rows) - run.log_z, abs=1e-5)
    assert one.by_row.mean() == pytest.approx(one.mean) and one.log_z is run
    found = annealed.compare_scores(one, two)
    pairs = one.by_row - two.by_row
    assert found.value == pytest.approx(one.mean - two.mean) and found.rows == 60
    assert found.error_over_rows == pytest.approx(pairs.std(ddof=1) / 60**0.5)
    assert found.error_of_log_z == pytest.approx(np.hypot(run.standard_error, other.standard_error))
    assert found.standard_error == pytest.approx(np.hypot(found.error_over_rows, found.error_of_log_z))
    assert found.standard_error < np.hypot(one.standard_error, two.standard_error)
    assert found.interval[0] < found.value < found.interval[1]
    assert str(found).startswith("difference of 60 rows: ") and repr(found) == str(found).split("\n")[0]
    assert pickle.loads(pickle.dumps(found)) == found and pickle.loads(pickle.dumps(one)) == one
    exact = annealed.compare_scores(run.score(rows, log_z=run.exact()), other.score(rows, log_z=other.exact()))
    assert exact.error_of_log_z == 0 and exact.error_over_rows == pytest.approx(found.error_over_rows)
    half = annealed.compare_scores(run.score(rows, log_z=run.exact()), two)
    assert half.error_of_log_z == other.standard_error
    same = annealed.rbm(w, a, b, seed=1, **QUICK)
    assert "SharedSeed" in annealed.compare_scores(one, same.score(rows)).warning_names
    for first, second, sentence in [
        (one, other.score(rows[:50]), "got 60 and 50 rows, expected the same rows"),
        (one, other.score(rows[::-1]), "got 60 other rows in the second, expected the same rows in the same order"),
        (one, one, "got one score twice"),
        (one, 3.0, "invalid score: got float"),
    ]:
        with pytest.raises(ValueError, match=sentence):
            annealed.compare_scores(first, second)


def test_both_directions_join(run):
    both = run.reverse("exact")
    assert both.is_exact and both.overlap > 0.9 and abs(both.gap) < 0.1
    assert abs(both.log_z - enumerated()) < 4 * both.standard_error < 4 * run.standard_error
    assert (both.forward_log_weights == run.log_weights).all() and both.reverse_log_weights.shape == (512,)
    for samples in ["resampled", run.states[:300]]:
        assert not run.reverse(samples).is_exact


def test_pictures_are_files(run, tmp_path):
    run.plot(tmp_path / "run.svg")
    run.reverse("exact").plot(str(tmp_path / "both.svg"))
    assert all("<svg" in (tmp_path / name).read_text() for name in ["run.svg", "both.svg"])
    with pytest.raises(OSError, match="no folder"):
        run.plot(tmp_path / "none" / "run.svg")


def test_results_pickle(run):
    again = pickle.loads(pickle.dumps(run))
    assert str(again) == str(run) and (again.states == run.states).all() and again.exact() == run.exact()
    assert again.reverse("exact").log_z == run.reverse("exact").log_z
    both = run.reverse("exact")
    assert str(pickle.loads(pickle.dumps(both))) == str(both)
    with pytest.raises(ValueError, match="before it is pickled"):
        pickle.loads(pickle.dumps(both)).plot("both.svg")


def test_any_number_of_threads_has_the_same_bits(run):
    for threads in [1, 3]:
        assert (annealed.rbm(W, a, b, seed=1, threads=threads, **QUICK).log_weights == run.log_weights).all()
    assert annealed.rbm(W, a, b, seed=2, **QUICK).log_z != run.log_z


class Tensor:
    """What of a tensor of PyTorch counts: NumPy reads it after detach() and cpu() alone."""

    def __init__(self, values):
        self.values = values

    def detach(self):
        return self

    def cpu(self):
        return self.values


@pytest.mark.parametrize(
    "machine",
    [
        pytest.param((W.tolist(), a.tolist(), b.tolist()), id="lists"),
        pytest.param((W.T, a, b), id="visible by hidden"),
        pytest.param((np.asfortranarray(W), a[::-1][::-1], b), id="another layout"),
        pytest.param((W, a[:, None], b[None]), id="biases with an axis of length 1"),
        pytest.param(({"components_": W, "intercept_hidden_": a, "intercept_visible_": b},), id="names of scikit-learn"),
        pytest.param(({"weight": Tensor(W), "h_bias": Tensor(a), "v_bias": Tensor(b)},), id="tensors"),
    ],
)
def test_machines_come_in_many_forms(run, machine):
    assert annealed.rbm(*machine, seed=1, **QUICK).log_z == run.log_z


def test_single_precision_is_that_of_the_library(run):
    parameters = [x.astype(np.float32) for x in (W, a, b)]
    assert annealed.rbm(*parameters, seed=1, **QUICK).log_z == run.log_z
    integers = [np.rint(x).astype(np.int64) for x in (W, a, b)]
    floats = [x.astype(float) for x in integers]
    assert annealed.rbm(*integers, **QUICK).log_z == annealed.rbm(*floats, **QUICK).log_z


def test_square_weights_turn_on_demand():
    w, a, b = rng.normal(size=(5, 5)), rng.normal(size=5), rng.normal(size=5)
    turned = annealed.rbm(w.T, a, b, square_transposed=True, **QUICK)
    assert turned.log_z == annealed.rbm(w, a, b, **QUICK).log_z


def test_names_choose_among_tensors():
    state = {"w": W, "one": a, "other": b}
    with pytest.raises(ValueError, match="names.*'w', 'one', 'other'"):
        annealed.rbm(state, **QUICK)
    assert annealed.rbm(state, names=["w", "one", "other"], **QUICK).hidden_units == 4


def test_bases():
    rows = rng.integers(0, 2, size=(40, 7))
    for settings in [{"base": "uniform"}, {"base": "data-rate", "base_data": rows}, {"base_data": rows}]:
        run = annealed.rbm(W, a, b, **settings, **QUICK)
        assert abs(run.log_z - enumerated()) < 4 * run.standard_error, settings


NAN, SHORT = W.copy(), np.zeros(3)
NAN[1, 2] = np.nan


@pytest.mark.parametrize(
    ("arguments", "settings", "sentence"),
    [
        ((W, a, SHORT), {}, r"invalid W: got an array of shape \(4, 7\), expected \(4, 3\)"),
        ((W[0], a, b), {}, "invalid W: got an array of shape"),
        ((NAN, a, b), {}, r"invalid W: got nan at W\[1, 2\], expected finite numbers of single precision"),
        ((W * 1e39, a, b), {}, r"invalid W: got .* at W\[0, 0\], expected finite"),
        ((W, a, b * np.inf), {}, r"invalid b: got -?inf at b\[0\]"),
        ((W.astype(str), a, b), {}, "invalid W: got an array of <U"),
        ((W,), {}, "invalid a and b: got none"),
        (("rbm.npz",), {}, "invalid W: got 'rbm.npz', expected arrays"),
        (([[1, 2], [3]], a, b), {}, "invalid W: .*inhomogeneous"),
        ((W, a, W), {}, r"invalid b: got an array of shape \(4, 7\), expected one dimension"),
        ((W, a, b), {"names": ["W"]}, "expected none beside arrays"),
        ((W, a, b), {"chains": -1}, "invalid chains: got -1"),
        ((W, a, b), {"chains": 0}, "invalid chains: got 0, expected at least 1"),
        ((W, a, b), {"chains": 2.5}, "invalid chains: got 2.5, expected an integer"),
        ((W, a, b), {"stages": 0}, "invalid"),
        ((W, a, b), {"seed": -1}, "invalid seed: got -1"),
        ((W, a, b), {"threads": 0}, "invalid threads: got 0, expected at least 1"),
        ((W, a, b), {"engine": "sse"}, "invalid engine: got sse"),
        ((W, a, b), {"base": "data"}, "invalid base: got data"),
        ((W, a, b), {"base": "data-rate"}, "invalid base: got data-rate, expected base_data"),
        ((W, a, b), {"base_data": [[0, 1]]}, r"invalid base_data: got an array of shape \(1, 2\), expected \(rows, 7\)"),
        ((W, a, b), {"base_data": np.full((2, 7), 0.5)}, "invalid base_data: got 0.5, expected zeros and ones"),
        ((W, a, b), {"time_limit": -1}, "invalid time_limit: got -1"),
        ((W, a, b), {"until_error": 0}, "invalid until_error: got 0"),
        ((W, a, b), {"until_error": "small"}, "invalid until_error: got 'small', expected a number"),
    ],
)
def test_bad_input_is_named(arguments, settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        annealed.rbm(*arguments, **{**QUICK, **settings})


def test_large_weights_are_right_to_rounding():
    found = annealed.rbm(W * 1e5, a, b, chains=100, stages=100)
    hidden = np.array(list(itertools.product([0, 1], repeat=len(a))))
    large = (W * 1e5).astype(np.float32).astype(float)
    values = hidden @ a + np.logaddexp(0, hidden @ large + b).sum(axis=1)
    assert found.warning_names == ["Rounding"]
    assert abs(found.log_z - np.logaddexp.reduce(values)) < 4 * found.standard_error + 0.2


def test_scores_name_bad_rows(run):
    for rows, sentence in [(np.zeros((3, 6)), r"\(3, 6\), expected \(rows, 7\)"), (np.full((2, 7), 3), "got 3, expected zeros")]:
        with pytest.raises(ValueError, match=sentence):
            run.score(rows)
    assert "of 1 row:" in str(run.score(np.zeros((1, 7))))
    with pytest.raises(ValueError, match="exact, resampled or rows"):
        run.reverse("backward")


def test_large_machines_have_no_exact_sum():
    units = np.zeros(26)
    machine = annealed.rbm(np.zeros((26, 26)), units, units, chains=200, stages=10)
    with pytest.raises(ValueError, match="25"):
        machine.exact()


def test_the_example_of_the_docstring():
    import annealed._rbm

    assert doctest.testmod(annealed._rbm).failed == 0
