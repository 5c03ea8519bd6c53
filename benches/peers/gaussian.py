"""Annealed importance sampling between diagonal Gaussians with numpy or JAX; one line of JSON.

From N(0, I) to means +-1 and standard deviations 0.5, 1, 1.5 in turn, as in benches/kernels.rs."""

import argparse
import json
import os
import time

parser = argparse.ArgumentParser()
parser.add_argument("library", choices=["numpy", "jax"])
parser.add_argument("--dimension", type=int, default=2)
parser.add_argument("--leapfrogs", type=int, default=0, help="0: a random walk")
parser.add_argument("--chains", type=int, default=1000)
parser.add_argument("--steps", type=int, default=1000)
parser.add_argument("--threads", type=int, default=1)
args = parser.parse_args()

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = str(args.threads)
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: args.threads])

import numpy as np

d, size = args.dimension, 0.2
scale = d**-0.5
mean = np.where(np.arange(d) % 2 == 0, 1.0, -1.0)
precision = (0.5 + 0.5 * (np.arange(d) % 3)) ** -2.0


def base(x):
    return -0.5 * (x * x).sum(-1)


def target(x):
    return -0.5 * ((x - mean) ** 2 * precision).sum(-1)


def density(x, beta):
    return (1 - beta) * base(x) + beta * target(x)


def gradient(x, beta):
    return -(1 - beta) * x - beta * (x - mean) * precision


def propose(x, noise, beta):
    """A proposal and the log ratio by which it is accepted."""
    if args.leapfrogs == 0:
        y = x + scale * noise
        return y, density(y, beta) - density(x, beta)
    y, momentum = x, noise + 0.5 * size * gradient(x, beta)
    for step in range(1, args.leapfrogs + 1):
        y = y + size * momentum
        momentum = momentum + (0.5 if step == args.leapfrogs else 1.0) * size * gradient(y, beta)
    return y, density(y, beta) - density(x, beta) - 0.5 * ((momentum**2).sum(-1) - (noise**2).sum(-1))


def with_numpy(betas, seed):
    rng = np.random.Generator(np.random.SFC64(seed))
    x = rng.standard_normal((args.chains, d))
    log_w = np.zeros(args.chains)
    for before, beta in zip(betas[:-1], betas[1:]):
        log_w += (beta - before) * (target(x) - base(x))
        y, log_ratio = propose(x, rng.standard_normal(x.shape), beta)
        accepted = np.log(rng.random(args.chains)) < log_ratio
        x = np.where(accepted[:, None], y, x)
    return log_w


def with_jax():
    import jax

    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_enable_x64", True)
    import jax.numpy as jnp

    def stage(carry, ends):
        key, x, log_w = carry
        before, beta = ends
        key, for_noise, for_test = jax.random.split(key, 3)
        log_w += (beta - before) * (target(x) - base(x))
        y, log_ratio = propose(x, jax.random.normal(for_noise, x.shape), beta)
        accepted = jnp.log(jax.random.uniform(for_test, (args.chains,))) < log_ratio
        return (key, jnp.where(accepted[:, None], y, x), log_w), None

    @jax.jit
    def compiled(key, betas):
        key, first = jax.random.split(key)
        start = (key, jax.random.normal(first, (args.chains, d)), jnp.zeros(args.chains))
        return jax.lax.scan(stage, start, (betas[:-1], betas[1:]))[0][2]

    return lambda betas, seed: np.asarray(compiled(jax.random.key(seed), jnp.asarray(betas)))


run = with_numpy if args.library == "numpy" else with_jax()
betas = np.linspace(0, 1, args.steps + 1)
run(betas, 1)
begun = time.perf_counter()
log_w = run(betas, 0)
seconds = time.perf_counter() - begun
log_ratio = np.logaddexp.reduce(log_w) - np.log(args.chains)
print(json.dumps({"rate": args.chains * args.steps / seconds, "log_z": float(log_ratio)}))
