"""log Z and the moments of an RBM with numpy, exactly, over all states of its hidden units; one line of JSON."""

import argparse
import json
import os
import time

parser = argparse.ArgumentParser()
parser.add_argument("library", choices=["numpy"])
parser.add_argument("--weights", required=True)
parser.add_argument("--threads", type=int, default=1)
args = parser.parse_args()

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = str(args.threads)
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: args.threads])

import numpy as np

with np.load(args.weights) as file:
    W, a, b = (file[key].astype(float) for key in ("W", "a", "b"))
hidden, visible = W.shape
BLOCK = min(hidden, 12)


def blocks():
    """The states of the hidden units, 4,096 at a time, with the logits of the visible units."""
    states = np.arange(2**BLOCK)
    for first in range(0, 2**hidden, 2**BLOCK):
        h = ((first + states)[:, None] >> np.arange(hidden) & 1).astype(float)
        yield h, h @ W + b


def log_densities(h, logits):
    return h @ a + (np.maximum(logits, 0) + np.log1p(np.exp(-np.abs(logits)))).sum(1)


def exact_log_z():
    return np.logaddexp.reduce([np.logaddexp.reduce(log_densities(h, logits)) for h, logits in blocks()])


def exact_moments(log_z):
    v, h_mean, together = np.zeros(visible), np.zeros(hidden), np.zeros((hidden, visible))
    for h, logits in blocks():
        p = np.exp(log_densities(h, logits) - log_z)
        expected = p[:, None] / (1 + np.exp(-logits))
        v += expected.sum(0)
        h_mean += p @ h
        together += h.T @ expected
    return v, h_mean, together


begun = time.process_time()
log_z = exact_log_z()
between = time.process_time()
moments = exact_moments(log_z)
done = time.process_time()
print(json.dumps({
    "log_z_rate": 2**hidden / (between - begun),
    "moments_rate": 2**hidden / (done - between),
    "log_z": float(log_z),
    "on_together": float(moments[2].sum()),
}))
