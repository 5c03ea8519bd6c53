"""Log Z from draws of another sampler."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable, Optional, Sequence, Union

import numpy as np

from ._annealed import BridgeSampling, NonFinite, prior_draws
from ._annealed import bridge_sampling as _bridge_sampling
from ._arrays import BatchFunction, seed_of
from ._priors import PriorLike, pairs, parameter_names
from ._progress import shown
from ._readers import divergences, doubts, read


def from_draws(
    draws: Any,
    log_density: Optional[Callable[[np.ndarray], Any]] = None,
    *,
    prior: Optional[PriorLike] = None,
    log_likelihood: Optional[Callable[[np.ndarray], Any]] = None,
    names: Union[Sequence[str], str, None] = None,
    law: str = "student_t",
    seed: int = 0,
    progress: Any = None,
) -> BridgeSampling:
    """Estimates log Z from draws of a posterior and its density, by bridge sampling (Meng and Wong 1996).

    It does not count modes that no draw visited, and cannot see that they are missing.

    Parameters
    ----------
    draws : array (chains, draws, d), or (draws, d) of one chain, in the order in which they were drawn and without warm-up; 20
        or more a chain, and no more chains than draws. Or a list of arrays (draws, d), one a chain, whose
        lengths may differ; or InferenceData of ArviZ, PyMC or nutpie; or a dict of arrays (chains, draws, ..) by name; or a
        table of pandas, polars or NumPy, read by the names of its columns: a column `chain` tells chains apart, and a vector
        theta is in theta[0], theta[1], ... docs/python.md has the call for each sampler
    log_density : function of an array (n, d), n draws at once, that returns n log densities with all constants. **Draws and
        density are those of coordinates without bounds**: take the logarithm of a scale sigma, and add the logarithm of the
        Jacobian, here log sigma, to the density. Without it log Z is wrong, and a warning need not appear
    prior, log_likelihood : in the place of log_density, as those of `annealed.evidence`. Then draws are the parameters
        themselves, within their bounds, in the order of the prior, and the library adds prior and Jacobian
    names : the variables or columns that are parameters, in the order of the function's columns; those of the prior, or else
        all. An array without names has none
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
    chains, is_labelled = read(draws, *_wanted(names, prior, named), given=names)
    notes = doubts(_finite(chains), is_labelled)
    if named is None:
        function = BatchFunction("log_density", log_density)
    else:
        function = BatchFunction("log_likelihood", log_likelihood, parameters=parameter_names(named))
    function.check(chains[0][[0, -1]] if named is None else prior_draws(named, 2, 0))
    if named is None:
        _check_falls(function.function, chains)
    with shown(progress) as show:
        try:
            return _bridge_sampling(
                chains,
                function,
                priors=named,
                law=law,
                epsilon=function.epsilon,
                seed=seed_of(seed),
                divergences=divergences(draws),
                notes=notes,
                progress=show,
            )
        except ValueError as error:
            # Weights of the law's own draws, the only others at which the density counts.
            if isinstance(error, NonFinite) or str(error).startswith("invalid log_weights"):
                raise function.named(error) from None
            raise


def _wanted(names: Any, prior: Any, named: Any) -> tuple[Optional[list[str]], dict[str, Optional[int]]]:
    """Returns the names of the variables to take, in the order of the function's columns, and the numbers of each by the prior."""
    names = [names] if isinstance(names, str) else names if names is None else [str(name) for name in names]
    if names is not None and len(set(names)) < len(names):
        raise ValueError(f"invalid names: got {names}, expected each once")
    if named is None:
        return names, {}
    own = [name for name, _ in named]
    if names is None or set(names) == set(own):
        names = own
    elif isinstance(prior, Mapping) or len(names) != len(own):
        raise ValueError(f"invalid names: got {names}, expected those of the prior, {own}: give priors the names of the draws")
    return names, {name: law.parameters for name, (_, law) in zip(names, named)}


#: Distance from a draw, in ranges of a coordinate's draws, at which the density has to be lower.
FAR = 10.0


def _check_falls(log_density: Callable[[np.ndarray], Any], chains: Sequence[np.ndarray]) -> None:
    """Refuses a density that is as high far from two draws as at these: it has no normalising constant."""
    draws, steps = chains[0][[0, -1]], FAR * np.ptp(np.concatenate(chains), axis=0)
    moves = np.concatenate([np.zeros((1, len(steps))), np.diag(steps), -np.diag(steps)])
    rows = (draws[:, None] + moves).reshape(-1, len(steps))
    try:
        with np.errstate(all="ignore"):
            values = np.asarray(log_density(rows), dtype=float).reshape(2, -1)
    except Exception:  # A function may refuse such values; then this check says nothing.
        return
    here = np.where(np.isfinite(values[:, :1]), values[:, :1], np.inf)
    falls = ~(values[:, 1:] >= here).all(axis=0)
    for place in np.flatnonzero(~falls)[:1]:
        column = place % len(steps)
        raise ValueError(
            f"invalid log_density: moving x[:, {column}] from {draws[0, column]:.6g} by {moves[1 + place, column]:.6g} changes it from "
            f"{values[0, 0]:.6g} to {values[0, 1 + place]:.6g}, expected a lower value: it has no normalising constant if it does not "
            "depend on a column (leave this one out of the draws), has the wrong sign, or lacks its bounds (-inf outside of them)"
        )


def _finite(chains: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    """Refuses a chain without draws, a NaN or an infinity."""
    if not (len(chains) and all(map(len, chains))):
        raise ValueError("invalid draws: got no draws" + (" of a chain" if len(chains) else ""))
    for i, chain in enumerate(chains):
        for draw, coordinate in np.argwhere(~np.isfinite(chain)):
            found = chain[draw, coordinate]
            raise ValueError(f"invalid draws: got {found} at draw {draw} of chain {i}, expected finite numbers")
    return chains
