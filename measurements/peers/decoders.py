"""Log p(x) of many data by `annealed.log_likelihoods`: against a closed form beside TFP, against grids, and under a trained decoder.

    pip install jax tfp-nightly maturin
    (cd crates/annealed-python && maturin develop --locked --release)
    python measurements/peers/decoders.py tfp [--data 1000] [--single]
    python measurements/peers/decoders.py grid [--data 200]
    python measurements/peers/decoders.py digits decoder.txt [--data 100]
    python measurements/peers/decoders.py network [--data 1000] [--single]

`tfp`: a linear decoder with 10 latent coordinates, by this library and by `sample_annealed_importance_chain` of TensorFlow
Probability on JAX, on one core. `grid`: a network with 2 latent coordinates, whose log p(x) is a sum over a fine grid. `digits`:
the decoder that `digits_autoencoder --decoder` trained; data simulated from it have bounds from both sides, held-out digits one. `network`: the time
of a network 8-32-64.
"""

import argparse
import itertools
import os
import time

# Before JAX is imported: one thread, for processor seconds that compare.
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
for library in ("OMP", "OPENBLAS", "MKL"):
    os.environ[f"{library}_NUM_THREADS"] = "1"

import annealed
import jax
import jax.numpy as jnp
import numpy as np

CHAINS, LEAPFROG, NOISE = 16, 5, 0.5
HALF_LOG_TAU = 0.5 * np.log(2 * np.pi)


def standard_normal(d):
    return {"z": annealed.independent(annealed.normal(0, 1), d)}


def row(*cells):
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def head(*cells):
    row(*cells)
    print("|---|" + "--:|" * (len(cells) - 1))


def least_seconds(run, repeats=2):
    """Processor seconds of the fastest of some runs, and the result."""
    seconds = []
    for _ in range(repeats):
        begun = time.process_time()
        found = run()
        seconds.append(time.process_time() - begun)
    return min(seconds), found


def pair_of(log_likelihood):
    """A compiled function that returns the values of all rows and their gradients."""

    def summed(z, x):
        values = log_likelihood(z, x)
        return values.sum(), values

    @jax.jit
    def pair(z, x):
        (_, values), slopes = jax.value_and_grad(summed, has_aux=True)(z, x)
        return values, slopes

    return pair


def tfp(options):
    """A row for each library and setting: processor seconds, and the error against the closed form."""
    from tensorflow_probability.substrates import jax as library

    dtype = np.float32 if options.single else np.float64
    d, p, n = 10, 20, options.data
    rng = np.random.default_rng(1)
    w = rng.normal(size=(p, d)) / np.sqrt(d)
    x = rng.normal(size=(n, d)) @ w.T + NOISE * rng.normal(size=(n, p))
    covariance = w @ w.T + NOISE**2 * np.eye(p)
    squares = (x * np.linalg.solve(covariance, x.T).T).sum(axis=1)
    exact = -0.5 * (squares + np.linalg.slogdet(2 * np.pi * covariance)[1])
    w, x = w.astype(dtype), x.astype(dtype)

    def log_likelihood(z, x):
        return -0.5 * (((x - z.astype(dtype) @ w.T) / NOISE) ** 2).sum(axis=-1) - p * (np.log(NOISE) + HALF_LOG_TAU)

    def report(name, seconds, values, mean, compiled):
        off = values - exact
        ratios = np.exp(off)
        row(name, f"{seconds:.1f}", f"{compiled:.1f}", f"{mean - exact.mean():+.3f}", f"{off.mean():+.3f}", f"{off.std():.3f}", f"{ratios.mean():.3f} +- {ratios.std() / n**0.5:.3f}")

    head("", "seconds", "to compile", "mean, corrected: error", "mean of the data: error", "deviation of the data's errors", "mean of estimate / p(x)")
    pair = pair_of(log_likelihood)

    def numpy_pair(z, x):
        off = x - z.astype(dtype) @ w.T
        return -0.5 / NOISE**2 * np.einsum("ij,ij->i", off, off) - p * (np.log(NOISE) + HALF_LOG_TAU), off @ w / NOISE**2

    for name, function in (("JAX", pair), ("NumPy", numpy_pair)):
        for block in (16, 32, 64):
            if block * CHAINS > n * CHAINS:
                continue
            begun = time.process_time()
            rows = CHAINS * block
            jax.block_until_ready(function(np.zeros((rows, d)), x[np.zeros(rows, int)]))
            compiled = time.process_time() - begun

            def run():
                settings = {"chains": CHAINS, "stages": options.stages, "leapfrog": LEAPFROG, "data_per_block": block}
                return annealed.log_likelihoods(standard_normal(d), function, x, True, threads=1, **settings)

            seconds, found = least_seconds(run)
            report(f"annealed, {options.stages} stages, {name}, {rows} rows a call", seconds, found.values, found.mean, compiled)

    chains = library.mcmc.sample_annealed_importance_chain
    prior = library.distributions.MultivariateNormalDiag(jnp.zeros(d, dtype), jnp.ones(d, dtype))
    target = lambda z: prior.log_prob(z) + log_likelihood(z, x[None])
    def kernel(log_density, step):
        return library.mcmc.HamiltonianMonteCarlo(log_density, step_size=step, num_leapfrog_steps=LEAPFROG)

    def theirs(stages, step, start, seed):
        return chains(stages, prior.log_prob, target, start, lambda f: kernel(f, step), seed=seed)[1]

    def renewed(stages, step, start, seed):
        """The same, but each stage begins with the log density of its own beta."""

        def stage(k, at):
            z, weights = at
            weights += (target(z) - prior.log_prob(z)) / stages
            move = kernel(lambda z: prior.log_prob(z) + ((k + 1) / stages).astype(dtype) * log_likelihood(z, x[None]), step)
            return move.one_step(z, move.bootstrap_results(z), seed=jax.random.fold_in(seed, k))[0], weights

        return jax.lax.fori_loop(0, stages, stage, (start, jnp.zeros(start.shape[:2], dtype)))[1]

    rows = itertools.product((("TFP", theirs), ("TFP's kernel, density renewed", renewed)), (options.stages, 8 * options.stages), options.steps)
    for (name, method), stages, step in rows:

        @jax.jit
        def weights(seed, step):
            first, second = jax.random.split(seed)
            return method(stages, step, prior.sample((CHAINS, n), seed=first), second)

        begun = time.process_time()
        compiled = weights.lower(jax.random.PRNGKey(1), dtype(step)).compile()
        compiling = time.process_time() - begun
        seconds, found = least_seconds(lambda: jax.block_until_ready(compiled(jax.random.PRNGKey(1), dtype(step))))
        log_weights = np.asarray(found, dtype=float)
        values = log_mean_exp(log_weights)
        # The jackknife over chains, as for this library's mean.
        others = np.array([log_mean_exp(np.delete(log_weights, i, axis=0)) for i in range(CHAINS)])
        corrected = CHAINS * values - (CHAINS - 1) * others.mean(axis=0)
        report(f"{name}, {stages} stages, step {step}", seconds, values, corrected.mean(), compiling)


