"""Log Z of an energy: a function without a prior."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple, Optional, Union

import numpy as np

from ._annealed import Evidence, Prior, challenge_log_z, prior_draws
from ._annealed import log_z as _log_z
from ._arrays import BatchFunction, floats, integer, refuse
from ._evidence import FIRST_BLOCK, of_rounds
from ._priors import PriorLike, pairs, parameter_names
from ._problem import Asked


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
    chains: Optional[int] = None,
    rounds: Optional[int] = None,
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
    budget, until_error, time_limit, seed, chains, rounds, fitted, step_size, leapfrog, block_size, threads, progress :
        as of `annealed.evidence`. For bits there is no `fitted`

    Without budget and until_error there are 8 rounds.

    Returns
    -------
    Evidence, with `log_z`, `standard_error`, `interval`, `warnings`, `draws(n)` of the distribution f / Z, `summary()`,
    `plot(path)`, and over vectors `challenge()`, which looks for mass that the run missed

    Raises
    ------
    ValueError, TimeoutError, Interrupted
        as `annealed.evidence`. The gradient of bits is not checked: a wrong one makes the run slow, but not wrong
    whatever your functions raise
        as it was raised
    """
    if isinstance(base, Bits) and fitted:
        raise ValueError("invalid fitted: got True, expected False for a base of bits")
    if isinstance(base, Bits) and step_size is not None:
        raise ValueError(f"invalid step_size: got {step_size!r}, expected none for a base of bits, which flip")
    if not isinstance(base, Bits) and flips is not None:
        raise ValueError(f"invalid flips: got {flips!r}, expected none for a base over vectors")
    energy = _Energy(base, log_density, gradient, step_size, leapfrog, flips)
    energy.try_at(energy.states, block_size or FIRST_BLOCK)
    settings = of_rounds(chains, rounds, block_size, budget, until_error, fitted)
    control = {"seed": seed, "time_limit": time_limit, "threads": threads, "progress": progress}
    return energy.run(_log_z, energy, settings, **control)  # type: ignore[no-any-return]


class _Energy(Asked):
    """A base and a density."""

    challenge = staticmethod(challenge_log_z)

    def __init__(self, base: Any, log_density: Any, gradient: Any, step_size: Any, leapfrog: int, flips: Any) -> None:
        self.priors: Any = None
        self.samples: Any = None
        self.bits: Any = None
        #: Three states.
        self.states: np.ndarray
        names = self.read(base)
        super().__init__(BatchFunction("log_density", log_density, gradient, names), step_size, leapfrog)
        if flips is None:
            flips = -(-len(names) // 4) if self.with_gradient else len(names)
        self.flips = integer("flips", flips, 1)

    def read(self, base: Any) -> list[str]:
        """Reads the base, and returns the names of the coordinates."""
        if isinstance(base, Bits):
            self.bits = list(base.probabilities)
            states = np.random.default_rng(0).random((3, len(self.bits))) < base.probabilities
            self.states = states.astype(np.float64)
            return _names(len(self.bits))
        first = next(iter(base), None) if isinstance(base, (list, tuple)) else None
        if hasattr(base, "__array__") or (isinstance(base, (list, tuple)) and not isinstance(first, Prior)):
            self.samples = floats("base", base, 2)
            refuse("base", self.samples, ~np.isfinite(self.samples), "finite numbers")
            if len(self.samples) < 2 or self.samples.shape[1] == 0:
                raise ValueError(f"invalid base: got an array of shape {self.samples.shape}, expected at least 2 samples in its rows")
            if set(np.unique(self.samples)) == {0, 1}:
                expected = "samples of continuous vectors; for a function of bits use annealed.bits(n) or annealed.bits(probabilities)"
                raise ValueError(f"invalid base: got samples of zeros and ones alone, which look like bits, expected {expected}")
            self.states = self.samples[:3].copy()
            return _names(self.samples.shape[1])
        if isinstance(base, Prior) and base.parameters is not None:
            base = {"x": base}
        self.priors = pairs(base)
        self.states = prior_draws(self.priors, 3, 0)
        return parameter_names(self.priors)


def _names(count: int) -> list[str]:
    return [f"x[{i}]" for i in range(count)]
