"""Priors of parameters, all with their constants."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Optional, Union

from ._annealed import Prior
from ._annealed import prior as _prior
from ._arrays import integer, number


def _named(name: str, **arguments: Any) -> Prior:
    return _prior(name, [number(argument, value) for argument, value in arguments.items()])


def normal(mean: float, deviation: float) -> Prior:
    """The normal law N(mean, deviation^2)."""
    return _named("normal", mean=mean, deviation=deviation)


def student_t(degrees_of_freedom: float, location: float, scale: float) -> Prior:
    """Student's t law with this location and scale."""
    return _named("student_t", degrees_of_freedom=degrees_of_freedom, location=location, scale=scale)


def log_normal(mean: float, deviation: float) -> Prior:
    """The law of a parameter above 0 whose logarithm is N(mean, deviation^2)."""
    return _named("log_normal", mean=mean, deviation=deviation)


def exponential(rate: float) -> Prior:
    """The exponential law with density rate exp(-rate x), of mean 1 / rate."""
    return _named("exponential", rate=rate)


def gamma(shape: float, rate: float) -> Prior:
    """The gamma law with density proportional to x^(shape - 1) exp(-rate x), of mean shape / rate."""
    return _named("gamma", shape=shape, rate=rate)


def inverse_gamma(shape: float, scale: float) -> Prior:
    """The inverse gamma law with density proportional to x^(-shape - 1) exp(-scale / x)."""
    return _named("inverse_gamma", shape=shape, scale=scale)


def half_normal(deviation: float) -> Prior:
    """The law of |x| for x ~ N(0, deviation^2)."""
    return _named("half_normal", deviation=deviation)


def half_cauchy(scale: float) -> Prior:
    """The law of |x| for x of Cauchy's law around 0 with this scale."""
    return _named("half_cauchy", scale=scale)


def truncated_normal(mean: float, deviation: float, low: float = 0, high: float = math.inf) -> Prior:
    """The normal law N(mean, deviation^2) between `low` and `high`: two finite numbers, or 0 and infinity.

    Stan's `x ~ normal(m, s)` of a parameter with `<lower=0>` lacks the division by the law's mass above 0; this prior has it.
    """
    return _named("truncated_normal", mean=mean, deviation=deviation, low=low, high=high)


def beta(a: float, b: float) -> Prior:
    """The beta law on (0, 1), with density proportional to x^(a - 1) (1 - x)^(b - 1)."""
    return _named("beta", a=a, b=b)


def uniform(low: float, high: float) -> Prior:
    """The uniform law on (low, high)."""
    return _named("uniform", low=low, high=high)


def dirichlet(alpha: Sequence[float]) -> Prior:
    """Dirichlet's law of probabilities with the sum 1, as many as there are numbers in `alpha`."""
    if isinstance(alpha, (str, bytes)) or not hasattr(alpha, "__iter__"):
        raise ValueError(f"invalid alpha: got {alpha!r}, expected a number for each probability: annealed.dirichlet([1, 1, 1])")
    return _prior("dirichlet", [number("alpha", value) for value in alpha])


def independent(prior: Prior, count: int) -> Prior:
    """`count` independent parameters with the same prior: a vector."""
    return _prior("independent", [], prior, integer("count", count, 1))


def ordered(prior: Prior, count: int) -> Prior:
    """`count` independent parameters with the same prior, sorted in increasing order, as the means of a mixture."""
    return _prior("ordered", [], prior, integer("count", count, 1))


def effects(
    prior: Prior,
    count: int,
    *,
    location: Optional[int] = None,
    scale: Optional[int] = None,
    variance: Optional[int] = None,
    precision: Optional[int] = None,
) -> Prior:
    """`count` effects of a hierarchy, not centred: an effect is m + s z with z of `prior`, such as `normal(0, 1)`.

    `location` and `scale` are indices of parameters, and no values. `location=0` says that m is the first parameter, and
    `scale=1` that s is the second one. Both must come before the effects. Without `location` m is 0, without `scale` s is 1.
    If the parameter is s^2 or 1 / s^2, give its index as `variance` or `precision` in the place of `scale`.

        prior = {"mu": annealed.normal(0, 10), "tau": annealed.half_cauchy(5),
                 "theta": annealed.effects(annealed.normal(0, 1), 8, location=0, scale=1)}  # theta_i = mu + tau z_i
    """
    scales = [("scale", scale, 1.0), ("variance", variance, 0.5), ("precision", precision, -0.5)]
    given = [of for of in scales if of[1] is not None]
    if len(given) > 1:
        raise ValueError(f"got {' and '.join(of[0] for of in given)}, expected one of scale, variance and precision")
    place_of_scale, of_scale, power = given[0] if given else scales[0]
    indices = [
        -1.0 if index is None else float(integer(f"{place} of effects, the index of a parameter,", index))
        for place, index in (("location", location), (place_of_scale, of_scale))
    ]
    return _prior("effects", [*indices, power], prior, integer("count", count, 1))


def parameter_names(named: Sequence[tuple[str, Prior]]) -> list[str]:
    """Returns a name for each column of parameters: mu, theta[0], theta[1], .."""
    return [column for name, law in named for column in _columns(name, law.parameters)]


def _columns(name: str, count: Optional[int]) -> list[str]:
    return [name] if count is None else [f"{name}[{i}]" for i in range(count)]


#: A dict of priors by name, or a sequence, whose parameters are named x[0], x[1], ...
PriorLike = Union["Mapping[str, Prior]", "Sequence[Prior]", Prior]


def pairs(prior: PriorLike) -> list[tuple[str, Prior]]:
    """Returns names and priors."""
    if isinstance(prior, Prior):
        prior = [prior]
    if isinstance(prior, str) or not isinstance(prior, (Mapping, Sequence)):
        raise ValueError(f"invalid prior: got {prior!r}, expected a dict of priors by name, or a sequence of priors")
    if isinstance(prior, Mapping):
        found = [(str(name), law) for name, law in prior.items()]
    else:
        found = [(f"x[{i}]", law) for i, law in enumerate(prior)]
    for name, law in found:
        if not isinstance(law, Prior):
            raise ValueError(f"invalid prior of {name}: got {law!r}, expected one such as annealed.normal(0, 1)")
    return found
