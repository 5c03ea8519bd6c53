"""Free energies of many states: harmonic oscillators with closed forms, in the forms that tables come in."""

import math
import pickle
import warnings

import annealed
import numpy as np
import pytest

rng = np.random.default_rng(11)
SPRINGS, COUNTS = np.array([1.0, 2.0, 4.0, 8.0]), [400, 400, 300, 0]
CENTRES = np.array([0.0, 0.3, 0.6, 0.9])
#: F = log k / 2 less the common log(2 pi) / 2.
EXACT = 0.5 * np.log(SPRINGS)
X = np.concatenate([rng.normal(c, k**-0.5, n) for c, k, n in zip(CENTRES, SPRINGS, COUNTS)])


def potentials(x, springs=SPRINGS, centres=CENTRES):
    return 0.5 * np.atleast_1d(springs)[:, None] * (x - np.atleast_1d(centres)[:, None]) ** 2


U_KN = potentials(X)


def test_oscillators_have_their_free_energies():
    found = annealed.mbar(U_KN, COUNTS, draws="independent")
    errors = found.standard_errors[0, 1:]
    assert (errors < 0.15).all() and (errors > 0).all()
    assert (abs(found.free_energies[1:] - (EXACT - EXACT[0])[1:]) < 4 * errors).all()
    assert found.delta_f == pytest.approx(found.free_energies[None, :] - found.free_energies[:, None])
    assert found.overlap.sum(axis=1) == pytest.approx(np.ones(4)) and found.counts.tolist() == COUNTS
    ends = found.difference(0, 2)
    assert ends.delta_f == pytest.approx(found.delta_f[0, 2]) and ends.interval[0] < ends.delta_f < ends.interval[1]
    assert "4 states, 1100 draws" in str(found)
    assert str(pickle.loads(pickle.dumps(found))) == str(found)


def test_copies_of_each_draw_are_refused():
    copied, counts = np.repeat(U_KN, 7, axis=1), [7 * n for n in COUNTS]
    with pytest.raises(ValueError, match="state 0, which has each draw 7 times in a row"):
        annealed.mbar(copied, counts, draws="independent")
    # Those of a chain that rejects moves are correlated draws.
    once, chains = annealed.mbar(U_KN, COUNTS, draws="independent"), annealed.mbar(copied, counts)
    assert (chains.standard_errors[0, 1:] > 0.8 * once.standard_errors[0, 1:]).all()


def test_few_draws_that_overlap_are_no_gap():
    x = np.array([-0.5, 0.1, 0.7, -0.2, 0.4, 0.0])
    found = annealed.mbar(potentials(x, [1.0, 1.2], [0.0, 0.1]), [3, 3], draws="independent")
    assert "LittleOverlap" in found.warning_names and "hardly overlap" not in str(found)


def test_a_state_between_and_means():
    found = annealed.mbar(U_KN, COUNTS, draws="independent")
    u_n = potentials(X, 3.0, 0.45)[0]
    between = found.at(u_n)
    assert 0 < between.standard_error < 0.1
    assert abs(between.delta_f - 0.5 * np.log(3.0)) < 4 * between.standard_error
    assert found.weights_at(u_n).sum() == pytest.approx(1)
    mean, error = found.mean(X, u_n)
    assert 0 < error < 0.05 and abs(mean - 0.45) < 4 * error


def test_a_profile_of_a_spring():
    found = annealed.mbar(U_KN, COUNTS, draws="independent")
    u_n = potentials(X, 3.0, 0.45)[0]
    edges = np.array([-9.0, -0.25, 0.25, 0.75, 1.25])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f, errors = found.profile(X, u_n, edges)
    below = np.vectorize(lambda x: 0.5 * math.erf((x - 0.45) * math.sqrt(1.5)))(edges)
    exact = -np.log(np.diff(below))
    lowest = f.argmin()
    assert lowest == 2 and (f[2], errors[2]) == (0, 0)
    others = np.delete(np.arange(4), 2)
    assert (0 < errors[others]).all() and (errors[others] < 0.2).all()
    assert (abs(f - exact + exact[2])[others] < 4 * errors[others]).all()
    with pytest.warns(UserWarning, match="bin 1: .*worth about"):
        f, errors = found.profile(X, u_n, [-9, 0.3, 0.301, 9, 10])
    assert f[3] == np.inf and np.isnan(errors[3])
    with pytest.raises(ValueError, match="invalid edges"):
        found.profile(X, u_n, [1, 0])


def test_a_state_far_from_all_draws_warns():
    found = annealed.mbar(U_KN, COUNTS)
    u_n = potentials(X, 0.01, 0.0)[0]
    assert found.at(u_n).warning_names == ["FewWeightedDraws"] and found.at(u_n).effective_sample_size < 100
    with pytest.warns(UserWarning, match="worth about .* independent ones"):
        found.mean(X, u_n)


class Index:
    def __init__(self, **levels):
        self.names, self.levels = list(levels), levels

    def get_level_values(self, name):
        return np.asarray(self.levels[name])


