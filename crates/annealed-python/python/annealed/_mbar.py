"""Free energies of many states from draws of them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Optional, Sequence

import numpy as np

from ._annealed import States as _States
from ._annealed import mbar as _mbar
from ._arrays import floats, integer, named_array, refuse
from ._free_energy import FreeEnergy, decimals

#: End of the names of alchemlyb's levels with the state that a row was drawn from.
LAMBDA = "-lambda"
#: Number of independent draws below which a further state has a warning.
FEW = 100
#: Least number of different times of replicas.
TIMES = 20


@dataclass(frozen=True, eq=False)
class StateEnergies:
    """Free energies of K states over kT, up to a common constant."""

    #: Free energy of each state less that of the first one, (K,); pymbar's f_k less f_0.
    free_energies: np.ndarray
    #: Free energy of state j (column) less that of state i (row), (K, K); pymbar's "Delta_f".
    delta_f: np.ndarray
    #: Standard errors of `delta_f`, (K, K); pymbar's "dDelta_f".
    standard_errors: np.ndarray
    #: The probability that a draw weighted for state i (row) came from state j (column), (K, K); as pymbar's compute_overlap()["matrix"].
    overlap: np.ndarray
    #: Number of draws of each state, (K,).
    counts: np.ndarray
    #: Number of independent draws of each state that all draws are worth, (K,).
    effective_draws: np.ndarray
    #: Autocorrelation time of the draws of each state, (K,); 1 for independent draws.
    autocorrelation_times: np.ndarray
    #: Reasons to doubt the result, a sentence each.
    warnings: list[str]
    #: The names of `warnings`.
    warning_names: list[str]
    _states: _States

    def difference(self, i: int, j: int) -> FreeEnergy:
        """Returns the free energy of state j less that of state i, with its interval and the warnings that concern it."""
        count = len(self.counts)
        i, j = (integer(name, state, 0, count - 1) for name, state in (("i", i), ("j", j)))
        return _energy(self._states.difference(j, i), float(self.overlap[i, j]), float(min(self.effective_draws[[i, j]])))

    def at(self, u_n: Any) -> FreeEnergy:
        """Returns the free energy of a further state less that of state 0, from its reduced potential at each draw, (N,)."""
        (log_z, error, interval, doubts), log_weights = self._states.at(self._further(u_n))
        effective = _effective(log_weights)
        doubts = [*doubts, *_few_draws(effective)]
        return _energy((log_z, error, interval, doubts), float("nan"), effective)

    def weights_at(self, u_n: Any) -> np.ndarray:
        """Returns the weights of all draws at a further state, (N,), which sum to 1."""
        _, log_weights = self._states.at(self._further(u_n))
        return np.exp(log_weights - _log_sum(log_weights))

    def mean(self, values: Any, u_n: Any) -> tuple[float, float]:
        """Returns the mean of `values`, one for each draw (N,), at a further state, and its standard error. A state of the table
        is given by its row of u_kn. Warns if few draws belong to this state."""
        array, further = floats("values", values, 1), self._further(u_n)
        refuse("values", array, ~np.isfinite(array), "finite numbers")
        for _, text in _few_draws(_effective(self._states.at(further)[1])):
            warnings.warn(text, stacklevel=2)
        return self._states.mean(further, array)

    @staticmethod
    def _further(u_n: Any) -> np.ndarray:
        array = floats("u_n", u_n, 1)
        refuse("u_n", array, ~(array > -np.inf), "a number or +inf")
        return -array

    def __repr__(self) -> str:
        return "\n".join([f"{len(self.counts)} states, {self.counts.sum()} draws; free energies in kT, less that of state 0", *self._lines()])

    def _lines(self) -> list[str]:
        lines = ["state     draws  effective  free energy         overlap with next"]
        for state, (f, error) in enumerate(zip(self.free_energies, self.standard_errors[0])):
            digits = decimals(error)
            value = f"{f:.{digits}f} +- {error:.{digits}f}"
            last = state + 1 == len(self.counts)
            # A state without draws has no column in the matrix.
            overlap = "" if last or 0 in self.counts[state : state + 2] else f"{self.overlap[state, state + 1]:.3f}"
            lines.append(f"{state:>5}  {self.counts[state]:>8}  {self.effective_draws[state]:>9.0f}  {value:<18}  {overlap}".rstrip())
        return lines

    def __str__(self) -> str:
        return "\n".join([repr(self), *(f"warning: {warning}" for warning in self.warnings)])


def _energy(found: Any, overlap: float, effective: float) -> FreeEnergy:
    log_z, error, (lower, upper), doubts = found
    return FreeEnergy(-log_z, error, (-upper, -lower), overlap, effective, [text for _, text in doubts], [name for name, _ in doubts])


def _log_sum(x: np.ndarray) -> float:
    most = x.max()
    return float(most + np.log(np.exp(x - most).sum()))


def _effective(log_weights: np.ndarray) -> float:
    """Returns the number of equal weights that have the same variance of a mean."""
    return float(np.exp(2 * _log_sum(log_weights) - _log_sum(2 * log_weights)))


def _few_draws(effective: float) -> list[tuple[str, str]]:
    """Returns name and sentence of a warning if a further state has few draws."""
    if effective >= FEW:
        return []
    text = (
        f"the draws, weighted for this state, are worth about {effective:.0f} independent ones, too few to judge the error, which may "
        "be far too small: add draws of this state, or of states nearer to it"
    )
    return [("FewDraws", text)]


def mbar(u_kn: Any, N_k: Optional[Sequence[int]] = None, *, draws: str = "chains", times: Optional[Sequence[int]] = None) -> StateEnergies:
    """Estimates the free energies of many states by the multistate Bennett acceptance ratio (MBAR).

    Parameters
    ----------
    u_kn : array (K, N), the reduced potential (over kT) of each of N draws under each of K states, draws sorted by state, as for
        `pymbar.MBAR`; +inf is a density of 0. Or alchemlyb's table u_nk, whose rows tell their state; then N_k is not given
    N_k : the number of draws of each state, (K,); 0 for a state without draws
    draws : how draws depend. "chains": those of a state are one chain, in the order of the array; "independent"; "replicas": draws of
        all states at near times depend on each other, as in replica exchange
    times : the time of each draw, (N,), whole numbers, for replicas; alchemlyb's table has them

    Errors are those of autocorrelated draws. Groups of states that hardly overlap get a warning (`LittleOverlap`), and the
    intervals of differences between them contain what each group says alone.

    Raises
    ------
    ValueError
        for counts that do not sum to N, a transposed array, a NaN or -inf, states that no draws connect, times of draws that are no
        replicas
    """
    if times is not None and draws != "replicas":
        raise ValueError(f"invalid times: got times beside draws={draws!r}, expected draws=\"replicas\": others have no use for them")
    if hasattr(u_kn, "columns") and hasattr(u_kn, "index"):
        if N_k is not None:
            raise ValueError("invalid N_k: expected none beside a table whose rows tell their state")
        array, labels, own = _alchemlyb(u_kn)
        times = own if times is None else times
    else:
        array, labels = _sorted(u_kn, N_k)
    bad = np.argwhere(~(array > -np.inf))
    for n, k in bad[:1]:
        raise ValueError(f"invalid u_kn: got {array[n, k]} for draw {n} at state {k}, expected a number or +inf")
    if times is not None:
        found = named_array("times", times)
        if found.shape != (len(array),):
            raise ValueError(f"invalid times: got an array of shape {found.shape}, expected ({len(array)},)")
        refuse("times", found, (found != found) if found.dtype.kind in "iufmM" else np.full(found.shape, True), "numbers")
        different, found = np.unique(found, return_inverse=True)
        if draws == "replicas" and len(different) < TIMES:
            raise ValueError(f"invalid times: got {len(different)} different ones, expected at least {TIMES}")
        times = found.tolist()
    states = _mbar(np.ascontiguousarray(-array), labels, str(draws), times)
    values, errors = states.differences()
    effective, tau = (np.array(x) for x in states.draws())
    doubts = states.doubts()
    return StateEnergies(
        free_energies=values[0].copy(),
        delta_f=values,  # log Z_i - log Z_j = F_j - F_i
        standard_errors=errors,
        overlap=states.overlap(),
        counts=np.bincount(labels, minlength=array.shape[1]),
        effective_draws=effective,
        autocorrelation_times=tau,
        warnings=[text for _, text in doubts],
        warning_names=[name for name, _ in doubts],
        _states=states,
    )


def _sorted(u_kn: Any, N_k: Optional[Sequence[int]]) -> tuple[np.ndarray, list[int]]:
    """Returns u_nk, a row for each draw, and the state of each draw, of draws that are sorted by state."""
    array = floats("u_kn", u_kn, 2)
    if N_k is None:
        raise ValueError("invalid N_k: got None, expected the number of draws of each state, (K,)")
    counts = [integer("N_k", count) for count in np.atleast_1d(named_array("N_k", N_k)).tolist()]
    if (len(counts), sum(counts)) != array.shape:
        turned = ": pass u_kn.T" if (sum(counts), len(counts)) == array.shape else ""
        raise ValueError(
            f"invalid u_kn: got the shape {array.shape}, expected ({len(counts)}, {sum(counts)}), a row for each state of N_k and a "
            f"column for each draw{turned}"
        )
    return array.T, np.repeat(np.arange(len(counts)), counts).tolist()


def _alchemlyb(table: Any) -> tuple[np.ndarray, list[int], Optional[np.ndarray]]:
    """Returns u_nk, the state of each row and its time, of a table as alchemlyb's extract_u_nk returns it."""
    unit = getattr(table, "attrs", {}).get("energy_unit") or "kT"
    if unit != "kT":
        raise ValueError(f"invalid u_nk: got the unit {unit}, expected kT: alchemlyb.postprocessing.units.to_kT(u_nk)")
    levels = [name for name in table.index.names if str(name).endswith(LAMBDA)]
    if not levels:
        raise ValueError(f"invalid u_nk: got the index {list(table.index.names)}, expected levels such as fep-lambda with each row's state")
    states = [tuple(np.atleast_1d(state).tolist()) for state in table.columns]
    for state in states:
        if states.count(state) > 1:
            raise ValueError(f"invalid u_nk: got {states.count(state)} columns of the state {state}, expected one")
    of_row = zip(*(table.index.get_level_values(name).tolist() for name in levels))
    place = {state: k for k, state in enumerate(states)}
    labels = []
    for row, state in enumerate(of_row):
        if state not in place:
            raise ValueError(f"invalid u_nk: got the state {state} of row {row}, expected one of the columns {states}")
        labels.append(place[state])
    times = np.asarray(table.index.get_level_values("time")) if "time" in table.index.names else None
    return floats("u_nk", table.to_numpy(), 2), labels, times
