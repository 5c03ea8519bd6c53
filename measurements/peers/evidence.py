#!/usr/bin/env python3
"""Evaluations of the likelihood that the evidence takes by four nested and preconditioned samplers and by this package.

    pip install numpy scipy dynesty==3.1.0 ultranest==4.6.3 nautilus-sampler==1.0.6 pocomc==1.2.6 and the package annealed
    measurements/peers/evidence.py run LINES --seeds 4          # appends to LINES what is not in it; one to two core hours
    measurements/peers/evidence.py run LINES --only beetles --peers annealed,nautilus
    measurements/peers/evidence.py table LINES

Twelve posteriors with known evidence, ten of them those of `measurements/src/bin/evidence`. All programs get the same function
and the same prior; rows are counted in the function.
"""

import argparse
import contextlib
import io
import json
import logging
import os
import time
import warnings
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np  # noqa: E402
import scipy.linalg  # noqa: E402
import scipy.special  # noqa: E402
import scipy.stats  # noqa: E402

TAU = 2 * np.pi


class Problem:
    """A posterior: for each parameter ("normal", mean, deviation) or ("uniform", low, high), and a function of rows."""

    def __init__(self, name, priors, log_likelihood, log_z):
        self.name, self.priors, self.log_z, self.rows = name, priors, log_z, 0
        self._log_likelihood = log_likelihood

    @property
    def dimension(self):
        return len(self.priors)

    def log_likelihood(self, x):
        self.rows += len(x)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            return self._log_likelihood(x)

    def of_one(self, x):
        return float(self.log_likelihood(np.atleast_2d(x))[0])

    def transform(self, u):
        """Maps the unit cube to parameters."""
        u = np.asarray(u)
        x = np.empty_like(u)
        for i, (kind, a, b) in enumerate(self.priors):
            x[..., i] = a + b * scipy.special.ndtri(u[..., i]) if kind == "normal" else a + (b - a) * u[..., i]
        return x


def standard(dimension):
    return [("normal", 0.0, 1.0)] * dimension


def uniform(dimension, low, high):
    return [("uniform", low, high)] * dimension


def log_normal(x, mean, deviation):
    return -0.5 * ((x - mean) / deviation) ** 2 - np.log(deviation * TAU**0.5)


def midpoints(low, high, count):
    width = (high - low) / count
    return low + width * (np.arange(count) + 0.5), np.log(width)


def log_square(log_f, first, second):
    """Returns the log of an integral over a rectangle by midpoints; `log_f` of (a, b) takes arrays."""
    (a, log_a), (b, log_b) = first, second
    return scipy.special.logsumexp([scipy.special.logsumexp(log_f(x, b)) for x in a]) + log_a + log_b


def noise():
    """Yields numbers that look normal, those of the program in Rust."""
    state = 7
    while True:
        total = 0.0
        for _ in range(12):
            state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
            total += (state >> 11) / 2**53
        yield total - 6.0


def normal():
    log_z = log_normal(1.3, 0.0, 1.04**0.5)
    return Problem("normal, 1-d", standard(1), lambda x: log_normal(x[:, 0], 1.3, 0.2), log_z)


def beetles():
    """Deaths of beetles by the log dose of carbon disulphide (Bliss 1935)."""
    dose = np.array([1.6907, 1.7242, 1.7552, 1.7842, 1.8113, 1.8369, 1.8610, 1.8839])
    insects = np.array([59, 60, 62, 56, 63, 59, 62, 60.0])
    deaths = np.array([6, 13, 18, 28, 52, 53, 61, 60.0])

    def of(a, b):
        logit = 5 * np.asarray(a)[..., None] + 40 * np.asarray(b)[..., None] * (dose - 1.793)
        return (-deaths * np.logaddexp(0, -logit) - (insects - deaths) * np.logaddexp(0, logit)).sum(axis=-1)

    prior = lambda a, b: log_normal(a, 0, 1) + log_normal(b, 0, 1)  # noqa: E731
    grid = midpoints(-1, 3, 1200)
    log_z = log_square(lambda a, b: of(a, b) + prior(a, b), grid, grid)
    return Problem("beetles, 2-d", standard(2), lambda x: of(x[:, 0], x[:, 1]), log_z)


