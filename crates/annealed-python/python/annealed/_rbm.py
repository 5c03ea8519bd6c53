"""Restricted Boltzmann machines."""

from __future__ import annotations

import os
import re
import zlib
from dataclasses import dataclass, field
from typing import Any, Mapping, Optional, Sequence, Union

import numpy as np

from ._annealed import BothDirections, LogZ, RbmRun
from ._annealed import rbm as _rbm
from ._annealed import score_difference as _score_difference
from ._arrays import array_of, bits, floats, integer, number, optional, refuse, seed_of
from ._progress import shown

#: Largest number of single precision.
LARGEST = float(np.finfo(np.float32).max)
_DEFAULT_NAMES = (("W", "components_"), ("a", "intercept_hidden_"), ("b", "intercept_visible_"))


def rbm(
    W: Any,
    a: Any = None,
    b: Any = None,
    *,
    base_data: Any = None,
    base: str = "auto",
    chains: int = 4096,
    stages: int = 10_000,
    seed: int = 0,
    until_error: Optional[float] = None,
    time_limit: Optional[float] = None,
    threads: Optional[int] = None,
    names: Optional[Sequence[str]] = None,
    square_transposed: bool = False,
    block_size: int = 128,
    engine: Optional[str] = None,
    progress: Any = None,
) -> RbmRun:
    """Estimates log Z of a restricted Boltzmann machine of 0/1 units, Z = sum over v and h of exp(h.W v + a.h + b.v).

    It is the program `annealed rbm`, with its defaults and its search for a start. Parameters are rounded to single precision,
    as the program rounds them.

    Parameters
    ----------
    W : array (M, D), hidden by visible, or (D, M) where `a` and `b` tell them apart; or a fitted
        `sklearn.neural_network.BernoulliRBM`; or a dict of arrays or tensors, such as `numpy.load("rbm.npz")` or a state dict
        of PyTorch, in which names such as "h_bias" and "visible.bias" tell the biases apart
    a : array (M,), hidden biases
    b : array (D,), visible biases. Hinton's guide uses the opposite names: a visible, b hidden
    base_data : array (rows, D) of 0 and 1; training data, whose base rates the search begins with
    base : "auto" searches the start; "data-rate" takes the rates of `base_data`, "uniform" fair coins
    chains, stages : the standard error falls with the square root of their product. The search costs 1,024 chain-steps a stage,
        however few the chains. The defaults take 18 s of one core for 64 x 20 units, and about 10 minutes for 784 x 500;
        `chains=1000, stages=1000` takes a 25th of the steps
    seed : one seed gives the same bits on any number of threads
    until_error : end the run at this standard error, in nats
    time_limit : end the run after so many seconds, with the finished chains; the search for a start counts, and so it does in
        `run.seconds`. A TimeoutError if no chain is finished
    threads : all cores unless set
    names : names of weights, hidden and visible biases in a dict
    square_transposed : square weights are visible by hidden
    block_size : number of chains that move together; it affects the result's bits
    engine : instructions, "portable", "neon", "avx2" or "avx512"; the best unless set
    progress : True or False for a line on standard error, by default where a person looks; or a function of a text, the
        number of steps done, and that of all, which is called at most ten times a second

    Returns
    -------
    RbmRun, with `log_z`, `standard_error`, `interval`, `warnings`, `score(X)`, `exact()`, `reverse(..)`, `plot(path)`

    Raises
    ------
    ValueError
        for parameters that do not fit together, are not finite, or settings out of range
    TimeoutError
        if `time_limit` ended the run before any chain was finished
    Interrupted
        after the first Ctrl-C; its `result` holds the finished chains, or None during the search. A second Ctrl-C raises a plain
        KeyboardInterrupt at once

    >>> import annealed
    >>> run = annealed.rbm([[1.0, -2.0]], [0.5], [0.0, 0.3], stages=100, chains=256)
    >>> run.exact().__round__(3)
    2.481
    """
    w, a, b = _parameters(W, a, b, names, square_transposed)
    with shown(progress) as show:
        return _rbm(
            w,
            a,
            b,
            base=base,
            base_data=optional(bits, "base_data", base_data, len(b)),
            chains=integer("chains", chains),
            stages=integer("stages", stages),
            block_size=integer("block_size", block_size),
            seed=seed_of(seed),
            until_error=optional(number, "until_error", until_error),
            time_limit=optional(number, "time_limit", time_limit),
            threads=optional(integer, "threads", threads),
            engine=engine,
            progress=show,
        )


