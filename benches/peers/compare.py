"""The crate beside numpy, PyTorch and JAX: medians of chain-steps per second, and ratios."""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

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
parser.add_argument("--only", choices=["rbm", "gaussian"])
args = parser.parse_args()


def last_line(command):
    """The JSON that a program prints last."""
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.strip().splitlines()[-1])


def build():
    command = ["cargo", "build", "--release", "--features", "cli", "--bin", "annealed"]
    subprocess.run(command, cwd=ROOT, check=True)
    metadata = last_line(["cargo", "metadata", "--format-version", "1", "--no-deps"])
    return pathlib.Path(metadata["target_directory"])


def random_rbm(hidden, folder):
    import numpy as np

    rng = np.random.default_rng(hidden)
    visible = 784
    rates = np.clip(rng.beta(0.3, 1.5, visible), 0.01, 0.99)
    base = np.log(rates / (1 - rates))
    arrays = {
        "W": rng.normal(0, 0.5 / np.sqrt(hidden), (hidden, visible)),
        "a": rng.normal(-1, 0.5, hidden),
        "b": base,
        "b_base": base,
    }
    path = pathlib.Path(folder) / f"random_{hidden}.npz"
    np.savez(path, **{key: value.astype(np.float32) for key, value in arrays.items()})
    return path


def crate_rbm(target, weights, steps, extra):
    command = [target / "release" / "annealed", "rbm", weights, "--json"]
    command += ["--chains", args.chains, "--steps", steps, "--threads", args.threads]
    command += ["--block-size", args.block_size]
    found = last_line([str(word) for word in command + extra])
    return {"rate": args.chains * steps / found["seconds"], "log_z": found["log_z"]}


def peer(script, library, options):
    command = [sys.executable, HERE / script, library, "--threads", args.threads]
    return last_line([str(word) for word in command + ["--chains", args.chains] + options])


def crate_gaussian(target, dimension, name):
    """The median of criterion's bench, whose iteration is 128 chains through 200 stages."""
    bench = ["cargo", "bench", "--quiet", "--features", "full", "--bench", "kernels", "--"]
    options = ["--measurement-time", "2", "--warm-up-time", "1", "--noplot"]
    command = bench + [f"d = {dimension}/{name}"] + options
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    folder = target / "criterion" / f"d = {dimension}" / name / "new"
    estimates = json.loads((folder / "estimates.json").read_text())
    return {"rate": 128 * 200 / (estimates["median"]["point_estimate"] * 1e-9)}


def table(title, programs):
    """Runs all programs in turn, round after round, and prints a table."""
    results = {name: [] for name in programs}
    for _ in range(args.rounds):
        for name, run in programs.items():
            results[name].append(run())
    rates = {name: statistics.median(r["rate"] for r in found) for name, found in results.items()}
    best = max(rate for name, rate in rates.items() if not name.startswith("annealed"))
    print(f"\n{title}\n\n| program | chain-steps / s | ratio to the best peer | log Z |\n|---|--:|--:|--:|")
    for name, rate in rates.items():
        log_z = results[name][-1].get("log_z")
        shown = "" if log_z is None else f"{log_z:.3f}"
        print(f"| {name} | {rate:,.0f} | {rate / best:.2f} | {shown} |", flush=True)


def compare_rbm(target, weights, steps):
    layers = ["portable", "avx2", "avx512", "amx"] if args.layers else []
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
        options = ["--weights", weights, "--steps", steps]
        programs[library] = lambda library=library, options=options: peer("rbm.py", library, options)
    table(f"RBM, {pathlib.Path(weights).name}, {args.threads} thread(s)", programs)


def compare_gaussian(target, dimension, leapfrogs, name):
    steps = 2000 if dimension == 2 else 200
    options = ["--dimension", dimension, "--leapfrogs", leapfrogs, "--steps", steps]
    programs = {"annealed": lambda: crate_gaussian(target, dimension, name)}
    for library in ["numpy", "jax"]:
        programs[library] = lambda library=library: peer("gaussian.py", library, options)
    table(f"Gaussian, d = {dimension}, {name}, 1 thread", programs)


def main():
    target = build()
    with tempfile.TemporaryDirectory() as folder:
        files = [args.weights] if args.weights else [random_rbm(m, folder) for m in (500, 20)]
        if args.only != "gaussian":
            for file in files:
                compare_rbm(target, os.path.abspath(file), args.steps)
    if args.only != "rbm" and args.threads == 1:
        for dimension in (2, 100):
            compare_gaussian(target, dimension, 0, "random walk")
            compare_gaussian(target, dimension, 5, "HMC, 5 leapfrogs")


main()