def gaussian_in_a_box():
    covariance = 0.25 * 0.95 ** abs(np.subtract.outer(np.arange(5), np.arange(5)))
    law = scipy.stats.multivariate_normal(np.ones(5), covariance)
    density = lambda x: np.atleast_1d(law.logpdf(x))  # noqa: E731
    return Problem("Gaussian in a box, 5-d", uniform(5, -10, 10), density, -5 * np.log(20))


def schools():
    effects, errors = np.array([28, 8, -3, 7, -1, 1, 18, 12.0]), np.array([15, 10, 16, 11, 9, 11, 10, 18.0])

    def integrated(a, b):
        deviation = np.hypot(np.exp(1 + b)[:, None], errors)
        return log_normal(effects, 5 * a, deviation).sum(axis=1) + log_normal(a, 0, 1) + log_normal(b, 0, 1)

    def of(x):
        return log_normal(effects, 5 * x[:, :1] + np.exp(1 + x[:, 1:2]) * x[:, 2:], errors).sum(axis=1)

    grid = midpoints(-6, 6, 800)
    return Problem("eight schools, 10-d", standard(10), of, log_square(integrated, grid, grid))


def cube():
    density = lambda x: log_normal(x, 0.2, 0.1).sum(axis=1)  # noqa: E731
    return Problem("Gaussian in a cube, 20-d", uniform(20, -1, 1), density, -20 * np.log(2))


def regression():
    drawn = noise()
    design = np.array([next(drawn) for _ in range(1000)]).reshape(10, 100).T
    slopes = np.array([next(drawn) for _ in range(10)])
    data = design @ slopes + 0.5 * np.array([next(drawn) for _ in range(100)])
    log_z = scipy.stats.multivariate_normal(np.zeros(100), design @ design.T + 0.25 * np.eye(100)).logpdf(data)

    def of(x):
        return -2 * ((data - x @ design.T) ** 2).sum(axis=1) - 100 * np.log(0.5 * TAU**0.5)

    return Problem("regression, 10-d", standard(10), of, log_z)


def shells():
    def of(x, y):
        shell = lambda centre: log_normal(np.hypot(x - centre, y), 2, 0.1)  # noqa: E731
        return np.logaddexp(shell(-3.5), shell(3.5))

    grid = midpoints(-6, 6, 3000)
    log_z = log_square(of, grid, grid) - 2 * np.log(12)
    return Problem("shells, 2-d", uniform(2, -6, 6), lambda x: of(x[:, 0], x[:, 1]), log_z)


def rosenbrock():
    """Integrated one coordinate after another."""
    at, log_width = midpoints(-5, 5, 2001)
    rest = np.zeros(2001)
    for _ in range(3):
        factors = -100 * (at[None, :] - at[:, None] ** 2) ** 2 - (1 - at[:, None]) ** 2
        rest = scipy.special.logsumexp(rest[None, :] + factors, axis=1) + log_width
    log_z = scipy.special.logsumexp(rest) + log_width - 4 * np.log(10)

    def of(x):
        return -(100 * (x[:, 1:] - x[:, :-1] ** 2) ** 2 + (1 - x[:, :-1]) ** 2).sum(axis=1)

    return Problem("Rosenbrock, 4-d", uniform(4, -5, 5), of, log_z)


def period():
    """A sine of unknown period in 30 observations: frequency, log deviation + 1, two amplitudes and the level."""
    drawn = noise()
    times = np.array([0.33 * i + 0.1 * next(drawn) for i in range(30)])
    data = 0.8 * np.sin(TAU * 1.9 * times) + 0.3 + 0.4 * np.array([next(drawn) for _ in range(30)])

    def features(frequency):
        angle = TAU * np.asarray(frequency)[..., None] * times
        return np.stack([np.sin(angle), np.cos(angle), np.ones_like(angle)], axis=-1)

    def integrated(frequency, x):
        """Integrates the three coefficients out."""
        rows, precision = features(frequency), np.exp(-2 * (x - 1))
        whole = np.eye(3) + rows.T @ rows * precision[:, None, None]
        moments = np.broadcast_to(rows.T @ data, (len(x), 3))
        solved = np.linalg.solve(whole * 1.0, (moments * precision[:, None])[..., None])[..., 0]
        fit = precision * (data @ data) - precision * (moments * solved).sum(axis=1)
        of_data = np.linalg.slogdet(whole)[1] + 30 * np.log(TAU / precision) + fit
        return -0.5 * of_data + log_normal(x, 0, 1)

    log_z = log_square(integrated, midpoints(1, 3, 4000), midpoints(-4, 4, 200)) - np.log(2)

    def of(x):
        means = (features(x[:, 0]) * x[:, None, 2:]).sum(axis=-1)
        return log_normal(data, means, np.exp(x[:, 1:2] - 1)).sum(axis=1)

    return Problem("unknown period, 5-d", [("uniform", 1.0, 3.0), *standard(4)], of, log_z)


