"""A function with its base as the runs of the library take them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Callable, Optional

import numpy as np

from ._annealed import NonFinite, prior_draws
from ._annealed import challenge as _challenge
from ._arrays import BatchFunction, integer, number, optional, seed_of
from ._priors import PriorLike, pairs, parameter_names
from ._progress import shown


class Asked:
    """A user's function, and the settings of the kernel. The extension module reads the attributes."""

    #: The call of the extension module that challenges a result.
    challenge: Callable[..., Any]

    def __init__(self, function: BatchFunction, step_size: Optional[float], leapfrog: int) -> None:
        self.function = function
        function.instead_of_pair = "pass `gradient=True` if it returns values and gradients"
        self.with_gradient = function.gradient is not None
        self.step_size = number("step_size", (0.3 if self.with_gradient else 0.5) if step_size is None else step_size)
        self.leapfrog = integer("leapfrog", leapfrog)

    @property
    def epsilon(self) -> float:
        """Machine epsilon of the function's numbers."""
        return self.function.epsilon

    def try_at(self, states: np.ndarray, rows: Optional[int]) -> None:
        """Calls the function with a few states, before any run. A function of JAX gets `rows` states a call later."""
        self.function.check(states)
        self.function.rows = rows if self.function.is_of_jax else None

    def run(
        self,
        call: Callable[..., Any],
        *arguments: Any,
        seed: Any,
        time_limit: Any,
        threads: Any,
        progress: Any,
    ) -> Any:
        """Makes a call of the extension module, whose last argument is the control of the run."""
        self.function.refused = None
        control = SimpleNamespace(
            seed=seed_of(seed),
            time_limit=optional(number, "time_limit", time_limit),
            threads=optional(integer, "threads", threads),
        )
        with shown(progress) as control.progress:
            try:
                return call(*arguments, control)
            except NonFinite as error:
                raise self.function.named(error) from None


class Problem(Asked):
    """A prior and a likelihood."""

    challenge = staticmethod(_challenge)

    def __init__(
        self,
        prior: PriorLike,
        log_likelihood: Any,
        gradient: Any = None,
        *,
        step_size: Optional[float],
        leapfrog: int = 1,
        laplace: bool = False,
    ) -> None:
        self.priors = pairs(prior)
        function = BatchFunction("log_likelihood", log_likelihood, gradient, parameter_names(self.priors))
        super().__init__(function, step_size, leapfrog)
        self.laplace = laplace
        if laplace and not self.with_gradient:
            raise ValueError("invalid base: got laplace without a gradient, expected a gradient, from which the mode is found")

    def check(self, rows: Optional[int] = None) -> Problem:
        """Calls the function with a few draws of the prior, before any run. A function of JAX gets `rows` states a call later."""
        self.try_at(prior_draws(self.priors, 3, 0), rows)
        return self
