#!/usr/bin/env python3
"""Twenty posteriors with known evidence for `annealed.evidence(.., fitted=True)`, which was not developed on them.

    pip install numpy and the package annealed
    measurements/peers/held_out.py run LINES --seeds 40          # appends to LINES what is not in it
    measurements/peers/held_out.py run LINES --only ring --error 0.02
    measurements/peers/held_out.py table LINES

The evidence has a closed form or comes from quadrature, at the start. Rows are counted in the function.
"""

import argparse
import json
import math
import os
import time
from collections import namedtuple
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np  # noqa: E402
from annealed import effects, evidence, exponential, gamma, half_cauchy, log_normal, normal, uniform  # noqa: E402

TAU = 2 * np.pi

#: A list of priors, a function of rows, and log Z.
Problem = namedtuple("Problem", "priors log_likelihood log_z")


def density(x, mean, deviation):
    """The log density of normal laws."""
    return -0.5 * ((x - mean) / deviation) ** 2 - np.log(deviation * TAU**0.5)


def joint_density(x, covariance):
    """The log density at each row of the normal law with mean 0 and this covariance."""
    scaled = np.linalg.solve(np.linalg.cholesky(covariance), x.T)
    return -0.5 * (scaled**2).sum(axis=0) - 0.5 * np.linalg.slogdet(TAU * covariance)[1]


def mixture(x, shares, means, deviations):
    """The log density of a mixture of normal laws with independent coordinates."""
    means, deviations = (np.asarray(of).reshape(len(shares), -1) for of in (means, deviations))
    return log_sum(density(x[:, None], means, deviations).sum(axis=2) + np.log(shares), axis=1)


def log_sum(x, axis=None):
    x = np.asarray(x)
    largest = x.max(axis=axis, keepdims=True)
    total = np.log(np.exp(x - largest).sum(axis=axis, keepdims=True)) + largest
    return total.item() if axis is None else total.squeeze(axis)


def midpoints(low, high, count):
    """Points for quadrature, and the log of their distance."""
    width = (high - low) / count
    return low + width * (np.arange(count) + 0.5), math.log(width)


def log_integral(log_f, dimension, low, high, count):
    """The log of an integral over a cube, by midpoints."""
    points, log_width = midpoints(low, high, count)
    rest = np.meshgrid(*[points] * (dimension - 1))
    rest = np.column_stack([axis.ravel() for axis in rest])
    slices = [log_sum(log_f(np.insert(rest, 0, first, axis=1))) for first in points]
    return log_sum(slices) + dimension * log_width


def faint_source():
    """Four counts over a background of 3.1: the signal is near its bound 0."""
    n, background, rate = 4, 3.1, 0.5

    def of(x):
        mean = x[:, 0] + background
        return n * np.log(mean) - mean - math.lgamma(n + 1)

    # The binomial sum of (signal + background)^n, integrated term by term.
    term = lambda j: background ** (n - j) / math.factorial(n - j) * rate / (1 + rate) ** (j + 1)  # noqa: E731
    return Problem([exponential(rate)], of, math.log(sum(map(term, range(n + 1)))) - background)


def ring():
    """A place on a plane, of which one distance was measured. Its prior has another centre."""
    centre, deviation, measured = 1.0, 2.0, 3.0
    of = lambda x: density(measured, np.hypot(x[:, 0], x[:, 1]), 0.1)  # noqa: E731
    r, log_width = midpoints(0, 6, 100_000)
    log_rice = np.log(r * np.i0(r * centre / deviation**2) / deviation**2)
    log_rice -= (r**2 + centre**2) / (2 * deviation**2)
    log_z = log_sum(log_rice + density(measured, r, 0.1)) + log_width
    return Problem([normal(centre, deviation), normal(0, deviation)], of, log_z)


def two_factors():
    """Two factors of which the product was measured: a valley along each branch of a hyperbola."""
    of = lambda x: density(2, x[:, 0] * x[:, 1], 0.1)  # noqa: E731
    first, log_width = midpoints(-20, 20, 400_000)  # the other is integrated in closed form
    log_f = density(first, 0, 2) + density(2, 0, np.hypot(0.1, 2 * first))
    return Problem([normal(0, 2)] * 2, of, log_sum(log_f) + log_width)


