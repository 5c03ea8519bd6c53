"""The crate beside numpy, scikit-learn, PyTorch and JAX: medians of rates, and their ratios."""

import argparse
import itertools
import json
import math
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--weights", help="RBM as .npz with W, a, b, b_base; random ones otherwise")
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--rounds", type=int, default=3)
parser.add_argument("--chains", type=int, default=1000)
parser.add_argument("--steps", type=int, default=300, help="stages of the RBM runs")
parser.add_argument("--block-size", type=int, default=128, help="of the crate's RBM runs")
parser.add_argument("--layers", action="store_true", help="time each layer of the engine")
parser.add_argument("--rows", type=int, default=20000, help="of the data to train on")
parser.add_argument("--enumerated", type=int, default=16, help="hidden units whose states are enumerated")
parser.add_argument("--only", choices=["rbm", "gaussian", "training", "enumeration"])
args = parser.parse_args()

VISIBLE = 784


def last_line(command):
    """The JSON that a program prints last."""
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.strip().splitlines()[-1])


def busy_seconds():
    """Seconds of the processor that finished programs took."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def build():
    command = ["cargo", "build", "--release", "--package", "annealed-cli", "--bin", "annealed"]
    command += ["--package", "annealed-measurements", "--bin", "peers"]
    subprocess.run(command, cwd=ROOT, check=True)
    metadata = last_line(["cargo", "metadata", "--format-version", "1", "--no-deps"])
    return pathlib.Path(metadata["target_directory"])


def random_rbm(hidden, folder):
    import numpy as np

    rng = np.random.default_rng(hidden)
    rates = np.clip(rng.beta(0.3, 1.5, VISIBLE), 0.01, 0.99)
    base = np.log(rates / (1 - rates))
    arrays = {
        "W": rng.normal(0, 0.5 / np.sqrt(hidden), (hidden, VISIBLE)),
        "a": rng.normal(-1, 0.5, hidden),
        "b": base,
        "b_base": base,
    }
    path = pathlib.Path(folder) / f"random_{hidden}.npz"
    np.savez(path, **{key: value.astype(np.float32) for key, value in arrays.items()})
    return path


def random_data(folder):
    """Rows of ten kinds, each with rates of its own."""
    import numpy as np

    rng = np.random.default_rng(1)
    rates = np.clip(rng.beta(0.3, 1.5, (10, VISIBLE)), 0.01, 0.99)
    rows = rng.random((args.rows, VISIBLE)) < rates[rng.integers(0, 10, args.rows)]
    path = pathlib.Path(folder) / "rows.npy"
    np.save(path, rows.astype(np.uint8))
    return path


def crate_rbm(target, weights, steps, extra):
    # The peers' base and schedule. By default the program searches for a base, which its seconds would hold.
    command = [target / "release" / "annealed", "rbm", weights, "--json", "--base", "data-rate"]
    command += ["--chains", args.chains, "--stages", steps, "--threads", args.threads]
    command += ["--block-size", args.block_size]
    wall, busy = time.perf_counter(), busy_seconds()
    found = last_line([str(word) for word in command + extra])
    # On one thread the seconds of the processor, which are a share of those of the wall.
    share = (busy_seconds() - busy) / (time.perf_counter() - wall) if args.threads == 1 else 1
    rate = args.chains * steps / (share * found["seconds"])
    return {"rate": rate, "log_z": found["log_z"], "standard_error": found["standard_error"]}


def peer(script, library, options):
    command = [sys.executable, HERE / script, library, "--threads", args.threads]
    return last_line([str(word) for word in command + options])


def crate_peer(target, task, options):
    command = [target / "release" / "peers", task] + options
    return last_line([str(word) for word in command])


def crate_gaussian(target, dimension, name):
    """The median of criterion's bench, whose iteration is 128 chains through 200 stages."""
    bench = ["cargo", "bench", "--quiet", "--package", "annealed-benches", "--bench", "kernels", "--"]
    options = ["--measurement-time", "2", "--warm-up-time", "1", "--noplot"]
    command = bench + [f"d = {dimension}/{name}"] + options
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    folder = target / "criterion" / f"d = {dimension}" / name / "new"
    estimates = json.loads((folder / "estimates.json").read_text())
    return {"rate": 128 * 200 / (estimates["median"]["point_estimate"] * 1e-9)}


def check_agreement(results):
    """Ends the comparison if two programs differ in log Z by more than four errors: their work is not the same."""
    for (one, first), (other, second) in itertools.combinations(results.items(), 2):
        gap = abs(first[-1]["log_z"] - second[-1]["log_z"])
        error = math.hypot(first[-1]["standard_error"], second[-1]["standard_error"])
        if not gap <= 4 * error:
            sys.exit(f"log Z of {one} and of {other} differ by {gap:.4g}, and their joint error is {error:.4g}")


def take_turns(programs):
    """Runs all programs in turn, round after round: the results of each."""
    results = {name: [] for name in programs}
    for _ in range(args.rounds):
        for name, run in programs.items():
            results[name].append(run())
    return results


def medians(results, key="rate"):
    return {name: statistics.median(r[key] for r in found) for name, found in results.items()}