def eggbox():
    of = lambda x, y: (2 + np.cos(0.5 * x) * np.cos(0.5 * y)) ** 5  # noqa: E731
    side = 10 * np.pi
    grid = midpoints(0, side, 4000)
    log_z = log_square(of, grid, grid) - 2 * np.log(side)
    return Problem("eggbox, 2-d", uniform(2, 0, side), lambda x: of(x[:, 0], x[:, 1]), log_z)


def modes():
    """A fifth of the mass at 3 in all coordinates, the rest at -3."""

    def of(x):
        mode = lambda share, mean: np.log(share) + log_normal(x, mean, 1).sum(axis=1)  # noqa: E731
        return np.logaddexp(mode(0.2, 3), mode(0.8, -3))

    return Problem("two modes, 5-d", uniform(5, -10, 10), of, -5 * np.log(20))


def epidemic():
    """Boys in bed on 14 days of an influenza in a boarding school of 763 (BMJ 1978); rates of infection and recovery by day."""
    in_bed = np.array([3, 8, 26, 76, 225, 298, 258, 233, 189, 128, 68, 29, 14, 4])

    def sick(rate, recovery):
        """Integrates the equations of Kermack and McKendrick by Runge and Kutta, ten steps a day."""
        state = np.stack([np.full_like(rate, 762.0), np.ones_like(rate)])

        def slope(state):
            new = rate * state[0] * state[1] / 763
            return np.stack([-new, new - recovery * state[1]])

        days, h = [], 0.1
        for step in range(140):
            if step % 10 == 0:
                days.append(state[1])
            a = slope(state)
            b = slope(state + h / 2 * a)
            c = slope(state + h / 2 * b)
            d = slope(state + h * c)
            state = np.maximum(state + h / 6 * (a + 2 * b + 2 * c + d), 1e-9)
        return np.stack(days, axis=-1)

    def of(x, y):
        means = sick(np.exp(0.5 + x), np.exp(-0.7 + 0.5 * y))
        log_poisson = (in_bed * np.log(means) - means - scipy.special.gammaln(in_bed + 1)).sum(axis=-1)
        return np.where(np.isnan(log_poisson), -np.inf, log_poisson)  # rates for which the steps are far too long

    grids = midpoints(-0.5, 1, 1500), midpoints(-1.5, 1.5, 1500)
    prior = lambda a, b: log_normal(a, 0, 1) + log_normal(b, 0, 1)  # noqa: E731
    log_z = log_square(lambda a, b: of(np.full_like(b, a), b) + prior(a, b), *grids)
    return Problem("epidemic, 2-d", standard(2), lambda x: of(x[:, 0], x[:, 1]), log_z)


PROBLEMS = [normal, beetles, gaussian_in_a_box, schools, cube, regression, shells, rosenbrock, period, eggbox, modes, epidemic]


def by_annealed(problem, error, seed):
    import annealed

    prior = [getattr(annealed, kind)(a, b) for kind, a, b in problem.priors]
    run = annealed.evidence(prior, problem.log_likelihood, until_error=error, fitted=True, seed=seed)
    return run.log_z, run.standard_error, bool(run.warnings)


def by_dynesty(problem, error, seed):
    import dynesty

    rng = np.random.default_rng(seed)
    args = (problem.of_one, problem.transform, problem.dimension)
    sampler = dynesty.NestedSampler(*args, nlive=500, rstate=rng)
    sampler.run_nested(dlogz=0.01, add_live=True, print_progress=False)
    return sampler.results.logz[-1], sampler.results.logzerr[-1], False


def by_ultranest(problem, error, seed):
    import ultranest
    import ultranest.stepsampler

    np.random.seed(seed)
    names = [f"x{i}" for i in range(problem.dimension)]
    sampler = ultranest.ReactiveNestedSampler(names, problem.log_likelihood, problem.transform, vectorized=True)
    if problem.dimension > 5:  # as its documentation advises where regions fill little of the space
        moves = ultranest.stepsampler.generate_mixture_random_direction
        sampler.stepsampler = ultranest.stepsampler.SliceSampler(nsteps=2 * problem.dimension, generate_direction=moves)
    result = sampler.run(show_status=False, viz_callback=False, min_num_live_points=400)
    return result["logz"], result["logzerr"], False


