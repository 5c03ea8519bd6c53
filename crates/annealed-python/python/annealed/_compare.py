"""Several results beside each other: models of one data set, and data sets of one model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional, Union

from ._annealed import LogZ, LogZSum
from ._annealed import compare as _compare
from ._annealed import log_z_sum as _log_z_sum
from ._arrays import number


@dataclass(frozen=True)
class Model:
    """A model of a comparison."""

    #: Name of the model.
    name: str
    #: Estimate of the model's log Z.
    log_z: float
    #: Standard error of `log_z`.
    standard_error: float
    #: 95% interval of log Z.
    interval: tuple[float, float]
    #: Log of this model's Z over the best model's Z: value, standard error and interval. None for the best model.
    from_best: Optional[tuple[float, float, tuple[float, float]]]
    #: Prior probability; those of all models sum to 1.
    prior: float
    #: Posterior probability; those of all models sum to 1.
    probability: float
    #: Standard error of `probability`. Near 0 and 1 the interval is more informative.
    probability_error: float
    #: 95% interval of the posterior probability.
    probability_interval: tuple[float, float]
    #: Warnings of the model's result.
    warnings: list[str] = field(default_factory=list)
    #: The names of `warnings`.
    warning_names: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Comparison:
    """Models of one data set by their evidences. The text is a table, with the warnings of all models below it."""

    #: The models, the largest log Z first.
    models: list[Model]
    #: Warnings of the comparison itself; each model has its own, too.
    warnings: list[str]
    #: The names of `warnings`.
    warning_names: list[str]
    text: str

    @property
    def probabilities(self) -> dict[str, float]:
        """Posterior probabilities by name, the best model first."""
        return {model.name: model.probability for model in self.models}

    def __getitem__(self, name: str) -> Model:
        by_name = {model.name: model for model in self.models}
        return by_name[name]

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__


def compare(runs: Mapping[str, Union[LogZ, Sequence[LogZ]]], priors: Optional[Mapping[str, float]] = None) -> Comparison:
    """Compares models of the same data by their evidences, in a table with posterior probabilities.

        annealed.compare({"line": line, "parabola": parabola})

    Parameters
    ----------
    runs : results by name; a list of results is a model of several data sets, whose log Z are added. The results must be
        independent, so give each run its own seed; otherwise the warning `SharedSeed` appears. Models of different numbers of
        data sets warn (`DifferentData`)
    priors : prior probabilities by name, scaled to a sum of 1; equal ones unless set

    Returns a Comparison, with `models`, `probabilities` and `warnings`. A model whose result warns is marked by `!`, and the lines
    below the table have its warnings with its name.

    Raises ValueError for no models, other values than results, a log Z that is not finite, or one result twice.
    """
    if not isinstance(runs, Mapping):
        raise ValueError(f"invalid runs: got {type(runs).__name__}, expected a dict of results by name")
    if priors is not None and set(priors) != set(runs):
        raise ValueError(f"invalid priors: got {sorted(map(str, priors))}, expected a number for each of {sorted(map(str, runs))}")
    models = [
        (str(name), _result(f"run {name}", run), 1.0 if priors is None else number(f"prior of {name}", priors[name]))
        for name, run in runs.items()
    ]
    rows, doubts, text = _compare(models)
    found = [
        Model(name, *log_z, best, prior, *probability, [text for _, text in own], [warning for warning, _ in own])
        for name, log_z, best, prior, probability, own in rows
    ]
    return Comparison(found, [text for _, text in doubts], [name for name, _ in doubts], text)


def log_z_sum(results: Sequence[LogZ]) -> LogZSum:
    """Adds the log Z of independent results: the log evidence of one model for several data sets (subjects, or folds), each with
    parameters of its own. Give each run its own seed.

    Returns a LogZSum, with `log_z`, `standard_error`, `interval`, `warnings` and `data_sets`. Raises ValueError for no results, or
    one of them twice.
    """
    if isinstance(results, (LogZ, str)) or not isinstance(results, Sequence):
        raise ValueError(f"invalid results: got {type(results).__name__}, expected a list of results")
    return _log_z_sum([_result(f"result {place}", result) for place, result in enumerate(results)])


def _result(name: str, x: Any) -> LogZ:
    if isinstance(x, Sequence) and not isinstance(x, str):
        return log_z_sum(x)
    if not isinstance(x, LogZ):
        raise ValueError(f"invalid {name}: got {type(x).__name__}, expected one such as annealed.evidence returns")
    return x
