"""The evidence of Bayesian models, and posteriors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, Callable, Dict, Optional, Union

import numpy as np

from ._annealed import BothDirections, Evidence, __version__
from ._annealed import evidence as _evidence
from ._annealed import reverse as _reverse
from ._arrays import floats, integer, number, optional, seed_of
from ._priors import PriorLike
from ._problem import Asked, Problem

BASES = ("prior", "laplace")

#: Number of chains in a block of the first pass, by default. Blocks of later rounds are twice as large.
FIRST_BLOCK = 64


def evidence(
    prior: PriorLike,
    log_likelihood: Callable[[np.ndarray], Any],
    gradient: Union[Callable[[np.ndarray], Any], bool, None] = None,
    *,
    budget: Optional[int] = None,
    until_error: Optional[float] = None,
    time_limit: Optional[float] = None,
    seed: int = 0,
    chains: Optional[int] = None,
    rounds: Optional[int] = None,
    base: str = "prior",
    fitted: bool = False,
    step_size: Optional[float] = None,
    leapfrog: int = 3,
    block_size: Optional[int] = None,
    threads: Optional[int] = None,
    progress: Any = None,
) -> Evidence:
    """Estimates the log evidence of a model, log of the integral of prior times likelihood, by rounds of annealing.

    Parameters
    ----------
    prior : dict of priors by name, such as {"mu": annealed.normal(0, 10), "tau": annealed.half_cauchy(5)}; or a sequence
    log_likelihood : function of an array (n, d) of float64, n states at once with a parameter in each column, in the order of
        the prior. It returns n log likelihoods, (n,), with all constants; -inf where the likelihood is 0. Arrays of NumPy, JAX
        and PyTorch will do
    gradient : function of the same array that returns the gradients by the parameters, (n, d); or True if log_likelihood
        returns a pair of values and gradients. With a gradient chains move by Hamiltonian dynamics, without by random walks
    budget : rows of the likelihood to spend, a value with its gradient is one; at most a quarter precedes the last round; searches of
        `fitted` take at most a quarter, with `until_error` half of a small one. If it is too small, the error names one that works for this seed, after the first pass that showed it
    until_error : end the run at this standard error of log Z; or earlier, with a warning, if more stages do not lower the error
    time_limit : end the run after so many seconds, with the last finished round; a TimeoutError if no round is finished
    seed : one seed gives the same bits on any number of threads
    chains : number of chains, by default 256, or 64 where `budget` is too small for 256; more of them make means of parameters
        better, more budget alone does not
    rounds : the largest number of rounds, each of twice as many stages; by default 8, or as many as until_error takes
    base : "prior"; or "laplace", which begins the rounds near the mode of the posterior, from Student's t around Laplace's
        approximation. It needs a gradient and far fewer stages, but misses other modes without a warning, and a hierarchy's mode
        misleads it: compare with "prior"
    fitted : draw the rounds from a law that two searches fit to the posterior; often a tenth to a hundredth of the evaluations.
        A small first pass checks them. If they disagree, the rounds start from the prior, and the text of
        the result says so. A mode much narrower than another is missed without a warning (deviations of .25 and 1 in 5 dimensions: in
        nearly all runs): more `chains` (draws in a step) find more, and `run.challenge(budget=20_000)` looks for it
    step_size : where the tuning of the kernel starts
    leapfrog : steps of each Hamiltonian trajectory
    block_size : number of chains that are evaluated together: `chains` for a device or a library with threads of its own. A
        function that returns arrays of JAX gets 64 rows or `block_size` in each call but those of single states, so that JAX
        compiles it once; missing rows are copies
    threads : threads of the library; your function is always called from the calling thread
    progress : True or False for a line on standard error, by default where a person looks; or a function of a text, the
        number of steps done, and that of all, which is called at most ten times a second

    Without budget and until_error there are 8 rounds.

    Returns
    -------
    Evidence, with `log_z`, `standard_error`, `interval`, `warnings`, `draws(n)`, `summary()`, `to_arviz()`, `plot(path)`, and two
    checks: `challenge()` looks for mass that the run missed, `reverse(samples)` runs back from samples of the posterior

    The text of the result also has Lambda, the barrier of the path from prior to posterior. With K stages the variance of a log
    weight is about Lambda^2 / K, and more if chains mix slowly. A large Lambda means that the posterior is far from the prior.

    `summary()` has a row for each parameter: mean, sd (standard deviation), 5%, 50% and 95% quantiles, error (standard error of
    the mean), and draws (number of independent draws whose mean would have this error).

    Raises
    ------
    ValueError
        for settings out of range, a NaN or +inf of your function, integers in the place of floats, a wrong shape, a gradient that
        is off by 5%
    TimeoutError
        if `time_limit` ended the run before its first round was finished
    Interrupted
        after the first Ctrl-C; its `result` is the run up to the last finished round. A second Ctrl-C raises a plain
        KeyboardInterrupt at once, without a result
    whatever your function raises
        as it was raised
    """
    if base not in BASES:
        raise ValueError(f"invalid base: got {base!r}, expected prior or laplace")
    if fitted and base == "laplace":
        raise ValueError("invalid fitted: got True with base='laplace', expected one of the two: both choose a base")
    problem = Problem(prior, log_likelihood, gradient, step_size=step_size, leapfrog=leapfrog, laplace=base == "laplace")
    settings = of_rounds(chains, rounds, block_size, budget, until_error, fitted)
    control = {"seed": seed, "time_limit": time_limit, "threads": threads, "progress": progress}
    return problem.check(block_size or FIRST_BLOCK).run(_evidence, problem, settings, **control)  # type: ignore[no-any-return]


def of_rounds(chains: Any, rounds: Any, block_size: Any, budget: Any, until_error: Any, fitted: Any) -> SimpleNamespace:
    """Returns the settings of rounds as the extension module reads them."""
    return SimpleNamespace(
        chains=optional(integer, "chains", chains),
        rounds=optional(integer, "rounds", rounds),
        block_size=optional(integer, "block_size", block_size),
        budget=optional(integer, "budget", budget),
        until_error=optional(number, "until_error", until_error),
        fitted=bool(fitted),
    )


def challenge(run: Evidence, budget: Any, seed: Any, time_limit: Any, threads: Any, progress: Any) -> Evidence:
    """Challenges a result, for `Evidence.challenge`."""
    problem: Asked = run._problem
    control = {"seed": run._seed if seed is None else seed, "time_limit": time_limit, "threads": threads, "progress": progress}
    budget = optional(integer, "budget", budget)
    return problem.run(problem.challenge, run, problem, budget, **control)  # type: ignore[no-any-return]


def reverse(
    run: Evidence, samples: Any, exact: Any, seed: Any, time_limit: Any, threads: Any, progress: Any
) -> BothDirections:
    """Runs back from samples of the posterior, for `Evidence.reverse`."""
    problem: Asked = run._problem
    if not isinstance(problem, Problem):
        raise ValueError("invalid run: got a result of annealed.log_z, expected one of annealed.evidence")
    names = run.parameter_names
    if isinstance(samples, Mapping):
        samples = _rows(samples, [name for name, _ in problem.priors])
    rows = floats("samples", samples, 2)
    if rows.shape[1] != len(names):
        raise ValueError(f"invalid samples: got an array of shape {rows.shape}, expected (n, {len(names)}), a column for each of {names}")
    control = {"seed": run._seed if seed is None else seed, "time_limit": time_limit, "threads": threads, "progress": progress}
    return problem.run(_reverse, run, problem, rows, bool(exact), **control)  # type: ignore[no-any-return]


def _rows(samples: Mapping[str, Any], names: list[str]) -> np.ndarray:
    """Returns the rows of samples by name, such as `Evidence.draws` returns."""
    if set(samples) != set(names):
        raise ValueError(f"invalid samples: got {sorted(samples)}, expected those of the prior, {names}")
    arrays = [floats(f"samples of {name}", samples[name], 1, 2) for name in names]
    if len({len(array) for array in arrays}) > 1:
        raise ValueError(f"invalid samples: got {[len(array) for array in arrays]} of {names}, expected as many of each")
    return np.column_stack(arrays)


def draws(run: Evidence, n: Any, seed: Any) -> dict[str, np.ndarray]:
    """Returns draws by name, for `Evidence.draws`."""
    rows = run._draws(integer("n", 1000 if n is None else n), seed_of(0 if seed is None else seed))
    columns: dict[str, list[int]] = {}
    for i, name in enumerate(run.parameter_names):
        columns.setdefault(vector_of(name), []).append(i)
    is_single = {vector_of(name): vector_of(name) == name for name in run.parameter_names}
    return {name: rows[:, i[0]].copy() if is_single[name] else rows[:, i] for name, i in columns.items()}


def vector_of(name: str) -> str:
    """Returns the name of the vector of which this is a coordinate: theta of theta[0] and of Stan's theta.1."""
    if name.endswith("]") and "[" in name:
        return name[: name.rindex("[")]
    head, _, index = name.partition(".")
    return head if index.replace(".", "").isdigit() else name