def _parameters(W: Any, a: Any, b: Any, names: Optional[Sequence[str]], square_transposed: bool) -> tuple[Any, Any, Any]:
    """Returns weights (M, D), hidden and visible biases."""
    if hasattr(W, "n_components") and not hasattr(W, "components_"):
        raise ValueError(f"invalid W: got {type(W).__name__} without components_, expected a fitted machine: call its fit(X) first")
    if hasattr(W, "components_"):
        W, a, b = W.components_, W.intercept_hidden_, W.intercept_visible_
    elif isinstance(W, Mapping):
        W, a, b = (W[name] for name in _names(W, names))
    elif isinstance(W, (str, os.PathLike)):
        raise ValueError(f"invalid W: got {W!r}, expected arrays; numpy.load(..) reads a file of NumPy")
    elif names is not None:
        raise ValueError(f"invalid names: got {tuple(names)}, expected none beside arrays; they are those in a dict")
    elif a is None or b is None:
        raise ValueError(
            "invalid a and b: got none, expected hidden biases (M,) and visible biases (D,); numpy.zeros(..) for biases that the "
            "machine lacks, or a fitted BernoulliRBM, or a dict in the place of W"
        )
    a, b = _bias("a", a), _bias("b", b)
    w = floats("W", W, 2)
    straight, turned = w.shape == (len(a), len(b)), w.shape == (len(b), len(a))
    if not (straight or turned):
        raise ValueError(
            f"invalid W: got an array of shape {w.shape}, expected ({len(a)}, {len(b)}), hidden by visible, or its transpose: "
            f"a has {len(a)} hidden biases, b {len(b)} visible ones"
        )
    for name, array in (("W", w), ("a", a), ("b", b)):
        refuse(name, array, ~(np.abs(array) <= LARGEST), f"finite numbers of single precision, up to {LARGEST:.1e}")
    if turned and (square_transposed or not straight):
        w = w.T.copy()
    return w, a, b


def _bias(name: str, bias: Any) -> np.ndarray:
    """Returns an array of one dimension, of one that may have further ones of size 1."""
    array = floats(name, bias, *range(1, 9))
    if sum(size != 1 for size in array.shape) > 1:
        raise ValueError(f"invalid {name}: got an array of shape {array.shape}, expected one dimension")
    return array.reshape(-1)


def _names(arrays: Mapping[str, Any], names: Optional[Sequence[str]]) -> tuple[str, str, str]:
    """Returns the names of weights, hidden and visible biases in a dict."""
    if names is None:
        names = [next((name for name in defaults if name in arrays), "") for defaults in _DEFAULT_NAMES]
        if not all(names):
            names = _guessed(arrays)
    if len(names) != 3 or any(name not in arrays for name in names):
        raise ValueError(
            f"invalid names: got {tuple(names)}, expected three of {tuple(arrays)}: weights, hidden and visible biases"
        )
    return names[0], names[1], names[2]


def _guessed(arrays: Mapping[str, Any]) -> list[str]:
    """Tells the weights by their shape, and the biases by a word of their names that begins with h or v."""
    wide = [name for name, x in arrays.items() if sum(size > 1 for size in array_of(x).shape) == 2]
    biases = [name for name in arrays if name not in wide]
    hidden, visible = ([name for name in biases if re.search(rf"(^|[._]){layer}", name.lower())] for layer in "hv")
    if len(wide) == 1 and len(biases) == 2 and len(hidden) == len(visible) == 1 and hidden != visible:
        return [wide[0], hidden[0], visible[0]]
    raise ValueError(
        f"invalid names: got none, expected those of weights, hidden and visible biases, three of {tuple(arrays)}; add zeros for "
        "biases that the machine lacks"
    )


@dataclass(frozen=True)
class Score:
    """The mean log likelihood of rows, in nats a row."""

    #: Mean over the rows of log f(v) - log Z.
    mean: float
    #: What the 95% interval of log Z leaves open, (lower, upper). A log Z that misses mass is too low, and the mean too high.
    interval: tuple[float, float]
    #: Standard error of the mean over the rows.
    standard_error: float
    #: The mean under base rates, those of `base_data` or of the rows themselves.
    base_rate: float
    #: Number of rows.
    rows: int
    #: Log likelihood of each row, log f(v) - log Z, (rows,).
    by_row: np.ndarray = field(compare=False)
    #: The log Z of the score: a result, or an exact number.
    log_z: Union[LogZ, float] = field(compare=False)
    #: A checksum of the rows.
    data: int
    #: Reasons to doubt it: a machine below its base rates was most likely read wrong.
    warnings: list[str] = field(default_factory=list)
    #: The names of `warnings`.
    warning_names: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        lower, upper = self.interval
        rows = "1 row" if self.rows == 1 else f"{self.rows} rows"
        error = f"{self.standard_error:.3f}" if self.rows > 1 else "unknown"
        text = (
            f"log likelihood of {rows}: {self.mean:.3f} nats a row, +- {error} over rows "
            f"(95% interval from log Z: {lower:.3f} to {upper:.3f}); under base rates {self.base_rate:.3f}"
        )
        return "\n".join([text, *(f"warning: {warning}" for warning in self.warnings)])

    __repr__ = __str__


