"""Compares the estimates of many states by this library with pymbar's, on independent draws.

    cargo run --release -p annealed-measurements --bin states -- --peer FOLDER
    pip install pymbar
    python measurements/peers/states.py FOLDER
"""
import sys
from pathlib import Path

import numpy as np
import pymbar

print("| cell | largest difference of c | least and largest ratio of the errors, pymbar's 1 |")
print("|---|--:|--:|")
for file in sorted(Path(sys.argv[1]).glob("*.data.csv")):
    name = file.name.removesuffix(".data.csv")
    data = np.loadtxt(file, delimiter=",")
    labels, u_kn = data[:, 0].astype(int), data[:, 1:].T
    counts = np.bincount(labels, minlength=len(u_kn))
    tolerance = {"solver_protocol": ({"method": "adaptive", "options": {"maximum_iterations": 1000}},), "relative_tolerance": 1e-13}
    found = pymbar.MBAR(u_kn, counts, **tolerance).compute_free_energy_differences()
    c, error = np.loadtxt(file.with_name(f"{name}.annealed.csv"), delimiter=",").T
    ratio = error[1:] / found["dDelta_f"][0, 1:]
    apart = np.abs(c + found["Delta_f"][0]).max()
    print(f"| {name.replace('_', ' ')} | {apart:.1e} | {ratio.min():.4f} to {ratio.max():.4f} |", flush=True)