def by_nautilus(problem, error, seed):
    import nautilus

    sampler = nautilus.Sampler(
        problem.transform, problem.log_likelihood, problem.dimension, vectorized=True, pass_dict=False, seed=seed
    )
    sampler.run(n_eff=error**-2, discard_exploration=True, verbose=False)
    return sampler.log_z, sampler.n_eff**-0.5, False


def by_pocomc(problem, error, seed):
    import pocomc

    laws = [scipy.stats.norm(a, b) if kind == "normal" else scipy.stats.uniform(a, b - a) for kind, a, b in problem.priors]
    prior = pocomc.Prior(laws)
    sampler = pocomc.Sampler(prior, problem.log_likelihood, vectorize=True, random_state=seed)
    sampler.run(n_total=4096 if error > 0.05 else 16384, progress=False)
    log_z, stated = sampler.evidence()
    return log_z, stated, False


#: Each program, and whether its error is set. The rows of the others are scaled to the error.
PEERS = {
    "annealed": (by_annealed, True),
    "nautilus": (by_nautilus, True),
    "pocomc": (by_pocomc, True),
    "dynesty": (by_dynesty, False),
    "ultranest": (by_ultranest, False),
}


def run(options):
    lines = Path(options.lines)
    known = [json.loads(line) for line in lines.read_text().splitlines()] if lines.exists() else []
    key = lambda line: (line["peer"], line["problem"], line["asked"], line["seed"])  # noqa: E731
    done = {key(line) for line in known}
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    for make in PROBLEMS:
        if options.only not in make.__name__:
            continue
        problem = make()
        for peer in options.peers.split(","):
            program, takes_error = PEERS[peer]
            if peer == "nautilus" and problem.dimension == 1:
                continue  # it refuses one parameter
            for asked in options.errors if takes_error else [max(options.errors)]:
                for seed in range(options.seeds):
                    line = {"peer": peer, "problem": problem.name, "asked": asked, "seed": seed}
                    if key(line) in done:
                        continue
                    problem.rows, start = 0, time.process_time()
                    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                        log_z, stated, warned = program(problem, asked, seed)
                    line |= {"rows": problem.rows, "error": float(log_z - problem.log_z), "stated": float(stated)}
                    line |= {"warned": warned, "seconds": round(time.process_time() - start, 1)}
                    with lines.open("a") as file:
                        file.write(json.dumps(line) + "\n")
                    print(json.dumps(line), flush=True)


def table(options):
    runs = [json.loads(line) for line in Path(options.lines).read_text().splitlines()]
    problems = list(dict.fromkeys(run["problem"] for run in runs))
    print("| posterior | program | rows for .1 | for .02 | rms error | stated | off by 4 errors and .1 | core seconds |")
    print("|---|---|--:|--:|--:|--:|--:|--:|")
    for problem in problems:
        for peer, (_, takes_error) in PEERS.items():
            mine = [run for run in runs if run["problem"] == problem and run["peer"] == peer]
            if not mine:
                continue
            print(f"| {problem} | {peer} | {row(mine, takes_error)} |")


def row(runs, takes_error):
    def rows(error):
        counts = [run["rows"] * (1 if takes_error else (run["stated"] / error) ** 2) for run in runs if not takes_error or run["asked"] == error]
        return f"{np.median(counts):.1e}" + ("" if takes_error else " \\*") if counts else "-"

    asked = max(run["asked"] for run in runs)
    runs_shown = [run for run in runs if run["asked"] == asked]
    rms = lambda name: np.mean([run[name] ** 2 for run in runs_shown]) ** 0.5  # noqa: E731
    off = sum(abs(run["error"]) > max(4 * run["stated"], 0.1) and not run["warned"] for run in runs)
    seconds = np.median([run["seconds"] for run in runs_shown])
    return f"{rows(0.1)} | {rows(0.02)} | {rms('error'):.3f} | {rms('stated'):.3f} | {off} of {len(runs)} | {seconds:.1f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("command", choices=["run", "table"])
    parser.add_argument("lines")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--only", default="", help="part of a problem's name")
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--errors", type=float, nargs="+", default=[0.1, 0.02])
    options = parser.parse_args()
    {"run": run, "table": table}[options.command](options)


main()