def cross():
    """Two ridges with correlations of .95 between four coordinates. One has 35% of the mass."""
    signs = np.array([[1, 1, 1, 1], [1, -1, 1, -1]])
    ridges = [0.05 * np.eye(4) + 0.95 * np.outer(sign, sign) for sign in signs]

    def of(x):
        first, second = (joint_density(x, ridge) for ridge in ridges)
        return np.logaddexp(math.log(0.65) + first, math.log(0.35) + second)

    return Problem([uniform(-10, 10)] * 4, of, -4 * math.log(20))


def logistic_regression():
    """Twenty patients, ill or not, and two covariates that nearly separate them."""
    rng = np.random.default_rng(11)
    design = np.column_stack([np.ones(20), rng.normal(size=(20, 2)).round(2)])
    ill = rng.random(20) < 1 / (1 + np.exp(-design @ [-0.5, 2.5, -1.5]))
    signed = np.where(ill, 1, -1)[:, None] * design
    of = lambda x: -np.logaddexp(0, -x @ signed.T).sum(axis=1)  # noqa: E731
    log_f = lambda x: of(x) + density(x, 0, 2.5).sum(axis=1)  # noqa: E731
    return Problem([normal(0, 2.5)] * 3, of, log_integral(log_f, 3, -14, 14, 84))


def change_point():
    """Disasters in British coal mines by year from 1851 (Jarrett 1979): two rates, and the time of the change."""
    counts = "4540143406334026335453144153425223421321111300101100310322011101010002100011"
    counts = np.array([int(n) for n in counts + "023311211112420001400010000010010100"])
    years, total = len(counts), counts.sum()
    before = counts.cumsum() - counts
    constant = sum(math.lgamma(n + 1) for n in counts)

    def of(x):
        year = x[:, 2].astype(int).clip(0, years - 1)
        early, late = before[year], total - before[year]
        mean = year * x[:, 0] + (years - year) * x[:, 1]
        return early * np.log(x[:, 0]) + late * np.log(x[:, 1]) - mean - constant

    # The two rates are integrated with their prior gamma(2, 1).
    of_rate = lambda n, exposure: math.lgamma(2 + n) - (2 + n) * math.log(1 + exposure)  # noqa: E731
    terms = [of_rate(n, i) + of_rate(total - n, years - i) for i, n in enumerate(before)]
    log_z = log_sum(terms) - math.log(years) - constant
    return Problem([gamma(2, 1), gamma(2, 1), uniform(0, years)], of, log_z)


def label_switching():
    """A mixture of three normal laws with unknown means. It has six modes, since the means can change places."""
    rng = np.random.default_rng(5)
    data = (rng.normal(size=30) + np.repeat([-3.0, 0.0, 3.5], [8, 12, 10])).round(2)
    of = lambda x: log_sum(density(data, x[..., None], 1) - math.log(3), axis=1).sum(axis=1)  # noqa: E731
    log_f = lambda x: of(x) + density(x, 0, 4).sum(axis=1)  # noqa: E731
    return Problem([normal(0, 4)] * 3, of, log_integral(log_f, 3, -12, 12, 80))


def gaussian_process():
    """A Gaussian process at 20 times: its length, amplitude and noise."""
    rng = np.random.default_rng(8)
    times = np.sort(rng.uniform(0, 5, 20)).round(2)
    data = (np.sin(1.5 * times) + 0.4 * rng.normal(size=20)).round(2)
    squares = np.subtract.outer(times, times) ** 2

    def of(x):
        """Takes the data to the eigenvectors of the covariance for each length."""
        lengths, place = np.unique(x[:, 0], return_inverse=True)
        values, vectors = np.linalg.eigh(np.exp(-0.5 * squares / lengths[:, None, None] ** 2))
        variances = x[:, 1:2] ** 2 * values.clip(0)[place] + x[:, 2:] ** 2
        return density((data @ vectors)[place], 0, variances**0.5).sum(axis=1)

    log_f = lambda x: of(np.exp(x)) + density(x, [0, 0, -1], 1).sum(axis=1)  # noqa: E731
    priors = [log_normal(0, 1), log_normal(0, 1), log_normal(-1, 1)]
    return Problem(priors, of, log_integral(log_f, 3, -5.5, 5.5, 90))


