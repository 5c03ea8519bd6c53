"""Annealed importance sampling of an RBM with numpy, PyTorch or JAX; prints one line of JSON."""

import argparse
import json
import os
import time

parser = argparse.ArgumentParser()
parser.add_argument("library", choices=["numpy", "torch", "jax"])
parser.add_argument("--weights", required=True)
parser.add_argument("--chains", type=int, default=1000)
parser.add_argument("--steps", type=int, default=200)
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()

# Before the libraries are loaded: a pool of threads is sized when it is made.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = str(args.threads)
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: args.threads])

import numpy as np

with np.load(args.weights) as file:
    W, a, b, base = (file[key].astype(np.float32) for key in ("W", "a", "b", "b_base"))
hidden, visible = W.shape
log_z_base = hidden * np.log(2.0) + np.logaddexp(0.0, base.astype(float)).sum()


def with_numpy(betas, seed):
    rng = np.random.Generator(np.random.SFC64(seed))
    transposed = np.ascontiguousarray(W.T)

    def softplus(x):
        return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))

    def draw(logits):
        return (rng.random(logits.shape, dtype=np.float32) < 1 / (1 + np.exp(-logits))).astype(np.float32)

    v = draw(np.broadcast_to(base, (args.chains, visible)))
    log_w = np.zeros(args.chains)
    for before, beta in zip(betas[:-1], betas[1:]):
        x = v @ transposed + a
        log_w += (beta - before) * (v @ (b - base)) + (softplus(beta * x) - softplus(before * x)).sum(1)
        h = draw(beta * x)
        v = draw((1 - beta) * base + beta * (h @ W + b))
    return log_w


def with_torch():
    import torch
    from torch.nn.functional import softplus

    torch.set_num_threads(args.threads)
    weights, hidden_bias, visible_bias, base_bias = map(torch.from_numpy, (W, a, b, base))

    def draw(logits):
        p = torch.sigmoid(logits)
        return (torch.rand_like(p) < p).to(p.dtype)

    @torch.inference_mode()
    def run(betas, seed):
        torch.manual_seed(seed)
        v = draw(base_bias.expand(args.chains, visible))
        log_w = torch.zeros(args.chains, dtype=torch.float64)
        for before, beta in zip(betas[:-1].tolist(), betas[1:].tolist()):
            x = v @ weights.T + hidden_bias
            log_w += (beta - before) * (v @ (visible_bias - base_bias))
            log_w += (softplus(beta * x) - softplus(before * x)).sum(1)
            h = draw(beta * x)
            v = draw((1 - beta) * base_bias + beta * (h @ weights + visible_bias))
        return log_w.numpy()

    return run


def with_jax():
    import jax

    jax.config.update("jax_platforms", "cpu")
    import jax.numpy as jnp
    from jax.nn import sigmoid, softplus

    weights, hidden_bias, visible_bias, base_bias = map(jnp.asarray, (W, a, b, base))

    def draw(key, logits):
        return (jax.random.uniform(key, logits.shape) < sigmoid(logits)).astype(jnp.float32)

    def stage(carry, ends):
        key, v, log_w = carry
        before, beta = ends
        key, for_hidden, for_visible = jax.random.split(key, 3)
        x = v @ weights.T + hidden_bias
        log_w += (beta - before) * (v @ (visible_bias - base_bias))
        log_w += (softplus(beta * x) - softplus(before * x)).sum(1)
        h = draw(for_hidden, beta * x)
        v = draw(for_visible, (1 - beta) * base_bias + beta * (h @ weights + visible_bias))
        return (key, v, log_w), None

    @jax.jit
    def compiled(key, betas):
        key, first = jax.random.split(key)
        v = draw(first, jnp.broadcast_to(base_bias, (args.chains, visible)))
        start = (key, v, jnp.zeros(args.chains))
        return jax.lax.scan(stage, start, (betas[:-1], betas[1:]))[0][2]

    return lambda betas, seed: np.asarray(compiled(jax.random.key(seed), jnp.asarray(betas)), dtype=float)


run = {"numpy": lambda: with_numpy, "torch": with_torch, "jax": with_jax}[args.library]()
betas = np.linspace(0, 1, args.steps + 1, dtype=np.float32)
run(betas, args.seed + 1)
# One thread waits for nobody but other programs.
clock = time.process_time if args.threads == 1 else time.perf_counter
begun = clock()
with np.errstate(over="ignore"):
    log_w = run(betas, args.seed)
seconds = clock() - begun
log_z = log_z_base + np.logaddexp.reduce(log_w) - np.log(args.chains)
weights = np.exp(log_w - log_w.max())
error = weights.std(ddof=1) / weights.mean() / args.chains**0.5
rate = args.chains * args.steps / seconds
print(json.dumps({"rate": rate, "log_z": float(log_z), "standard_error": float(error)}))
