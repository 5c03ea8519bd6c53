#!/usr/bin/env python3
"""log Z of an energy network over 20 bits by `annealed.log_z`, beside the sum over all 2^20 states, for 20 seeds.

    measurements/peers/energies.py             # about ten minutes on two busy cores; needs NumPy and the package annealed
    measurements/peers/energies.py --seeds 3
"""

import argparse
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # small products are slower on several threads

import annealed  # noqa: E402
import numpy as np  # noqa: E402

BITS, UNITS = 20, 64


def network(seed=0):
    """Returns the log density of an energy network with two layers, and its gradient."""
    rng = np.random.default_rng(seed)
    W = rng.normal(size=(BITS, UNITS)) / BITS**0.5 * 3
    b = rng.normal(size=UNITS)
    V = rng.normal(size=(UNITS, UNITS)) / UNITS**0.5
    v = rng.normal(size=UNITS)

    def log_density(x):
        return 3 * np.tanh(np.tanh(x @ W + b) @ V) @ v / 2

    def gradient(x):
        first = np.tanh(x @ W + b)
        second = np.tanh(first @ V)
        return 1.5 * (((1 - second**2) * v) @ V.T * (1 - first**2)) @ W.T

    return log_density, gradient


def enumerated(log_density):
    """Returns the log of the sum over all states."""
    parts = []
    for first in range(0, 2**BITS, 2**16):
        states = np.arange(first, first + 2**16)[:, None] >> np.arange(BITS) & 1
        parts.append(np.logaddexp.reduce(log_density(states.astype(float))))
    return np.logaddexp.reduce(parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--error", type=float, default=0.02)
    options = parser.parse_args()
    log_density, gradient = network()
    exact = enumerated(log_density)
    print(f"log Z by enumeration: {exact:.4f}")
    for name, slopes in [("single flips", None), ("Gibbs with gradients", gradient)]:
        runs = [
            annealed.log_z(annealed.bits(BITS), log_density, slopes, until_error=options.error, seed=seed)
            for seed in range(options.seeds)
        ]
        z = np.array([(run.log_z - exact) / run.standard_error for run in runs])
        inside = sum(run.interval[0] <= exact <= run.interval[1] for run in runs)
        calls = np.median([run.evaluations for run in runs])
        seconds = np.median([run.seconds for run in runs])
        warned = sum(bool(run.warnings) for run in runs)
        print(
            f"{name}: largest |z| {abs(z).max():.2f}, mean z {z.mean():.2f}, {inside} of {len(z)} intervals contain it, "
            f"error {np.median([run.standard_error for run in runs]):.3f}, {calls:.2g} evaluations, {seconds:.1f} s, {warned} warned"
        )


main()