def two_decays():
    """A sum of two exponential decays at 15 times: two rates and two amplitudes, which can change places."""
    times, error = np.linspace(0.1, 6, 15), 0.1
    noise = error * np.random.default_rng(3).normal(size=15)
    data = (3 * np.exp(-0.4 * times) + 2 * np.exp(-2 * times) + noise).round(2)

    def of(x):
        curves = np.exp(-x[:, :2, None] * times)
        return density(data, (x[:, 2:, None] * curves).sum(axis=1), error).sum(axis=1)

    def log_f(x):
        """Integrates the amplitudes out, of logs of rates."""
        curves = np.exp(-np.exp(x)[..., None] * times)
        whole = np.eye(2) / 9 + curves @ curves.swapaxes(1, 2) / error**2
        moments = (curves @ data / error**2)[..., None]
        gain = (moments * np.linalg.solve(whole, moments)).sum(axis=(1, 2))
        gain -= np.linalg.slogdet(9 * whole)[1]
        return density(data, 0, error).sum() + 0.5 * gain + density(x, 0, 1).sum(axis=1)

    priors = [log_normal(0, 1)] * 2 + [normal(0, 3)] * 2
    return Problem(priors, of, log_integral(log_f, 2, -6, 6, 600))


def eight_modes():
    """Eight modes at random places, with 3% to 27% of the mass and deviations of .5 to 1."""
    rng = np.random.default_rng(4)
    shares = [0.03, 0.05, 0.07, 0.09, 0.12, 0.15, 0.22, 0.27]
    centres, deviations = rng.uniform(-8, 8, (8, 4)), rng.permutation(np.linspace(0.5, 1, 8))
    of = lambda x: mixture(x, shares, centres, deviations)  # noqa: E731
    return Problem([uniform(-14, 14)] * 4, of, -4 * math.log(28))


def limited_box():
    """A likelihood of 0 outside of a box with 1% of the prior. Inside is a part of a normal law."""
    low = np.array([-0.7, -0.3, 0.1, 0.3])
    high, mean = low + 2 * 0.01**0.25, np.array([-0.6, 0.4, 0.4, 0.8])

    def of(x):
        inside = ((x > low) & (x < high)).all(axis=1)
        return np.where(inside, density(x, mean, 0.5).sum(axis=1), -np.inf)

    bounds = np.array([low - mean, high - mean]) / 0.5 / 2**0.5
    masses = [(math.erf(above) - math.erf(below)) / 2 for below, above in bounds.T]
    return Problem([uniform(-1, 1)] * 4, of, math.log(math.prod(masses) / 2**4))


def student_t():
    """Student's t law of four degrees of freedom with correlations. 3e-6 of it is outside of the prior."""
    factor = np.linalg.cholesky(0.6 ** abs(np.subtract.outer(np.arange(5), np.arange(5))))
    constant = math.lgamma(4.5) - math.lgamma(2) - 2.5 * math.log(4 * np.pi)
    constant -= np.log(np.diag(factor)).sum()

    def of(x):
        squares = (np.linalg.solve(factor, x.T - 2) ** 2).sum(axis=0)
        return constant - 4.5 * np.log1p(squares / 4)

    return Problem([uniform(-60, 60)] * 5, of, -5 * math.log(120))


def core_and_halo():
    """A core of deviation .45 with 40% of the mass, in a halo of deviation 1."""
    of = lambda x: mixture(x, [0.4, 0.6], [1, 1], [0.45, 1])  # noqa: E731
    return Problem([uniform(-9, 9)] * 5, of, -5 * math.log(18))


def waiting_times():
    """Mean waiting times in six queues of 3 to 6 people. They are skew, and three are piled up at the bound 10."""
    people, sums = np.array([3, 4, 5, 3, 4, 6]), np.array([4.0, 9, 7, 45, 90, 150])
    of = lambda x: -(people * np.log(x) + sums / x).sum(axis=1)  # noqa: E731

    def integrated(n, s):
        """Integrates mean^-n exp(-s / mean) up to 10."""
        total = sum((s / 10) ** j / math.factorial(j) for j in range(n - 1))
        return math.lgamma(n - 1) - (n - 1) * math.log(s) - s / 10 + math.log(total)

    log_z = sum(map(integrated, people.tolist(), sums)) - 6 * math.log(10)
    return Problem([uniform(0, 10)] * 6, of, log_z)


