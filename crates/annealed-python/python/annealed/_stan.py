"""Stan models."""

from __future__ import annotations

import os
from typing import Any, Optional, Union

from ._annealed import Evidence
from ._annealed import stan as _stan
from ._arrays import integer, number, optional, seed_of
from ._progress import shown


def stan(
    library: Union[str, "os.PathLike[str]"],
    data: Union[str, "os.PathLike[str]"] = "",
    *,
    chains: int = 4096,
    stages: int = 20,
    step_size: float = 0.4,
    leapfrog: int = 3,
    seed: int = 0,
    threads: Optional[int] = None,
    progress: Any = None,
) -> Evidence:
    """Estimates the log evidence of a Stan model that BridgeStan compiled: `make -C bridgestan STAN_THREADS=true my_model.so`.

    It anneals from Student's t around Laplace's approximation, by Hamiltonian dynamics in the posterior's shape. Every prior must
    integrate to 1: write `normal(0, 1) T[0, ]` for a parameter above 0. Several modes, or a centred hierarchy, may be missed:
    compare with `annealed.from_draws`.

    Parameters
    ----------
    library : the shared library. Opening it runs its code: open none that you do not trust
    data : a path that ends in .json, JSON itself, or nothing
    chains, stages, seed, threads, progress : as of `annealed.rbm`; 20 stages are enough for a posterior that is about Gaussian
    step_size, leapfrog : Hamiltonian trajectories, in units of the posterior's deviations

    Raises ValueError or OSError for a library or data that cannot be used, and a posterior with a misleading mode.
    """
    with shown(progress) as show:
        return _stan(
            os.fspath(library),
            os.fspath(data),
            chains=integer("chains", chains),
            stages=integer("stages", stages),
            step_size=number("step_size", step_size),
            leapfrog=integer("leapfrog", leapfrog),
            seed=seed_of(seed),
            threads=optional(integer, "threads", threads),
            progress=show,
        )