def log_mean_exp(log_weights):
    top = log_weights.max(axis=0)
    return top + np.log(np.exp(log_weights - top).mean(axis=0))


class Network:
    """A decoder x ~ N(B tanh(A z + a), 0.2^2) of 8 numbers, with z in two dimensions."""

    def __init__(self, rng):
        self.a, self.shift = 1.5 * rng.normal(size=(32, 2)), rng.normal(size=32)
        self.b = rng.normal(size=(8, 32)) / np.sqrt(32)

    def hidden(self, z):
        return np.tanh(z @ self.a.T + self.shift)

    @staticmethod
    def log_normal(off):
        return -0.5 * (off**2).sum(axis=1) / 0.2**2 - 8 * (np.log(0.2) + HALF_LOG_TAU)

    def pair(self, z, x):
        hidden = self.hidden(z)
        off = x - hidden @ self.b.T
        return self.log_normal(off), (off @ self.b / 0.2**2 * (1 - hidden**2)) @ self.a

    def by_grid(self, x, points, reach=7.0):
        """Log p(x) of each datum by the sum over a square grid, which converges faster than any power of the spacing."""
        axis = np.linspace(-reach, reach, points)
        z = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
        log_prior = -0.5 * (z**2).sum(axis=1) - 2 * HALF_LOG_TAU + 2 * np.log(axis[1] - axis[0])
        means = self.hidden(z) @ self.b.T
        return np.array([np.logaddexp.reduce(log_prior + self.log_normal(datum - means)) for datum in x])


def grid(options):
    """A row for each number of stages: how often the intervals hold, and the error of the mean."""
    head("stages", "intervals that hold", "largest error / its standard error", "mean: error", "its standard error", "in its interval", "data that warn")
    rng = np.random.default_rng(1)
    network = Network(rng)
    x = network.hidden(rng.normal(size=(options.data, 2))) @ network.b.T + 0.2 * rng.normal(size=(options.data, 8))
    exact, coarse = (network.by_grid(x, points) for points in (801, 401))
    for stages in (100, 200, 400):
        found = annealed.log_likelihoods(standard_normal(2), network.pair, x, True, chains=CHAINS, stages=stages)
        inside = (found.intervals[:, 0] <= exact) & (exact <= found.intervals[:, 1])
        z = np.abs(found.values - exact) / found.standard_errors
        lower, upper = found.mean_interval
        held = "yes" if lower <= exact.mean() <= upper else "no"
        row(stages, f"{100 * inside.mean():.1f}%", f"{z.max():.1f}", f"{found.mean - exact.mean():+.4f}", f"{found.mean_error:.4f}", held, len(found.warnings))
    print(f"mean log p(x) = {exact.mean():.6f}; half as many points an axis change a datum by {np.abs(exact - coarse).max():.1e} at most")