def two_modes():
    """A mode of deviation .6 with 12% of the mass, and a mode of deviation 1."""
    of = lambda x: mixture(x, [0.12, 0.88], [-2.5, 2], [0.6, 1])  # noqa: E731
    return Problem([uniform(-8, 8)] * 6, of, -6 * math.log(16))


def mild_funnel():
    """Six effects. The log of their common deviation has a deviation of .5."""
    of = lambda x: density(x[:, 0], 0, 0.5) + density(x[:, 1:], 0, np.exp(x[:, :1])).sum(axis=1)  # noqa: E731
    return Problem([uniform(-4, 4)] + [uniform(-20, 20)] * 6, of, -math.log(8 * 40**6))


def horseshoe():
    """Four effects, each a normal number times a scale of half a Cauchy law. One is large, and tails are heavy."""
    data = np.array([0.3, -0.8, 1.5, 4.5])
    of = lambda x: density(data, x[:, :4] * x[:, 4:], 1).sum(axis=1)  # noqa: E731
    u, log_width = midpoints(0, 1, 200_000)
    deviations = np.hypot(1, np.tan(np.pi / 2 * u))  # by the quantiles of half a Cauchy law
    log_z = sum(log_sum(density(y, 0, deviations)) + log_width for y in data)
    return Problem([half_cauchy(1)] * 4 + [normal(0, 1)] * 4, of, log_z)


def rails():
    """Travel times of ultrasound in six rails, three of each (Devore 2000): mean, two deviations and the effects."""
    data = [[55, 53, 54], [26, 37, 32], [78, 91, 85], [92, 100, 96], [49, 51, 50], [80, 85, 83]]
    data = np.array(data, dtype=float)
    of = lambda x: density(data, x[:, 3:, None], x[:, 2, None, None]).sum(axis=(1, 2))  # noqa: E731
    means = data.mean(axis=1)

    def log_f(x):
        """Integrates the effects and the mean out, of logs of deviations between and within rails."""
        between, within = np.exp(x).T
        variance = between**2 + within**2 / 3
        log_prior = x.sum(axis=1) + 2 * math.log(2 / np.pi) - math.log(25 * 10)
        log_prior -= np.log1p((between / 25) ** 2) + np.log1p((within / 10) ** 2)
        of_mean = density(means.mean(), 60, np.sqrt(30**2 + variance / 6))
        of_means = density(means, means.mean(), variance[:, None] ** 0.5).sum(axis=1)
        of_means += 0.5 * np.log(TAU * variance / 6)
        of_data = density(data, means[:, None], within[:, None, None]).sum(axis=(1, 2))
        return log_prior + of_mean + of_means + of_data + 3 * np.log(TAU * within**2 / 3)

    of_rails = effects(normal(0, 1), 6, location=0, scale=1)
    priors = [normal(60, 30), half_cauchy(25), half_cauchy(10), of_rails]
    return Problem(priors, of, log_integral(log_f, 2, -8, 12, 1000))


def many_scales():
    """A Gaussian with twelve deviations from .05 to 2 along random directions."""
    directions = np.linalg.qr(np.random.default_rng(2).normal(size=(12, 12)))[0]
    of = lambda x: density((x - 1) @ directions, 0, np.geomspace(0.05, 2, 12)).sum(axis=1)  # noqa: E731
    return Problem([uniform(-12, 12)] * 12, of, -12 * math.log(24))


def linear_regression():
    """Thirty slopes from 45 observations with a random design."""
    rng = np.random.default_rng(1)
    design = rng.normal(size=(45, 30))
    data = design @ rng.normal(size=30) + 0.7 * rng.normal(size=45)
    of = lambda x: density(data, x @ design.T, 0.7).sum(axis=1)  # noqa: E731
    log_z = joint_density(data[None], design @ design.T + 0.49 * np.eye(45)).item()
    return Problem([normal(0, 1)] * 30, of, log_z)


#: By dimension.
PROBLEMS = [faint_source, ring, two_factors, logistic_regression, change_point, label_switching]
PROBLEMS += [gaussian_process, two_decays, eight_modes, cross, limited_box, student_t]
PROBLEMS += [core_and_halo, waiting_times, two_modes, mild_funnel, horseshoe, rails, many_scales]
PROBLEMS += [linear_regression]