class Summary(Dict[str, Dict[str, float]]):
    """Figures of parameters by name: dicts of mean, sd, q5, median, q95, error (of the mean) and draws (independent draws that
    would have this error). The text is a table below log Z."""

    def __init__(self, text: str = "", figures: Any = ()) -> None:
        super().__init__(figures)
        self.text = text

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__

    def __reduce__(self) -> Any:
        return Summary, (self.text, dict(self))


def summary(run: Evidence) -> Summary:
    """Returns the table of the parameters, for `Evidence.summary`."""
    text, rows = run._summary()
    figures = ("mean", "sd", "q5", "median", "q95", "error", "draws")
    named = {name: (mean, sd, *quantiles, *of_mean) for name, mean, sd, quantiles, of_mean in rows}
    return Summary(text, {name: dict(zip(figures, row)) for name, row in named.items()})


def to_arviz(run: Evidence, n: Any, seed: Any) -> Any:
    """Returns draws as InferenceData, for `Evidence.to_arviz`."""
    try:
        import arviz
    except ImportError as error:
        raise ImportError("to_arviz needs ArviZ: pip install arviz") from error

    posterior = {name: values[None] for name, values in draws(run, n, seed).items()}
    attributes = {
        "log_evidence": run.log_z,
        "log_evidence_error": run.standard_error,
        "log_evidence_interval": list(run.interval),
        "log_evidence_warnings": json.dumps(run.warnings),
        "inference_library": "annealed",
        "inference_library_version": __version__,
    }
    if hasattr(arviz, "from_json"):  # before 1.0
        return arviz.from_dict(posterior=posterior, posterior_attrs=attributes)
    return arviz.from_dict({"posterior": posterior}, attrs={"posterior": attributes})