class Table:
    """What is read of alchemlyb's DataFrame."""

    def __init__(self, columns, index, values, unit="kT"):
        self.columns, self.index, self.values, self.attrs = columns, index, values, {"energy_unit": unit}

    def to_numpy(self):
        return self.values


def test_tables_of_alchemlyb():
    found = annealed.mbar(U_KN, COUNTS)
    labels = np.repeat([0.0, 0.25, 0.5, 1.0], COUNTS)
    index = Index(**{"time": np.arange(len(X)), "fep-lambda": labels})
    table = Table([0.0, 0.25, 0.5, 1.0], index, U_KN.T)
    assert (annealed.mbar(table).free_energies == found.free_energies).all()
    assert annealed.mbar(table).states == [0.0, 0.25, 0.5, 1.0] and "    1  0.25 " in str(annealed.mbar(table))
    pairs = Index(**{"time": np.arange(len(X)), "coul-lambda": labels, "vdw-lambda": 2 * labels})
    table = Table([(x, 2 * x) for x in [0.0, 0.25, 0.5, 1.0]], pairs, U_KN.T)
    assert (annealed.mbar(table).free_energies == found.free_energies).all()
    with pytest.raises(ValueError, match="got the unit kJ/mol, expected kT"):
        annealed.mbar(Table([0.0, 1.0], index, U_KN.T, "kJ/mol"))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: annealed.mbar(U_KN.T, COUNTS), r"pass u_kn.T"),
        (lambda: annealed.mbar(U_KN), "invalid N_k: got None"),
        (lambda: annealed.mbar(U_KN, [400, 400, 400, 0]), r"expected \(4, 1200\)"),
        (lambda: annealed.mbar(np.where(U_KN > 3, np.nan, U_KN), COUNTS), "invalid u_kn: got nan for draw"),
        (lambda: annealed.mbar(U_KN, COUNTS, draws="replicas"), "invalid times: got None"),
        (lambda: annealed.mbar(U_KN, COUNTS, draws="some"), "expected independent, chains or replicas"),
        (lambda: annealed.mbar(U_KN, COUNTS, times=np.arange(len(X))), 'got times beside draws=\'chains\', expected draws="replicas"'),
        (lambda: annealed.mbar(U_KN, COUNTS, draws="replicas", times=np.full(len(X), np.nan)), "invalid times: got nan"),
        (lambda: annealed.mbar(U_KN, COUNTS, draws="replicas", times=["a"] * len(X)), "invalid times"),
        (lambda: annealed.mbar(U_KN, COUNTS, draws="replicas", times=np.zeros(len(X))), "different times of replicas: got 1, expected at least 20"),
    ],
)
def test_bad_input_is_named(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()


def test_states_that_do_not_overlap_warn():
    centres = np.array([0.0, 40.0])
    x = np.concatenate([rng.normal(c, 1, 200) for c in centres])
    found = annealed.mbar(potentials(x, np.ones(2), centres), [200, 200], draws="independent")
    assert "LittleOverlap" in found.warning_names and found.standard_errors[0, 1] > 100


def test_a_list_of_tables():
    pandas = pytest.importorskip("pandas")
    found = annealed.mbar(U_KN[:3], COUNTS[:3])
    states, tables = [(0.0, 0.0), (0.5, 0.0), (1.0, 1.0)], []
    for state, rows in zip(states, np.split(U_KN[:3].T, np.cumsum(COUNTS[:2]))):
        levels = [(time, *state) for time in range(len(rows))]
        index = pandas.MultiIndex.from_tuples(levels, names=["time", "coul-lambda", "vdw-lambda"])
        table = pandas.DataFrame(rows, columns=pandas.Index(states, tupleize_cols=False), index=index)
        tables.append(table)
    # The columns of a table in another order.
    tables[1] = tables[1][tables[1].columns[::-1]]
    joined = annealed.mbar(tables)
    assert (joined.free_energies == found.free_energies).all() and joined.states == states
    tables[1].attrs["energy_unit"] = "kcal/mol"
    with pytest.raises(ValueError, match="table 1 has other states"):
        annealed.mbar(tables)
    mixed = tables[0].sample(frac=1, random_state=1)
    with pytest.raises(ValueError, match="in the order of time: sort them"):
        annealed.mbar([mixed, tables[2]])


@pytest.mark.parametrize("wrong", [-U_KN, U_KN[[2, 1, 0, 3]]])
def test_potentials_that_the_draws_contradict(wrong):
    found = annealed.mbar(wrong, COUNTS, draws="independent")
    assert "DrawsContradict" in found.warning_names and "DrawsContradict" in found.difference(0, 2).warning_names
    assert not annealed.mbar(U_KN, COUNTS, draws="independent").warnings


def test_the_overlap_of_a_pair_does_not_depend_on_counts():
    x = np.concatenate([rng.normal(0, 1, 10), rng.normal(0, 1, 1_000)])
    found = annealed.mbar(potentials(x, np.ones(2), np.zeros(2)), [10, 1_000], draws="independent")
    assert found.difference(0, 1).overlap == pytest.approx(1) and found.overlap[1, 0] == pytest.approx(10 / 1_010)
    assert 0 < found.standard_errors[0, 1] < 1e-5