def estimate(problem, options, seed):
    """Returns what a line holds of a run."""
    rows, start = 0, time.process_time()

    def counted(x):
        nonlocal rows
        rows += len(x)
        with np.errstate(all="ignore"):
            return problem.log_likelihood(x)

    settings = {"until_error": options.error, "budget": options.budget, "seed": seed, "threads": 1}
    try:
        run = evidence(problem.priors, counted, fitted=True, **settings)
        line = {"log_z": run.log_z, "standard_error": run.standard_error, "interval": run.interval}
        line["warnings"] = run.warning_names
        line["fitted"] = "draws of a fitted base" in str(run)  # only the text says so
    except Exception as error:  # noqa: BLE001
        line = {"raised": f"{type(error).__name__}: {error}"}
    return line | {"rows": rows, "seconds": round(time.process_time() - start, 2)}


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def run(options):
    lines = Path(options.lines)
    done = {(line["problem"], line["seed"], line["error"]) for line in read(lines)}
    for make in PROBLEMS:
        name = make.__name__.replace("_", " ")
        seeds = [i for i in range(options.seeds) if (name, i, options.error) not in done]
        if options.only not in name or not seeds:
            continue
        problem = make()
        dimension = sum(prior.parameters or 1 for prior in problem.priors)
        for seed in seeds:
            line = {"problem": name, "dimension": dimension, "seed": seed, "error": options.error}
            line |= {"exact": problem.log_z} | estimate(problem, options, seed)
            with lines.open("a") as file:
                file.write(json.dumps(line) + "\n")
            print(json.dumps(line), flush=True)


def figures(runs):
    """Returns the cells of a row of the table from the column of seeds on."""
    ended = [line for line in runs if "raised" not in line]
    rows = [line["rows"] for line in runs]
    raised = f", {len(runs) - len(ended)} raised" if len(ended) < len(runs) else ""
    cells = [f"{len(runs)}{raised}", f"{np.median(rows):,.0f}", f"{max(rows):,}"]
    if not ended:
        return cells + ["-"] * 6
    columns = [[line[name] for line in ended] for name in ("log_z", "exact", "standard_error")]
    log_z, exact, stated = np.array(columns)
    low, high = np.transpose([line["interval"] for line in ended])
    silent = np.array([not line["warnings"] for line in ended])
    wrong = (abs(log_z - exact) > np.maximum(0.1, 4 * stated)) & silent
    holds = (low <= exact) & (exact <= high) & silent
    cells += [f"{sum(line['fitted'] for line in ended)}"]
    cells += [f"{np.mean(x**2) ** 0.5:.3f}".removeprefix("0") for x in (log_z - exact, stated)]
    return cells + [f"{wrong.sum()}", f"{(~silent).sum()}", f"{holds.sum()} of {silent.sum()}"]


def table(options):
    """Prints a table for each error that was asked."""
    lines = read(Path(options.lines))
    columns = ["dimension", "seeds", "median rows", "largest", "fitted", "rms error", "stated"]
    columns += ["wrong", "warned", "intervals that hold"]
    for error in sorted({line["error"] for line in lines}, reverse=True):
        print(f"Standard error {error}:\n\n| posterior | {' | '.join(columns)} |")
        print("|---|" + "--:|" * len(columns))
        mine = [line for line in lines if line["error"] == error]
        for name in dict.fromkeys(line["problem"] for line in mine):
            runs = [line for line in mine if line["problem"] == name]
            print(f"| {name} | {runs[0]['dimension']} | {' | '.join(figures(runs))} |")
        print(f"| all | | {' | '.join(figures(mine))} |\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("command", choices=["run", "table"])
    parser.add_argument("lines", metavar="LINES", help="a file with a JSON object for each run")
    parser.add_argument("--seeds", type=int, default=40, help="number of seeds, from 0")
    parser.add_argument("--error", type=float, default=0.1, help="standard error that is asked")
    parser.add_argument("--budget", type=int, default=1_000_000, help="rows that a run may take")
    parser.add_argument("--only", default="", help="part of a problem's name")
    options = parser.parse_args()
    {"run": run, "table": table}[options.command](options)


if __name__ == "__main__":
    main()
