"""Log Z of an energy: a function without a prior."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple, Optional, Union

import numpy as np

from ._annealed import Evidence, NonFinite, Prior, prior_draws
from ._annealed import log_z as _log_z
from ._arrays import BatchFunction, floats, integer, number, optional, refuse, seed_of
from ._priors import PriorLike, pairs, parameter_names
from ._progress import shown


class Bits(NamedTuple):
    """Independent bits, a base of `annealed.log_z`. Create it by `annealed.bits`."""

    #: The probability of a one for each bit.
    probabilities: tuple[float, ...]


def bits(probabilities: Any) -> Bits:
    """Independent bits, from which `annealed.log_z` starts: their probabilities of a one, strictly between 0 and 1. A number n
    stands for n bits with probability 1/2."""
    if np.ndim(probabilities) == 0:
        return Bits((0.5,) * integer("bits", probabilities, 1, 2**20))
    found = floats("bits", probabilities, 1)
    refuse("bits", found, ~((found > 0) & (found < 1)), "probabilities strictly between 0 and 1")
    return Bits(tuple(found.tolist()))


def log_z(
    base: Union[PriorLike, Bits, np.ndarray],
    log_density: Callable[[np.ndarray], Any],
    gradient: Union[Callable[[np.ndarray], Any], bool, None] = None,
    *,
    budget: Optional[int] = None,
    until_error: Optional[float] = None,
    time_limit: Optional[float] = None,
    seed: int = 0,
    chains: int = 256,
    rounds: int = 8,
    challenge: bool = False,
    fitted: bool = False,
    step_size: Optional[float] = None,
    leapfrog: int = 3,
    flips: Optional[int] = None,
    block_size: Optional[int] = None,
    threads: Optional[int] = None,
    progress: Any = None,
) -> Evidence:
    """Estimates log Z of a density f without a prior, such as exp(-energy) of a network: the logarithm of the integral of f over
    all vectors, or over a box, or of its sum over all vectors of bits.

    Parameters
    ----------
    base : the distribution from which chains start. It does not change log Z, but the closer it is to f, the less a run costs.
        - an array (n, d) of samples, such as the training data of an energy model: a normal or Student t law is fitted to them
        - `annealed.normal` for each coordinate, as `annealed.independent(annealed.normal(0, 3), d)`, or a dict by name or a
          sequence; or `annealed.student_t`, with the same degrees of freedom: a multivariate Student t
        - `annealed.uniform` for each coordinate: Z is the integral over this box
        - `annealed.bits(n)` or `annealed.bits(probabilities)`: Z is the sum over the 2^n vectors of zeros and ones
    log_density : function of an array (n, d) of float64, n states at once, that returns n values of log f, (n,): minus the
        energy; -inf where f is 0. Arrays of NumPy, JAX and PyTorch will do
    gradient : function of the same array that returns the gradients of log f, (n, d); or True if log_density returns a pair of
        values and gradients. With a gradient chains move by Hamiltonian dynamics, without by random walks. For bits
        it is the gradient of log f as a function of real numbers, which proposes the bit to flip (Gibbs with gradients, Grathwohl
        et al. 2021); without it, bits are chosen at random
    flips : number of proposed flips at each stage, for bits; by default a quarter of the bits with a gradient, and as many as
        there are bits without
    budget, until_error, time_limit, seed, chains, rounds, challenge, fitted, step_size, leapfrog, block_size, threads, progress :
        as of `annealed.evidence`. For bits there is no `challenge` and no `fitted`

    Without budget, until_error and time_limit there are 8 rounds.

    Returns
    -------
    Evidence, with `log_z`, `standard_error`, `interval`, `warnings`, `draws(n)` of the distribution f / Z, `summary()`, `plot(path)`

    Raises
    ------
    ValueError, TimeoutError, Interrupted
        as `annealed.evidence`. The gradient of bits is not checked: a wrong one makes the run slow, but not wrong
    whatever your functions raise
        as it was raised
    """
    kind, names, states = _read(base)
    if isinstance(base, Bits) and (challenge or fitted):
        name = "challenge" if challenge else "fitted"
        raise ValueError(f"invalid {name}: got True, expected False for a base of bits")
    function = BatchFunction("log_density", log_density, gradient, names)
    function.instead_of_pair = "pass `gradient=True` if it returns values and gradients"
    with_gradient = function.gradient is not None
    if flips is None:
        flips = -(-len(names) // 4) if with_gradient else len(names)
    settings: dict[str, Any] = {
        **kind,
        "with_gradient": with_gradient,
        "step_size": number("step_size", (0.3 if with_gradient else 0.5) if step_size is None else step_size),
        "leapfrog": integer("leapfrog", leapfrog),
        "flips": integer("flips", flips, 1),
        "fitted": bool(fitted),
        "challenge": bool(challenge),
        "chains": integer("chains", chains),
        "rounds": integer("rounds", rounds),
        "block_size": optional(integer, "block_size", block_size),
        "budget": optional(integer, "budget", budget),
        "until_error": optional(number, "until_error", until_error),
        "time_limit": optional(number, "time_limit", time_limit),
        "seed": seed_of(seed),
        "threads": optional(integer, "threads", threads),
    }
    function.check(states)
    with shown(progress) as show:
        try:
            return _log_z(function, epsilon=function.epsilon, progress=show, **settings)
        except NonFinite as error:
            raise function.named(error) from None


def _read(base: Any) -> tuple[dict[str, Any], list[str], np.ndarray]:
    """Returns the base as arguments of the extension module, the names of the coordinates, and three states."""
    kind: dict[str, Any] = {"priors": None, "samples": None, "bits": None}
    if isinstance(base, Bits):
        count = len(base.probabilities)
        states = np.random.default_rng(0).random((3, count)) < base.probabilities
        return {**kind, "bits": list(base.probabilities)}, _names(count), states.astype(np.float64)
    is_array = hasattr(base, "__array__") or (isinstance(base, (list, tuple)) and not isinstance(next(iter(base), None), Prior))
    if is_array:
        samples = floats("base", base, 2)
        refuse("base", samples, ~np.isfinite(samples), "finite numbers")
        if len(samples) < 2 or samples.shape[1] == 0:
            raise ValueError(f"invalid base: got an array of shape {samples.shape}, expected at least 2 samples in its rows")
        return {**kind, "samples": samples}, _names(samples.shape[1]), samples[:3].copy()
    if isinstance(base, Prior) and base.parameters is not None:
        base = {"x": base}
    named = pairs(base)
    return {**kind, "priors": named}, parameter_names(named), prior_draws(named, 3, 0)


def _names(count: int) -> list[str]:
    return [f"x[{i}]" for i in range(count)]
