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
    #: The states: the columns of alchemlyb's table, or their indices. Warnings name states by their indices.
    states: list[Any]
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
        return _energy(self._states.difference(j, i), self._states.overlap_of(i, j), float(min(self.effective_draws[[i, j]])))

    def at(self, u_n: Any) -> FreeEnergy:
        """Returns the free energy of a further state less that of state 0, from its reduced potential at each draw, (N,)."""
        found, effective, _ = self._states.at(self._further(u_n))
        return _energy(found, float("nan"), effective)

    def weights_at(self, u_n: Any) -> np.ndarray:
        """Returns the weights of all draws at a further state, (N,), which sum to 1."""
        log_weights = self._states.at(self._further(u_n))[-1]
        weights: np.ndarray = np.exp(log_weights - log_weights.max())
        weights /= weights.sum()
        return weights

    def mean(self, values: Any, u_n: Any) -> tuple[float, float]:
        """Returns the mean of `values`, one for each draw (N,), at a further state, and its standard error. A state of the table
        is given by its row of u_kn. The warnings of this state are issued."""
        array, further = floats("values", values, 1), self._further(u_n)
        refuse("values", array, ~np.isfinite(array), "finite numbers")
        mean, doubts = self._states.mean(further, array)
        for _, text in doubts:
            warnings.warn(text, stacklevel=2)
        return mean

    def profile(self, values: Any, u_n: Any, edges: Any) -> tuple[np.ndarray, np.ndarray]:
        """Returns the free energy in kT of each bin of a coordinate, (B,), less that of the lowest bin, and its standard errors.
        `values` are the coordinate of each draw, (N,), `u_n` is the reduced potential of the state, `edges` are those of the bins,
        (B + 1,), as for `np.histogram`. A bin without draws has inf, with the error nan. The warnings of the bins are issued."""
        coordinate, further, sides = floats("values", values, 1), self._further(u_n), floats("edges", edges, 1)
        bins = self._states.profile(further, coordinate, sides)
        for place, (_, _, doubts) in enumerate(bins):
            for _, text in doubts:
                warnings.warn(f"bin {place}: {text}", stacklevel=2)
        f, errors = np.array([bin[:2] for bin in bins]).T
        return f, errors

    @staticmethod
    def _further(u_n: Any) -> np.ndarray:
        array = floats("u_n", u_n, 1)
        refuse("u_n", array, ~(array > -np.inf), "a number or +inf")
        return -array

    def __repr__(self) -> str:
        return "\n".join([f"{len(self.counts)} states, {self.counts.sum()} draws; free energies in kT, less that of state 0", *self._lines()])

    def _lines(self) -> list[str]:
        names = [str(state) for state in self.states]
        width = max(5, *map(len, names))
        lines = [f"index  {'state':<{width}}     draws  effective  free energy         overlap with next"]
        for state, (f, error) in enumerate(zip(self.free_energies, self.standard_errors[0])):
            digits = decimals(error)
            value = f"{f:.{digits}f} +- {error:.{digits}f}"
            overlap = "" if state + 1 == len(names) else f"{self._states.overlap_of(state, state + 1):.3f}"
            lines.append(f"{state:>5}  {names[state]:<{width}}  {self.counts[state]:>8}  {self.effective_draws[state]:>9.0f}  {value:<18}  {overlap}".rstrip())
        return lines

    def __str__(self) -> str:
        return "\n".join([repr(self), *(f"warning: {warning}" for warning in self.warnings)])


def _energy(found: Any, overlap: float, effective: float) -> FreeEnergy:
    log_z, error, (lower, upper), doubts = found
    texts, names = [text for _, text in doubts], [name for name, _ in doubts]
    return FreeEnergy(-log_z, error, (-upper, -lower), overlap, effective, texts, names, method="MBAR")


def mbar(u_kn: Any, N_k: Optional[Sequence[int]] = None, *, draws: str = "chains", times: Optional[Sequence[float]] = None) -> StateEnergies:
    """Estimates the free energies of many states by the multistate Bennett acceptance ratio (MBAR).

    Parameters
    ----------
    u_kn : array (K, N), the reduced potential (over kT) of each of N draws under each of K states, draws sorted by state, as for
        `pymbar.MBAR`; +inf is a density of 0. Or alchemlyb's table u_nk, whose rows tell their state, or a list of such tables;
        then N_k is not given
    N_k : the number of draws of each state, (K,); 0 for a state without draws
    draws : how draws depend. "chains": those of a state are one chain, in the order of the array; "independent"; "replicas": draws of
        all states at near times depend on each other, as in replica exchange
    times : the time of each draw, (N,), for replicas; alchemlyb's table has them

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
    at: Any = times
    if isinstance(u_kn, (list, tuple)) and u_kn and all(_is_table(table) for table in u_kn):
        u_kn = _joined(u_kn)
    if _is_table(u_kn):
        if N_k is not None:
            raise ValueError("invalid N_k: expected none beside a table whose rows tell their state")
        array, labels, own = _alchemlyb(u_kn)
        states, at = _states_of(u_kn), own if times is None else times
    else:
        array, labels = _sorted(u_kn, N_k)
        states = list(range(array.shape[1]))
    bad = np.argwhere(~(array > -np.inf))
    for n, k in bad[:1]:
        raise ValueError(f"invalid u_kn: got {array[n, k]} for draw {n} at state {k}, expected a number or +inf")
    if at is not None:
        found = named_array("times", at)
        if found.shape != (len(array),):
            raise ValueError(f"invalid times: got an array of shape {found.shape}, expected ({len(array)},)")
        if found.dtype.kind in "mM":
            found = found.astype(np.int64)
        refuse("times", found, (found != found) if found.dtype.kind in "iuf" else np.full(found.shape, True), "numbers")
        at = found.astype(float).tolist()
    made = _mbar(np.ascontiguousarray(-array), labels, str(draws), at)
    values, errors = made.differences()
    effective, tau = (np.array(x) for x in made.draws())
    doubts = made.doubts()
    return StateEnergies(
        free_energies=values[0].copy(),
        delta_f=values,  # log Z_i - log Z_j = F_j - F_i
        standard_errors=errors,
        overlap=made.overlap(),
        states=states,
        counts=np.bincount(labels, minlength=array.shape[1]),
        effective_draws=effective,
        autocorrelation_times=tau,
        warnings=[text for _, text in doubts],
        warning_names=[name for name, _ in doubts],
        _states=made,
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


def _is_table(table: Any) -> bool:
    return hasattr(table, "columns") and hasattr(table, "index") and hasattr(table, "to_numpy")


def _joined(tables: Sequence[Any]) -> Any:
    """Returns the rows of alchemlyb's tables in one table, as alchemlyb.concat."""
    import pandas  # type: ignore[import-untyped,unused-ignore]

    attributes = [dict(table.attrs) for table in tables]
    for place, (table, own) in enumerate(zip(tables, attributes)):
        if set(_states_of(table)) != set(_states_of(tables[0])) or own != attributes[0]:
            raise ValueError(f"invalid u_nk: table {place} has other states (columns), or other units, than table 0")
    joined = pandas.concat(list(tables))
    joined.attrs = attributes[0]
    return joined


def _states_of(table: Any) -> list[Any]:
    """Returns the states of alchemlyb's table as they are: numbers, or tuples of numbers."""
    return [state.item() if hasattr(state, "item") else state for state in table.columns]


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