def score(run: RbmRun, X: Any, log_z: Any) -> Score:
    """Scores rows, for `RbmRun.score`."""
    by = run if log_z is None else log_z
    if isinstance(by, LogZ):
        value, interval = by.log_z, by.interval
    else:
        value = number("log_z", by)
        interval = (value, value)
    rows = bits("X", X, run.visible_units)
    mean, error, base_rate, interval, by_row, doubts = run._score(rows, value, interval)
    by = by if isinstance(by, LogZ) else value
    texts, names = [text for _, text in doubts], [name for name, _ in doubts]
    return Score(mean, interval, error, base_rate, len(rows), by_row, by, zlib.crc32(rows.tobytes()), texts, names)


@dataclass(frozen=True)
class ScoreDifference:
    """The difference of the mean log likelihoods of the same rows under two machines, in nats a row."""

    #: Mean over the rows of the first log likelihood minus the second.
    value: float
    #: Standard error of `value`: of the mean over the rows, and of both log Z.
    standard_error: float
    #: The 95% interval, (lower, upper).
    interval: tuple[float, float]
    #: Standard error of the mean of the differences by row.
    error_over_rows: float
    #: Standard error of the difference of both log Z, which is common to all rows.
    error_of_log_z: float
    #: Number of rows.
    rows: int
    #: Warnings of both log Z, of both together, and of both scores.
    warnings: list[str] = field(default_factory=list)
    #: The names of `warnings`.
    warning_names: list[str] = field(default_factory=list)
    text: str = ""

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text.split("\n")[0]


def compare_scores(first: Score, second: Score) -> ScoreDifference:
    """Compares two scores of the same rows, in pairs: the mean of the differences by row.

    Rows that are unlikely under one machine are mostly unlikely under the other one, too, so the difference is known better than
    either mean.

        one, other = (annealed.rbm(machine, seed=seed) for seed, machine in enumerate(machines))
        print(annealed.compare_scores(one.score(X), other.score(X)))

    The error joins the error over the rows with the errors of both log Z; an exact log Z, `run.score(X, log_z=run.exact())`, has
    none. Both results must be independent, so give each run its own seed; otherwise the warning `SharedSeed` appears.

    Raises ValueError for scores of other rows, or of another number of them.
    """
    for argument in (first, second):
        if not isinstance(argument, Score):
            raise ValueError(f"invalid score: got {type(argument).__name__}, expected one that run.score(X) returns")
    if first is second:
        raise ValueError("invalid scores: got one score twice, expected those of two machines")
    if first.rows != second.rows:
        raise ValueError(f"invalid scores: got {first.rows} and {second.rows} rows, expected the same rows")
    if first.data != second.data:
        raise ValueError(f"invalid scores: got {first.rows} other rows in the second, expected the same rows in the same order")
    results = tuple(score.log_z if isinstance(score.log_z, LogZ) else None for score in (first, second))
    (value, error, interval), (over_rows, of_log_z), doubts, text = _score_difference(first.by_row, second.by_row, results)
    own = [*zip(first.warning_names, first.warnings), *zip(second.warning_names, second.warnings)]
    text += "".join(f"\nwarning: {warning}" for _, warning in own)
    texts, names = [text for _, text in [*doubts, *own]], [name for name, _ in [*doubts, *own]]
    return ScoreDifference(value, error, interval, over_rows, of_log_z, first.rows, texts, names, text)


def reverse(run: RbmRun, samples: Any, threads: Any, progress: Any) -> BothDirections:
    """Runs back, for `RbmRun.reverse`."""
    if not isinstance(samples, str):
        samples = bits("samples", samples, run.visible_units)
    with shown(progress) as show:
        return run._reverse(samples, optional(integer, "threads", threads), show)
