"""Log Z from draws of another sampler."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable, Optional, Sequence

import numpy as np

from ._annealed import BridgeSampling, NonFinite, prior_draws
from ._annealed import bridge_sampling as _bridge_sampling
from ._arrays import BatchFunction, array_of, floats, seed_of
from ._priors import PriorLike, pairs, parameter_names
from ._progress import shown


def from_draws(
    draws: Any,
    log_density: Optional[Callable[[np.ndarray], Any]] = None,
    *,
    prior: Optional[PriorLike] = None,
    log_likelihood: Optional[Callable[[np.ndarray], Any]] = None,
    names: Optional[Sequence[str]] = None,
    law: str = "student_t",
    seed: int = 0,
    progress: Any = None,
) -> BridgeSampling:
    """Estimates log Z from draws of a posterior and its density, by bridge sampling (Meng and Wong 1996).

    It does not count modes that no draw visited, and cannot see that they are missing.

    Parameters
    ----------
    draws : array (chains, draws, d), or (draws, d) of one chain, in the order in which they were drawn and without warm-up; 20
        or more a chain. Or InferenceData of ArviZ, PyMC or nutpie; or a dict of arrays (chains, draws, ..) by name
    log_density : function of an array (n, d), n draws at once, that returns n log densities with all constants. **Draws and
        density are those of coordinates without bounds**: take the logarithm of a scale sigma, and add the logarithm of the
        Jacobian, here log sigma, to the density. Without it log Z is wrong, and a warning need not appear
    prior, log_likelihood : in the place of log_density, as those of `annealed.evidence`. Then draws are the parameters
        themselves, within their bounds, in the order of the prior, and the library adds prior and Jacobian
    names : the variables of InferenceData or a dict that are parameters; those of the prior, or else all
    law : the law fitted to the draws: "student_t", "gaussian", or "mixture" of Gaussians for several modes
    seed : one seed gives the same bits
    progress : as of `annealed.evidence`

    Returns
    -------
    BridgeSampling, with `log_z`, `standard_error`, `interval`, `warnings`, `overlap`, `effective_draws`

    Raises
    ------
    ValueError
        for too few draws, a draw outside of its bounds or at which the density is not finite, a wrong shape
    whatever your function raises
        as it was raised
    """
    others = [name for name, x in (("prior", prior), ("log_likelihood", log_likelihood)) if x is not None]
    if len(others) != (2 if log_density is None else 0):
        got = " and ".join([*(["log_density"] if log_density is not None else []), *others]) or "neither"
        raise ValueError(f"got {got}: give one or the other, log_density alone, or prior and log_likelihood")
    named = None if prior is None else pairs(prior)
    if names is None and named is not None:
        names = _variables(named)
    array = _finite(_chains(draws, names))
    if named is None:
        function = BatchFunction("log_density", log_density)
    else:
        function = BatchFunction("log_likelihood", log_likelihood, parameters=parameter_names(named))
    function(array[0, :2].copy() if named is None else prior_draws(named, 2, 0))  # A wrong shape shows before the run.
    with shown(progress) as show:
        try:
            return _bridge_sampling(
                array, function, priors=named, law=law, epsilon=function.epsilon, seed=seed_of(seed), progress=show
            )
        except ValueError as error:
            # Weights of the law's own draws, the only others at which the density counts.
            if isinstance(error, NonFinite) or str(error).startswith("invalid log_weights"):
                raise function.named(error) from None
            raise


def _variables(named: Sequence[tuple[str, Any]]) -> Sequence[str]:
    return [name for name, _ in named]


def _chains(draws: Any, names: Optional[Sequence[str]]) -> np.ndarray:
    """Returns an array (chains, draws, d)."""
    posterior = getattr(draws, "posterior", draws)
    variables = getattr(posterior, "data_vars", posterior)
    if not isinstance(variables, Mapping):
        array = floats("draws", draws, 2, 3)
        return array if array.ndim == 3 else array[None]
    missing = [name for name in names or () if name not in variables]
    if missing:
        raise ValueError(f"invalid draws: got {tuple(variables)}, expected {missing[0]} among them")
    columns = [_column(str(name), variables[name]) for name in (variables if names is None else names)]
    if not columns:
        raise ValueError("invalid draws: got no variables")
    if len({column.shape[:2] for column in columns}) > 1:
        raise ValueError(f"invalid draws: got shapes {[column.shape for column in columns]}, expected the same chains and draws")
    return np.ascontiguousarray(np.concatenate(columns, axis=2))


def _finite(draws: np.ndarray) -> np.ndarray:
    """Refuses a NaN or an infinity."""
    for chain, draw, coordinate in np.argwhere(~np.isfinite(draws)):
        found = draws[chain, draw, coordinate]
        raise ValueError(f"invalid draws: got {found} at draw {draw} of chain {chain}, expected finite numbers")
    return draws


def _column(name: str, values: Any) -> np.ndarray:
    array = array_of(getattr(values, "values", values))
    if array.ndim < 2:
        array = array[None]
    array = floats(f"draws of {name}", array, *range(2, 9))
    return array.reshape(*array.shape[:2], -1)
