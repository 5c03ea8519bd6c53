"""Log p(x) of many data under one latent-variable model."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass
from typing import Any, Callable, Optional, Union

import numpy as np

from ._annealed import NonFinite, __version__, prior_draws
from ._annealed import log_likelihoods as _log_likelihoods
from ._arrays import BatchFunction, floats, integer, named_array, number, optional, seed_of
from ._errors import Interrupted
from ._priors import PriorLike, pairs, parameter_names
from ._progress import shown


@dataclass(frozen=True, eq=False)
class LogLikelihoods:
    """Log p(x) of B data, in nats, and their mean."""

    #: Index of each datum, (B,): 0 to B - 1, unless the run was stopped.
    indices: np.ndarray
    #: Estimate of log p(x) of each datum, (B,).
    values: np.ndarray
    #: Standard errors of `values`, (B,).
    standard_errors: np.ndarray
    #: 95% interval of log p(x) of each datum, (B, 2).
    intervals: np.ndarray
    #: Effective sample size of each datum's chains, (B,).
    effective_sample_sizes: np.ndarray
    #: Mean of log p(x) over the data, without the bias of the estimates.
    mean: float
    #: Standard error of `mean` by the chains' randomness, for these data.
    mean_error: float
    #: 95% interval of the mean of these data's log p(x).
    mean_interval: tuple[float, float]
    #: Bias of the mean of `values`, by a jackknife over chains. `mean` does not contain it.
    bias: float
    #: Standard deviation of log p(x) over the data.
    spread: float
    #: Reasons to doubt the estimate of a datum, sentences by the index of the datum.
    warnings: dict[int, list[str]]
    #: The names of `warnings`, by the index of the datum.
    warning_names: dict[int, list[str]]
    #: Of simulated data: the estimate of log p(x) of each datum from above, (B,).
    upper: Optional[np.ndarray]
    #: Of simulated data: the mean difference of `upper` and `values`, and its standard error over data.
    gap: Optional[tuple[float, float]]
    #: Number of evaluations of the density. A value with its gradient counts as one.
    evaluations: int
    #: Number of further rows that your function got so that each call had the same shape.
    padded_rows: int
    #: Wall time in seconds.
    seconds: float
    _text: str

    def __str__(self) -> str:
        return self._text

    __repr__ = __str__

    def to_arviz(self) -> Any:
        """Returns the estimates as InferenceData: the group `log_likelihood` has `log_p` and its `standard_error` for each datum,
        and attributes have the mean. Chain and draw have a length of 1."""
        try:
            import arviz
        except ImportError as error:
            raise ImportError("to_arviz needs ArviZ: pip install arviz") from error

        figures = {"log_p": self.values, "standard_error": self.standard_errors}
        group = {name: values[None, None] for name, values in figures.items()}
        attributes = {
            "mean": self.mean,
            "mean_error": self.mean_error,
            "mean_interval": list(self.mean_interval),
            "warnings": json.dumps(self.warnings),
            "inference_library": "annealed",
            "inference_library_version": __version__,
        }
        data: dict[str, Any] = {"coords": {"datum": self.indices}, "dims": {name: ["datum"] for name in figures}}
        if hasattr(arviz, "from_json"):  # before 1.0
            return arviz.from_dict(log_likelihood=group, log_likelihood_attrs=attributes, **data)
        return arviz.from_dict({"log_likelihood": group}, attrs={"log_likelihood": attributes}, **data)


#: Most data in a block, unless the user sets another number. In larger blocks, arrays of NumPy may be so large that each call gets
#: new pages of memory, which take longer than the function.
MOST_IN_BLOCK = 32


class _Decoder(BatchFunction):
    """A user's function of latent vectors and data, for rows (n, d + 1) that end with the index of their datum. Gradients are
    those by the latent vectors, (n, d)."""

    def __init__(self, log_likelihood: Any, data: np.ndarray, gradient: Any, names: list[str], rows: int) -> None:
        super().__init__("log_likelihood", log_likelihood, gradient, names)
        self.instead_of_pair = "pass `gradient=True` if it returns values and gradients"
        #: The datum of each row of the present call.
        self.indices: np.ndarray = np.zeros(rows, dtype=np.int64)
        if callable(self.gradient):
            self.gradient = lambda z: gradient(z, data[self.indices])
        if callable(log_likelihood):
            self.function = lambda z: log_likelihood(z, data[self.indices])
        self.block = rows
        self.refused_datum: Optional[int] = None

    def __call__(self, x: np.ndarray) -> tuple[np.ndarray, Optional[np.ndarray]]:
        return self.in_parts(x, self.block)

    def once(self, x: np.ndarray) -> tuple[np.ndarray, Optional[np.ndarray]]:
        self.indices = x[:, -1].astype(np.int64)
        return super().once(np.ascontiguousarray(x[:, :-1]))

    def values(self, found: Any, x: np.ndarray) -> np.ndarray:
        values = super().values(found, x)
        if self.refused is not None and self.refused_datum is None:
            self.refused_datum = int(self.indices[np.argmin(values < np.inf)])
        return values

    def named(self, error: ValueError) -> ValueError:
        found = super().named(error)
        return found if self.refused is None else ValueError(f"datum {self.refused_datum}: {found}")


def log_likelihoods(
    prior: PriorLike,
    log_likelihood: Callable[[np.ndarray, np.ndarray], Any],
    data: Any,
    gradient: Union[Callable[[np.ndarray, np.ndarray], Any], bool, None] = None,
    *,
    simulated: Any = None,
    chains: int = 16,
    stages: int = 200,
    moves: int = 5,
    data_per_block: Optional[int] = None,
    step_size: Optional[float] = None,
    leapfrog: int = 5,
    time_limit: Optional[float] = None,
    seed: int = 0,
    threads: Optional[int] = None,
    progress: Any = None,
) -> LogLikelihoods:
    """Estimates log p(x) of each datum under a model with a latent vector z, such as the decoder of an autoencoder:
    log of the integral of p(z) p(x | z). All data are annealed together, from the prior of z to the posterior of each datum.

        def log_likelihood(z, x):  # (n, 10) and (n, 784) in, (n,) out
            p = decoder(z)
            return (x * np.log(p) + (1 - x) * np.log(1 - p)).sum(axis=1)

        prior = {"z": annealed.independent(annealed.normal(0, 1), 10)}
        print(annealed.log_likelihoods(prior, log_likelihood, images))

    Parameters
    ----------
    prior : dict of priors by name, or a sequence, as for `annealed.evidence`
    log_likelihood : function of latent vectors (n, d) and of data (n, ..): row i of both belongs together. It returns n log
        likelihoods log p(x | z), (n,), with all constants; -inf where the likelihood is 0. It gets arrays of NumPy; it may return
        arrays of NumPy, JAX or PyTorch
    data : array (B, ..), a row for each datum; any type. If your data stay on a device, pass their indices, np.arange(B)
    gradient : function of the same arrays that returns the gradients by z, (n, d); or True if log_likelihood returns a pair of
        values and gradients. With a gradient chains move by Hamiltonian dynamics, without by random walks
    simulated : the latent vectors that generated `data`, (B, d), if the data are simulated: z from the prior, x from p(x | z). The
        result then also has estimates from above, and `gap`, the mean difference
    chains : number of chains of each datum; 16 to 64
    stages : steps from the prior to the posteriors. If many data warn, use more
    moves : moves at each stage of the first pass, which finds the schedule and the step sizes of each datum
    data_per_block : number of data whose chains are evaluated together; 32 by default, or a few less if the last block is then
        fuller. A fast compiled function may gain a third with 128. Each call of your function gets `data_per_block * chains`
        rows, so that a compiled function is compiled once; missing rows are copies, counted in `padded_rows`
    step_size : where the tuning of the step sizes starts
    leapfrog : steps of each Hamiltonian trajectory
    time_limit : end the run after so many seconds, with the data that are finished
    seed : one seed gives the same bits on any number of threads
    threads : threads of the library; your function is always called from the calling thread
    progress : True or False for a line on standard error, or a function, as for `annealed.evidence`

    Returns
    -------
    LogLikelihoods, with `values`, `standard_errors`, `intervals`, `mean`, `mean_error`, `mean_interval`, `warnings` by datum

    The estimate of each datum is too low by about half its variance, which a mean over data does not reduce. `mean` is corrected by a
    jackknife over chains, and `mean_interval` allows for what the correction may leave.

    Raises
    ------
    ValueError
        for settings out of range, a NaN or +inf of your function, integers in the place of floats, a wrong shape, a gradient that
        is off by 5%, a datum of likelihood 0 at all its chains
    TimeoutError
        if `time_limit` ended the run before any datum was finished, or before the end of a run of simulated data
    Interrupted
        after the first Ctrl-C; its `result` has the data that were finished
    whatever your function raises
        as it was raised; a ValueError that quotes it if `data` is a vector of floats, since a datum alone is such a vector
    """
    named = pairs(prior)
    names = parameter_names(named)
    array = named_array("data", data)
    if array.ndim == 0 or len(array) == 0:
        raise ValueError(f"invalid data: got an array of shape {array.shape}, expected a row for each datum")
    if simulated is not None:
        simulated = floats("simulated", simulated, 2)
        if simulated.shape != (len(array), len(names)):
            raise ValueError(f"invalid simulated: got an array of shape {simulated.shape}, expected {(len(array), len(names))}")
    chains = integer("chains", chains, 2)
    blocks = -(-len(array) // MOST_IN_BLOCK)
    data_per_block = -(-len(array) // blocks) if data_per_block is None else integer("data_per_block", data_per_block, 1)
    rows = chains * min(data_per_block, len(array))
    function = _Decoder(log_likelihood, array, gradient, names, rows)
    with_gradient = function.gradient is not None
    settings: dict[str, Any] = {
        "latents": simulated,
        "with_gradient": with_gradient,
        "step_size": number("step_size", (0.3 if with_gradient else 0.5) if step_size is None else step_size),
        "leapfrog": integer("leapfrog", leapfrog),
        "chains": chains,
        "stages": integer("stages", stages),
        "moves": integer("moves", moves),
        "data_per_block": data_per_block,
        "time_limit": optional(number, "time_limit", time_limit),
        "seed": seed_of(seed),
        "threads": optional(integer, "threads", threads),
    }
    draws = prior_draws(named, 3, 0)
    try:
        function.check(np.column_stack([draws, np.arange(3) % len(array)]))
    except Exception as error:
        if array.ndim == 1 and array.dtype.kind == "f":
            rows = f"{len(array)} data of one number each; a single datum x of {len(array)} numbers is data=x[None]"
            raise ValueError(f"invalid data: got an array of shape {array.shape}, which is {rows}; log_likelihood failed: {error}") from error
        raise
    with shown(progress) as show:
        try:
            found = _log_likelihoods(named, function, len(array), epsilon=function.epsilon, progress=show, **settings)
        except NonFinite as error:
            raise function.named(error) from None
        except Interrupted as stopped:
            stopped.result = None if stopped.result is None else _result(stopped.result, function.padded)
            raise
    return _result(found, function.padded)


def _result(found: dict[str, Any], padded: int) -> LogLikelihoods:
    mean, error, interval, bias, spread = found["mean"]
    upper, gap = found["simulated"] or (None, None)
    if gap is not None and gap[0] < -4 * gap[1]:
        warnings.warn(
            f"the estimates from above are lower than those from below, by {-gap[0]:.3g} +- {gap[1]:.2g} on average: `simulated` are not the "
            "latent vectors that generated `data`, row by row",
            stacklevel=3,
        )
    return LogLikelihoods(
        indices=np.array(found["indices"]),
        values=np.array(found["values"]),
        standard_errors=np.array(found["standard_errors"]),
        intervals=np.array(found["intervals"]),
        effective_sample_sizes=np.array(found["effective_sample_sizes"]),
        mean=mean,
        mean_error=error,
        mean_interval=interval,
        bias=bias,
        spread=spread,
        warnings={datum: [text for _, text in doubts] for datum, doubts in found["doubts"]},
        warning_names={datum: [name for name, _ in doubts] for datum, doubts in found["doubts"]},
        upper=None if upper is None else np.array(upper),
        gap=gap,
        evaluations=found["evaluations"],
        padded_rows=padded,
        seconds=found["seconds"],
        _text=found["text"],
    )
