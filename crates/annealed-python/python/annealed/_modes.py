"""The evidence of models that annealing from the prior gets wrong."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Callable, Optional, Union

import numpy as np

from ._annealed import Evidence
from ._annealed import nested as _nested
from ._annealed import tempering as _tempering
from ._arrays import integer, number, optional
from ._priors import PriorLike
from ._problem import Problem


def nested(
    prior: PriorLike,
    log_likelihood: Callable[[np.ndarray], Any],
    *,
    islands: int = 32,
    chains: int = 64,
    moves: int = 50,
    share: float = 0.3,
    precision: float = 1e-3,
    max_levels: int = 1000,
    kept: int = 10_000,
    until_error: Optional[float] = None,
    time_limit: Optional[float] = None,
    seed: int = 0,
    step_size: Optional[float] = None,
    threads: Optional[int] = None,
    progress: Any = None,
) -> Evidence:
    """Estimates the log evidence by nested levels of the likelihood, for a narrow spike on top of a wide part of the posterior, to
    which no temperature leads.

    It restricts the prior to the states above rising levels of the likelihood. Your function is called with single states, so a
    run makes as many calls as `run.evaluations`, about `chains * moves * (islands + 1)` for each level: use smaller numbers first.

    Parameters
    ----------
    prior, log_likelihood, time_limit, seed, threads, progress : as of `annealed.evidence`; a `time_limit` keeps finished islands
    islands : independent groups of chains, whose spread is the error; 25 or more
    chains, moves : chains of an island, and moves of each chain at a level. For a smaller error, add moves first, then chains
    share : share of the states that lies above the next level
    precision : share of the evidence that may lie above the last level
    max_levels : the largest number of levels
    kept : about so many weighted states are kept for `draws(n)` and `summary()`
    until_error : end the run at this standard error of log Z; `islands` is then the largest number of them
    step_size : where the tuning of the kernel starts

    Returns an Evidence, whose `chains` are the islands and whose `stages` are the levels. It has no `plot` and no `reverse`.
    """
    problem = Problem(prior, log_likelihood, step_size=step_size)
    settings = SimpleNamespace(
        islands=integer("islands", islands),
        chains=integer("chains", chains),
        moves=integer("moves", moves),
        share=number("share", share),
        precision=number("precision", precision),
        max_levels=integer("max_levels", max_levels),
        kept=integer("kept", kept),
        until_error=optional(number, "until_error", until_error),
    )
    control = {"seed": seed, "time_limit": time_limit, "threads": threads, "progress": progress}
    return problem.check().run(_nested, problem, settings, **control)  # type: ignore[no-any-return]


def tempering(
    prior: PriorLike,
    log_likelihood: Callable[[np.ndarray], Any],
    gradient: Union[Callable[[np.ndarray], Any], bool, None] = None,
    *,
    ladders: int = 8,
    stages: int = 20,
    rounds: int = 10,
    samples: int = 1000,
    until_error: Optional[float] = None,
    time_limit: Optional[float] = None,
    seed: int = 0,
    step_size: Optional[float] = None,
    leapfrog: int = 3,
    block_size: Optional[int] = None,
    threads: Optional[int] = None,
    progress: Any = None,
) -> Evidence:
    """Estimates the log evidence by parallel tempering, for many modes whose shares you need.

    Chains at temperatures from the prior to the posterior exchange their states, so that they can leave a mode again. A first
    pass tunes the kernel and places the temperatures.

    Parameters
    ----------
    prior, log_likelihood, gradient, seed, step_size, leapfrog, threads, progress : as of `annealed.evidence`
    ladders : independent sets of chains, whose spread is the error
    stages : steps from one temperature to the next; about twice the barrier of the text serves best
    rounds : the largest number of rounds, each of twice as many scans; the last one counts
    samples : the largest number of draws that the last round keeps
    until_error : end the run at this standard error of log Z, from the fifth round on
    time_limit : end the run after so many seconds, with the last finished round
    block_size : number of ladders that are evaluated together; all of them unless set

    Returns an Evidence, whose `chains` are the ladders. It has no `plot`, no `reverse` and no certified bound.
    """
    problem = Problem(prior, log_likelihood, gradient, step_size=step_size, leapfrog=leapfrog)
    settings = SimpleNamespace(
        ladders=integer("ladders", ladders),
        stages=integer("stages", stages),
        rounds=integer("rounds", rounds),
        samples=integer("samples", samples),
        block_size=integer("block_size", max(integer("ladders", ladders), 1) if block_size is None else block_size),
        until_error=optional(number, "until_error", until_error),
    )
    control = {"seed": seed, "time_limit": time_limit, "threads": threads, "progress": progress}
    return problem.check().run(_tempering, problem, settings, **control)  # type: ignore[no-any-return]
