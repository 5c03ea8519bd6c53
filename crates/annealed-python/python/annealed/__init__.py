"""Annealed importance sampling: partition functions, marginal likelihoods and free-energy differences, with honest intervals.

log Z of a machine or an energy, and the likelihood of data
    annealed.rbm(W, a, b)                          log Z of a restricted Boltzmann machine; `run.score(X)` scores data by it
    annealed.log_z(base, log_density)              log Z of a density without a prior, such as an energy network; vectors or bits
    annealed.compare_scores(one, other)            which of two machines fits the same data better, in pairs of rows

the evidence of a Bayesian model, and its posterior
    annealed.evidence(prior, log_likelihood)       by annealing from the prior, or near the mode with base="laplace"
    annealed.tempering(prior, log_likelihood)      by parallel tempering, for modes whose shares you need
    annealed.nested(prior, log_likelihood)         by levels of the likelihood, for a spike on top of a wide part
    annealed.stan(library, data)                   of a Stan model
    annealed.normal(0, 1), annealed.gamma(2, 1)    priors; `annealed.__all__` lists them all

checks of an evidence
    run.challenge()                                looks for mass that the run missed
    run.reverse(samples)                           runs back from samples of the posterior

many data under one model with a latent vector, such as a decoder
    annealed.log_likelihoods(prior, f, data)       log p(x) of each datum

log Z from the draws or the work of another program
    annealed.from_draws(draws, log_density)        from draws of another sampler
    annealed.free_energy(forward, reverse)         a free-energy difference from the work done in both directions
    annealed.mbar(u_kn, N_k)                       free energies of many states, from the reduced potentials of draws

several results
    annealed.compare({"line": one, "curve": two})  a table of models, with posterior probabilities
    annealed.log_ratio(one, two)                   the log Bayes factor of two models
    annealed.log_z_sum(runs)                       one model of several data sets

A result has `log_z`, `standard_error`, `interval` (95%) and `warnings`, in nats; those of other figures have `values`, `delta_f`,
`value` or `models` in its place. `print(result)` shows them. One seed gives the same bits on any number of threads, and those of the
Rust library with the same settings.
"""

from ._annealed import BothDirections, BridgeSampling, Evidence, LogZ, LogZSum, Prior, RbmRun
from ._annealed import __version__
from ._compare import Comparison, Model, compare, log_z_sum
from ._draws import from_draws
from ._errors import Interrupted
from ._evidence import Summary, evidence
from ._free_energy import FreeEnergy, free_energy
from ._log_likelihoods import LogLikelihoods, log_likelihoods
from ._log_ratio import LogRatio, log_ratio
from ._log_z import Bits, bits, log_z
from ._mbar import StateEnergies, mbar
from ._modes import nested, tempering
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
from ._rbm import Score, ScoreDifference, compare_scores, rbm
from ._stan import stan

__all__ = [
    "Bits",
    "BothDirections",
    "BridgeSampling",
    "Comparison",
    "Evidence",
    "FreeEnergy",
    "Interrupted",
    "LogLikelihoods",
    "LogRatio",
    "LogZ",
    "LogZSum",
    "Model",
    "Prior",
    "RbmRun",
    "Score",
    "ScoreDifference",
    "StateEnergies",
    "Summary",
    "beta",
    "bits",
    "compare",
    "compare_scores",
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
    "log_z_sum",
    "mbar",
    "nested",
    "normal",
    "ordered",
    "rbm",
    "stan",
    "student_t",
    "tempering",
    "truncated_normal",
    "uniform",
    "__version__",
]