def table(title, unit, results, key="rate", value="log_z"):
    """Prints the medians of the rates and the last of the values, by which one sees the same work."""
    rates = medians(results, key)
    best = max(rate for name, rate in rates.items() if not name.startswith("annealed"))
    name = value.replace("_", " ")
    print(f"\n{title}\n\n| program | {unit} / s | ratio to the best peer | {name} |\n|---|--:|--:|--:|")
    for name, rate in rates.items():
        shown = results[name][-1].get(value)
        shown = "" if shown is None else f"{shown:.6g}"
        print(f"| {name} | {rate:,.0f} | {rate / best:.2f} | {shown} |", flush=True)


def compare_rbm(target, weights, steps):
    layers = ["portable", "avx2", "avx512"] if args.layers else []
    programs = {"annealed": lambda: crate_rbm(target, weights, steps, [])}
    for layer in layers:
        run = lambda layer=layer: crate_rbm(target, weights, steps, ["--engine", layer])
        try:
            run()
        except subprocess.CalledProcessError:
            print(f"(no {layer} here)")
            continue
        programs[f"annealed, {layer}"] = run
    for library in ["numpy", "torch", "jax"]:
        options = ["--weights", weights, "--steps", steps, "--chains", args.chains]
        programs[library] = lambda library=library, options=options: peer("rbm.py", library, options)
    results = take_turns(programs)
    check_agreement(results)
    table(f"RBM, {pathlib.Path(weights).name}, {args.threads} thread(s)", "chain-steps", results)


def compare_gaussian(target, dimension, leapfrogs, name):
    steps = 2000 if dimension == 2 else 200
    options = ["--dimension", dimension, "--leapfrogs", leapfrogs, "--steps", steps]
    options += ["--chains", args.chains]
    programs = {"annealed": lambda: crate_gaussian(target, dimension, name)}
    for library in ["numpy", "jax"]:
        programs[library] = lambda library=library: peer("gaussian.py", library, options)
    table(f"Gaussian, d = {dimension}, {name}, 1 thread", "chain-steps", take_turns(programs))


def compare_training(target, data, hidden):
    """Contrastive divergence, persistent or not, beside what the products of the sweeps imply."""

    def crate(*extra):
        return lambda: crate_peer(target, "training", ["--data", data, "--hidden", hidden, *extra])

    def library(name, *extra):
        return lambda: peer("training.py", name, ["--data", data, "--hidden", hidden, *extra])

    programs = {
        "annealed, CD-1": crate(),
        "torch, CD-1": library("torch"),
        "annealed, PCD-1": crate("--persistent"),
        "torch, PCD-1": library("torch", "--persistent"),
        "sklearn, PCD-1": library("sklearn", "--persistent"),
        "annealed, CD-9": crate("--sweeps", 9),
    }
    results = take_turns(programs)
    for kind in ("CD-1", "PCD-1"):
        chosen = {name: found for name, found in results.items() if name.endswith(f" {kind}")}
        table(f"{kind}, M = {hidden}, 1 thread", "rows", chosen, value="error")
    # Eight sweeps more are sixteen products of a mini-batch with the weights. An update has six:
    # two of its sweep, two for expected hidden units, two for the moments.
    cost = {name: 1e6 / rate for name, rate in medians(results).items()}
    implied = 6 / 16 * (cost["annealed, CD-9"] - cost["annealed, CD-1"])
    print(f"\nSix products: {implied:.2f} us a row.")
    for name in ("annealed, CD-1", "annealed, PCD-1"):
        print(f"{name}: {cost[name]:.2f} us a row, {cost[name] / implied:.2f} times as much.")


def compare_enumeration(target, weights):
    options = ["--weights", weights]
    programs = {
        "annealed": lambda: crate_peer(target, "enumeration", options),
        "annealed, plain loops": lambda: crate_peer(target, "enumeration", options + ["--loops"]),
        "numpy": lambda: peer("enumeration.py", "numpy", options),
    }
    results = take_turns(programs)
    title = f"enumeration, M = {args.enumerated}, {args.threads} thread(s)"
    table(f"log Z by {title}", "states", results, "log_z_rate")
    table(f"Moments by {title}", "states", results, "moments_rate", "on_together")


def main():
    target = build()
    os.environ["RAYON_NUM_THREADS"] = str(args.threads)
    chosen = lambda name: args.only in (None, name)
    with tempfile.TemporaryDirectory() as folder:
        files = [args.weights] if args.weights else [random_rbm(m, folder) for m in (500, 20)]
        if chosen("rbm"):
            for file in files:
                compare_rbm(target, os.path.abspath(file), args.steps)
        if chosen("training") and args.threads == 1:
            data = random_data(folder)
            for hidden in (500, 20):
                compare_training(target, data, hidden)
        if chosen("enumeration"):
            compare_enumeration(target, random_rbm(args.enumerated, folder))
    if chosen("gaussian") and args.threads == 1:
        for dimension in (2, 100):
            compare_gaussian(target, dimension, 0, "random walk")
            compare_gaussian(target, dimension, 5, "HMC, 5 leapfrogs")


main()
