"""Free-energy differences from the work done in both directions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Optional

import numpy as np

from ._annealed import free_energy as _free_energy
from ._arrays import floats, number, refuse


@dataclass(frozen=True)
class FreeEnergy:
    """A free-energy difference, in the unit of the works."""

    #: The difference dF, that of the second end less that of the first.
    delta_f: float
    #: Standard error of `delta_f`.
    standard_error: float
    #: The 95% interval of dF, (lower, upper).
    interval: tuple[float, float]
    #: Overlap of the histograms of W and -W': 1 where they are one, 0 where they are disjoint.
    overlap: float
    #: Effective sample size of the acceptances, the smaller one of both directions.
    effective_sample_size: float
    #: Reasons to doubt the result, a sentence each.
    warnings: list[str] = field(default_factory=list)
    #: The names of `warnings`.
    warning_names: list[str] = field(default_factory=list)
    #: Unit of dF, its error and its interval: kT, kJ/mol or kcal/mol.
    unit: str = "kT"
    #: The estimator: Bennett, or MBAR of many states.
    method: str = "Bennett"

    def __repr__(self) -> str:
        digits, (lower, upper) = decimals(self.standard_error), self.interval
        error = f"{self.standard_error:.{digits}f}" if np.isfinite(self.standard_error) else "unknown"
        overlap = "" if np.isnan(self.overlap) else f"overlap {self.overlap:.2f}, "
        return (
            f"dF = {self.delta_f:.{digits}f} +- {error} ({self.unit}, {self.method}; 95% interval {lower:.{digits}f} to "
            f"{upper:.{digits}f}, {overlap}ESS {self.effective_sample_size:.0f})"
        )

    def __str__(self) -> str:
        return "\n".join([repr(self), *(f"warning: {warning}" for warning in self.warnings)])


def decimals(error: float) -> int:
    """Returns the decimals of a figure: three, or two digits of an error below 0.001."""
    return max(3, len(f"{error:.20f}".split(".")[1]) - len(f"{error:.20f}".split(".")[1].lstrip("0")) + 2) if 0 < error < 1e-3 else 3


def free_energy(
    forward: Any, reverse: Any, *, unit: str = "kT", temperature: Optional[float] = None
) -> FreeEnergy:
    """Estimates a free-energy difference by Bennett's acceptance ratio, from the work in both directions.

    Parameters
    ----------
    forward : array (n,), the work W of each process from the first end to the second
    reverse : array (m,), the work W' of each process from the second end to the first, with the sign measured in it
    unit : the works' unit, "kT", "kJ/mol" or "kcal/mol"; the result has the same
    temperature : in kelvin, for kJ/mol and kcal/mol

    Signs are those of `pymbar.bar(w_F, w_R)`, whose "Delta_f" is `delta_f` here:
    over kT, mean of exp(-W) = exp(-dF), mean of exp(-W') = exp(dF), and mean W >= dF >= -(mean W'). Works that exclude one
    another, by other units, an offset or a sign in one direction, get the warning `ForwardReverseGap`. For instantaneous switches W is
    u_1(x) - u_0(x) at states of the first end, W' is u_0(x) - u_1(x) at states of the second. A work of +inf is a state that
    the other end excludes. Give works in the order in which they were computed, one chain after the other: if successive works
    are clearly correlated, the error allows for this, and the warning `Autocorrelated` appears.

    Raises
    ------
    ValueError
        for fewer than two works in a direction, a NaN or a work of -inf, works given twice, a unit without its temperature
    """
    works = _works("forward", forward), _works("reverse", reverse)
    if not isinstance(unit, str):
        raise ValueError(f'invalid unit: got {unit!r}, expected "kT", "kJ/mol" or "kcal/mol"')
    kelvin = None if temperature is None else number("temperature", temperature)
    value, error, interval, overlap, size, doubts = _free_energy(*works, unit, kelvin)
    warnings, names = [text for _, text in doubts], [name for name, _ in doubts]
    return FreeEnergy(value, error, interval, overlap, size, warnings, names, unit)


def _works(name: str, works: Any) -> np.ndarray:
    """Returns works, (n,), none of which is NaN or -inf."""
    array = floats(name, works, 1)
    refuse(name, array, ~(array > -np.inf), "a number or +inf")
    if array.size and np.isinf(array).all():
        raise ValueError(f"invalid {name}: got +inf for each work, expected finite ones: no process reached the other end")
    return array
