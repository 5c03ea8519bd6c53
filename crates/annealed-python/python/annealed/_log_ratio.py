"""The ratio of two results: a Bayes factor."""

from __future__ import annotations

from dataclasses import dataclass, field

from ._annealed import LogZ
from ._annealed import log_ratio as _log_ratio


@dataclass(frozen=True)
class LogRatio:
    """The logarithm of Z_1 / Z_2; of two evidences the log Bayes factor."""

    #: The estimate of log(Z_1 / Z_2).
    value: float
    #: Standard error of `value`.
    standard_error: float
    #: The 95% interval, (lower, upper).
    interval: tuple[float, float]
    #: Warnings of the first result, then of the second, then of both together.
    warnings: list[str] = field(default_factory=list)
    #: The names of `warnings`.
    warning_names: list[str] = field(default_factory=list)
    text: str = ""

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text.split("\n")[0]


def log_ratio(first: LogZ, second: LogZ) -> LogRatio:
    """Compares two independent results: runs with different seeds, of any methods.

    For two models of one data set it is the log Bayes factor of the first against the second.

    The interval assumes that the results are independent. Two runs of one function with one seed share random numbers, so give
    each its own seed; otherwise the warning `SharedSeed` appears. A result and itself are refused.
    """
    for argument in (first, second):
        if not isinstance(argument, LogZ):
            raise ValueError(f"invalid result: got {type(argument).__name__}, expected one such as annealed.evidence returns")
    if first is second:
        raise ValueError("invalid results: got one result twice, expected two independent ones")
    value, error, interval, doubts, text = _log_ratio(first, second)
    return LogRatio(value, error, interval, [text for _, text in doubts], [name for name, _ in doubts], text)