def bits_of_digits():
    """The held-out images of `digits_autoencoder`: the last 360 of 1,797, and the others."""
    path = os.path.join(os.path.dirname(__file__), "../../src/data/digits.bin")
    packed = np.fromfile(path, dtype=np.uint8).reshape(-1, 9)[:, :8]
    images = np.unpackbits(packed, axis=1, bitorder="little").astype(float)
    return images[1437:], images[:1437]


def digits(options):
    """A row for each set of data and number of stages."""
    parameters = np.loadtxt(options.decoder)
    first, last = np.split(parameters, [64 * 9])
    (w1, b1), (w2, b2) = (first[: 64 * 8], first[64 * 8 :]), (last[: 64 * 64], last[64 * 64 :])
    w1, w2 = w1.reshape(8, 64), w2.reshape(64, 64)  # stored column by column, hence transposed

    def logits(z):
        return jax.nn.relu(z @ w1 + b1) @ w2 + b2

    pair = pair_of(lambda z, x: (x * logits(z) - jax.nn.softplus(logits(z))).sum(axis=-1))
    rng = np.random.default_rng(1)
    z = rng.normal(size=(options.data, 8))
    simulated = (rng.random((options.data, 64)) < jax.nn.sigmoid(logits(z))).astype(float)
    held_out, training = bits_of_digits()
    sets = (("simulated", simulated, z), ("held-out digits", held_out[: options.data], None), ("training digits", training[: options.data], None))
    head("data", "stages", "mean log p(x), corrected", "mean from below", "mean from above", "gap", "median ESS of 16", "data that warn", "processor seconds")
    for name, x, latents in sets:
        for stages in options.stages:
            run = lambda: annealed.log_likelihoods(standard_normal(8), pair, x, True, simulated=latents, chains=CHAINS, stages=stages)
            seconds, found = least_seconds(run, 1)
            above = ("", "") if latents is None else (f"{found.upper.mean():.3f}", "{:.3f} +- {:.3f}".format(*found.gap))
            ess = np.median(found.effective_sample_sizes)
            mean = f"{found.mean:.3f} +- {found.mean_error:.3f}"
            row(name, stages, mean, f"{found.values.mean():.3f}", *above, f"{ess:.1f}", f"{len(found.warnings)} of {len(x)}", f"{seconds:.0f}")


def network(options):
    """A row for each number of stages: seconds of a network 8-32-64 with bits as outputs, compiled by JAX."""
    dtype = np.float32 if options.single else np.float64
    rng = np.random.default_rng(1)
    w1, w2 = rng.normal(size=(8, 32)).astype(dtype), (0.5 * rng.normal(size=(32, 64))).astype(dtype)
    logits = lambda z: jnp.tanh(z.astype(dtype) @ w1) @ w2
    z = rng.normal(size=(options.data, 8))
    x = (rng.random((options.data, 64)) < jax.nn.sigmoid(logits(z))).astype(dtype)
    pair = pair_of(lambda z, x: (x * logits(z) - jax.nn.softplus(logits(z))).sum(axis=-1))
    spent = [0.0]

    def timed(z, x):
        begun = time.process_time()
        found = jax.block_until_ready(pair(z, x))
        spent[0] += time.process_time() - begun
        return found

    head("data", "stages", "standard error of a datum: median", "90%", "mean log p(x)", "gradients", "processor seconds", "in the function")
    for stages in options.stages:
        spent[0] = 0
        settings = {"chains": CHAINS, "stages": stages, "leapfrog": LEAPFROG, "data_per_block": options.block, "threads": 1}
        seconds, found = least_seconds(lambda: annealed.log_likelihoods(standard_normal(8), timed, x, True, **settings), 1)
        errors = np.quantile(found.standard_errors, [0.5, 0.9])
        mean = f"{found.mean:.3f} +- {found.mean_error:.3f}"
        row(options.data, stages, *(f"{error:.3f}" for error in errors), mean, f"{found.evaluations / 2:.2g}", f"{seconds:.1f}", f"{spent[0]:.1f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = parser.add_subparsers(dest="kind", required=True)
    for kind, data in ((tfp, 1000), (grid, 200), (digits, 100), (network, 1000)):
        kind_parser = kinds.add_parser(kind.__name__)
        kind_parser.set_defaults(run=kind)
        kind_parser.add_argument("--data", type=int, default=data)
    kinds.choices["tfp"].add_argument("--stages", type=int, default=200)
    kinds.choices["tfp"].add_argument("--steps", type=float, nargs="+", default=[0.2, 0.3, 0.4])
    for kind in ("tfp", "network"):
        kinds.choices[kind].add_argument("--single", action="store_true", help="float32")
    kinds.choices["network"].add_argument("--stages", type=int, nargs="+", default=[100, 200, 400])
    kinds.choices["network"].add_argument("--block", type=int, default=32, help="data whose chains are evaluated together")
    kinds.choices["digits"].add_argument("--stages", type=int, nargs="+", default=[100, 200])
    kinds.choices["digits"].add_argument("decoder", help="a file of `digits_autoencoder --decoder`")
    options = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    jax.config.update("jax_enable_x64", not getattr(options, "single", False))
    options.run(options)


main()
