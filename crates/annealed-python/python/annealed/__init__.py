"""Annealed importance sampling: partition functions, marginal likelihoods and free-energy differences, with honest intervals.

    annealed.rbm(W, a, b)                          log Z of a restricted Boltzmann machine, and the likelihood of data
    annealed.evidence(prior, log_likelihood)       the log evidence of a Bayesian model, and its posterior
    annealed.log_z(base, log_density)              log Z of a density without a prior, such as an energy network, over vectors or bits
    annealed.log_likelihoods(prior, f, data)       log p(x) of many data under a model with a latent vector, such as a decoder
    annealed.from_draws(draws, log_density)        log Z from draws of another sampler
    annealed.free_energy(forward, reverse)         a free-energy difference from the work done in both directions
    annealed.mbar(u_kn, N_k)                       free energies of many states, from the reduced potentials of draws
    annealed.stan(library, data)                   the log evidence of a Stan model

Every result has `log_z`, `standard_error`, `interval` (95%) and `warnings`, in nats. `print(result)` shows them. One seed gives
the same bits on any number of threads, and those of the Rust library with the same settings.
"""

from ._annealed import BothDirections, BridgeSampling, Evidence, LogZ, Prior, RbmRun
from ._annealed import __version__
from ._draws import from_draws
from ._errors import Interrupted
from ._evidence import Summary, evidence
from ._free_energy import FreeEnergy, free_energy
from ._log_likelihoods import LogLikelihoods, log_likelihoods
from ._log_ratio import LogRatio, log_ratio
from ._log_z import Bits, bits, log_z
from ._mbar import StateEnergies, mbar
from ._priors import (
    beta,
    dirichlet,
    effects,
    exponential,
    gamma,
    half_cauchy,
    half_normal,
    independent,
    inverse_gamma,
    log_normal,
    normal,
    ordered,
    student_t,
    truncated_normal,
    uniform,
)
from ._rbm import Score, rbm
from ._stan import stan

__all__ = [
    "Bits",
    "BothDirections",
    "BridgeSampling",
    "Evidence",
    "FreeEnergy",
    "Interrupted",
    "LogLikelihoods",
    "LogRatio",
    "LogZ",
    "Prior",
    "RbmRun",
    "Score",
    "StateEnergies",
    "Summary",
    "beta",
    "bits",
    "dirichlet",
    "effects",
    "evidence",
    "exponential",
    "free_energy",
    "from_draws",
    "gamma",
    "half_cauchy",
    "half_normal",
    "independent",
    "inverse_gamma",
    "log_likelihoods",
    "log_normal",
    "log_ratio",
    "log_z",
    "mbar",
    "normal",
    "ordered",
    "rbm",
    "stan",
    "student_t",
    "truncated_normal",
    "uniform",
    "__version__",
]
