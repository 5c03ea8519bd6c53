#!/usr/bin/env python3
"""Seconds of one core until log Z of an RBM has a standard error of .02 nats.

    pip install numpy torch jax
    cargo build --release -p annealed-cli
    taskset -c 1 measurements/peers/rbm_cost.py measure   # adds to rbm_cost.jsonl what is not in it; 50 minutes
    taskset -c 1 measurements/peers/rbm_cost.py measure --only annealed  # measures the program's lines anew
    measurements/peers/rbm_cost.py table --figure docs/figures/rbm-cost.svg

`annealed`: the program with its search for a start, until it states .02 or has 1,024 chains with many hidden units.
`recipe`: base rates of the data and the schedule of Salakhutdinov and Murray (14,500 stages, 100 chains), or a linear one.
How many chains the recipe needs depends on their weights and not on who computes them, so that the program's engine runs it.
`rate`: chain-steps a second of benches/peers/rbm.py, and of the engine. `check`: whole runs of the libraries.
"""

import argparse
import base64
import json
import math
import resource
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = 0.02
HOUR = 3600
#: For each machine its hidden units and, where it has more than 25 of them, log Z by long runs with the error of that.
MACHINES = {
    "cd1-20": (20, None),
    "cd25-20": (20, None),
    "pcd-20": (20, None),
    "rbm20_cd1": (20, None),
    "rbm20_pcd": (20, None),
    "bars-200": (200, (258.703, 0.009)),
    "cd1-500": (500, (656.356, 0.01)),
    "pcd-500": (500, (467.821, 0.01)),
    "rbm500_cd25_sm08": (500, (451.255, 0.011)),
    "rbm_mnist_500": (500, (414.396, 0.012)),
}
#: A machine of each size, by which rates are measured.
SIZES = {20: "cd1-20", 200: "bars-200", 500: "cd1-500"}
LIBRARIES = {"numpy": "NumPy", "torch": "PyTorch", "jax": "JAX"}
SCHEDULES = {"sm08": 14_500, "linear": 1_000}
REPEATS, CHAINS = 20, 100


def jobs():
    """Keys of all lines that the table needs."""
    for machine, (hidden, _) in MACHINES.items():
        for seed in range(5 if hidden == 20 else 3):
            yield {"kind": "annealed", "machine": machine, "seed": seed}
        for schedule in SCHEDULES:
            for seed in range(REPEATS):
                yield {"kind": "recipe", "machine": machine, "schedule": schedule, "seed": seed}
    for seed in range(3):
        for machine in SIZES.values():
            for program in ["engine", *LIBRARIES]:
                yield {"kind": "rate", "machine": machine, "program": program, "seed": seed}
    for program in LIBRARIES:
        yield {"kind": "check", "machine": "rbm20_pcd", "program": program, "seed": 0}


def file_of(options, machine):
    own = ROOT / "measurements/reproduction/machines" / f"{machine}.npz"
    return own if own.exists() else Path(options.data) / f"{machine}.npz"


def last_line(command):
    """The JSON that a program prints last, and the processor's seconds that it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return json.loads(done.stdout.splitlines()[-1]), seconds


def program(options, job, *extra):
    command = [options.program, "rbm", file_of(options, job["machine"]), "--threads", 1, "--seed", job["seed"], "--json"]
    found, busy = last_line(command + list(extra))
    kept = {key: found[key] for key in ("log_z", "standard_error", "ess", "chains", "stages")}
    search = busy * found["pilot_seconds"] / found["seconds"]
    return kept | {"warnings": len(found["warnings"]), "busy": round(busy, 3), "search": round(search, 3)}


def library(options, job, chains, steps):
    script = ROOT / "benches/peers/rbm.py"
    command = [sys.executable, script, job["program"], "--weights", file_of(options, job["machine"]), "--seed", job["seed"]]
    return last_line(command + ["--chains", chains, "--steps", steps])[0] | {"chains": chains, "stages": steps}


def measured(options, job):
    """What one run says."""
    if job["kind"] == "annealed":
        most = 100_000 if MACHINES[job["machine"]][0] == 20 else 1024
        return program(options, job, "--until-error", TARGET, "--chains", most)
    if job["kind"] == "recipe":
        stages, schedule = SCHEDULES[job["schedule"]], job["schedule"]
        return program(options, job, "--base", "data-rate", "--chains", CHAINS, "--stages", stages, "--schedule", schedule)
    if job["program"] == "engine":
        found = program(options, job, "--base", "data-rate", "--chains", 1000, "--stages", 1000)
        return found | {"rate": found["chains"] * found["stages"] / found["busy"]}
    return library(options, job, 1000, 300 if job["kind"] == "rate" else 10_000)


def processor():
    facts = dict(line.split(":", 1) for line in Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines())
    facts = {key.strip(): value.strip() for key, value in facts.items()}
    return f"{facts['model name']}, family {facts['cpu family']}, model {facts['model']}"


def read(options):
    lines = Path(options.lines)
    return [json.loads(line) for line in lines.read_text().splitlines()] if lines.exists() else []


def measure(options):
    chosen = lambda job: options.only in (None, job["kind"]) and options.machine in job["machine"]  # noqa: E731
    known = [line for line in read(options) if not (options.only and chosen(line))]
    path = Path(options.lines)
    path.write_text("".join(json.dumps(line) + "\n" for line in known))
    for job in jobs():
        if chosen(job) and not any(job.items() <= line.items() for line in known):
            line = job | measured(options, job) | {"processor": processor()}
            with path.open("a") as file:
                file.write(json.dumps(line) + "\n")
            print(json.dumps(line), flush=True)


def reference(options, machine):
    """Log Z and its error."""
    import numpy as np

    found = MACHINES[machine][1]
    return found or (float(np.load(file_of(options, machine))["log_z_exact"]), 0.0)


def errors(runs, log_z):
    """Root mean square error, and how many runs are off by four stated errors."""
    off = [run["log_z"] - log_z[0] for run in runs]
    wrong = sum(abs(gap) > 4 * math.hypot(run["standard_error"], log_z[1]) for gap, run in zip(off, runs))
    return math.sqrt(statistics.fmean(gap * gap for gap in off)), wrong


def chain_steps(runs, log_z):
    """Chain-steps that the recipe needs for the error; infinite if its chains missed mass."""
    means = [math.exp(run["log_z"] - log_z[0]) for run in runs]
    mean, error = statistics.fmean(means), statistics.stdev(means) / math.sqrt(len(means))
    if 1 - mean > 4 * math.hypot(error, log_z[1]):
        return math.inf
    square = statistics.fmean(x * x * run["chains"] / run["ess"] for x, run in zip(means, runs))
    return (square - mean * mean) / TARGET**2 * runs[0]["stages"]


def costs(options):
    """For each machine the seconds of each program, and what else the table says."""
    lines = read(options)
    of = lambda **key: [line for line in lines if key.items() <= line.items()]  # noqa: E731
    for machine, (hidden, _) in MACHINES.items():
        ours = of(kind="annealed", machine=machine)
        recipe = {schedule: of(kind="recipe", machine=machine, schedule=schedule) for schedule in SCHEDULES}
        rates = {name: [line["rate"] for line in of(kind="rate", machine=SIZES[hidden], program=name)] for name in ["engine", *LIBRARIES]}
        if not ours or any(len(runs) < REPEATS for runs in recipe.values()) or not all(rates.values()):
            continue
        log_z = reference(options, machine)
        more = [max(1.0, run["standard_error"] / TARGET) ** 2 for run in ours]
        seconds = [run["search"] + (run["busy"] - run["search"]) * factor for run, factor in zip(ours, more)]
        needed = chain_steps(recipe["sm08"], log_z)
        found = {"annealed": (statistics.median(seconds), max(more) > 1)}
        for name, of_size in rates.items():
            found[name] = (needed / statistics.median(of_size), False)
        yield machine, log_z, ours, recipe, needed, found


def rounded(x):
    return float(f"{x:.2g}")


def in_words(seconds, about):
    if math.isinf(seconds):
        return "never"
    unit, size = ("h", HOUR) if seconds > HOUR else ("s", 1)
    return ("about " if about else "") + f"{rounded(seconds / size):,g} {unit}"


def in_nats(runs, log_z):
    error, wrong = errors(runs, log_z)
    return [f"{rounded(error):g}", f"{wrong} of {len(runs)}"]


def print_table(head, rows):
    print("| " + " | ".join(head) + " |\n|---|" + "--:|" * (len(head) - 1))
    print("".join("| " + " | ".join(row) + " |\n" for row in rows))


def table(options):
    everything = list(costs(options))
    head = ["machine", "`annealed`", "of it the search", "recipe in NumPy, about", "in PyTorch", "in JAX", "in our engine", "its chains"]
    rows = []
    for machine, _, ours, _, needed, found in everything:
        search = statistics.median(run["search"] for run in ours)
        chains = f"{rounded(needed / SCHEDULES['sm08']):,.0f}" if math.isfinite(needed) else ""
        of_recipe = [in_words(*found[name]) for name in [*LIBRARIES, "engine"]]
        rows.append([machine, in_words(*found["annealed"]), f"{rounded(search):g} s", *of_recipe, chains])
    print_table(head, rows)
    head = ["machine", "`annealed`", "off", "recipe, 14,500 stages", "off", "linear, 1,000 stages", "off"]
    rows = []
    for machine, log_z, ours, recipe, *_ in everything:
        groups = (ours, recipe["sm08"], recipe["linear"])
        rows.append([machine, *(cell for runs in groups for cell in in_nats(runs, log_z))])
    print_table(head, rows)
    for line in read(options):
        if line["kind"] == "check":
            log_z, seconds = reference(options, line["machine"]), line["chains"] * line["stages"] / line["rate"]
            key = {"kind": "rate", "machine": SIZES[20], "program": line["program"]}
            of_size = statistics.median(other["rate"] for other in read(options) if key.items() <= other.items())
            print(
                f"{LIBRARIES[line['program']]}, {line['machine']}, {line['chains']} x {line['stages']}: {seconds:.1f} s, by the rate "
                f"{seconds * line['rate'] / of_size:.1f}; error {line['log_z'] - log_z[0]:+.3f} ({line['standard_error']:.3f})"
            )
    if options.figure:
        draw(everything, options.figure)


def draw(everything, file):
    """A dot for each program and machine; what never reaches the error is beyond the scale. Beside it, a link for rustdoc."""
    colours = {"annealed": "#0072b2", "jax": "#d55e00", "torch": "#009e73", "numpy": "#e69f00"}
    words = {"annealed": "annealed, with its search"} | {name: f"the recipe in {title}" for name, title in LIBRARIES.items()}
    finite = [found[name][0] for *_, found in everything for name in colours if math.isfinite(found[name][0])]
    low, high = math.floor(math.log10(min(finite))), math.ceil(math.log10(max(finite)))
    left, right, top, step = 150, 650, 52, 22
    bottom = top + step * len(everything)
    at = lambda seconds: left + (right - left) * (math.log10(seconds) - low) / (high - low)  # noqa: E731
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="760" height="{bottom + 42}" font-family="sans-serif" font-size="11">']
    lines.append('<rect width="100%" height="100%" fill="white"/>')
    lines.append(f'<text x="{left}" y="16" font-size="13">Seconds of one core for a standard error of .02 nats</text>')
    for place, (name, colour) in enumerate(colours.items()):
        x = left + 150 * place
        lines.append(f'<circle cx="{x + 4}" cy="34" r="4" fill="{colour}"/><text x="{x + 13}" y="38">{words[name]}</text>')
    ticks = [(at(10.0**k), f"{10**k:,}") for k in range(low, high + 1)]
    ticks += [(right + 55, "never")] if len(finite) < len(everything) * len(colours) else []
    for x, word in ticks:
        lines.append(f'<path d="M{x:.1f} {top}V{bottom}" stroke="#ddd"/><text x="{x:.1f}" y="{bottom + 15}" text-anchor="middle">{word}</text>')
    hour = at(HOUR)
    lines.append(f'<path d="M{hour:.1f} {top}V{bottom}" stroke="#555" stroke-dasharray="3 3"/>')
    lines.append(f'<text x="{hour:.1f}" y="{bottom + 30}" text-anchor="middle" fill="#555">an hour</text>')
    for place, (machine, *_, found) in enumerate(everything):
        y = top + step * (place + 0.5)
        lines.append(f'<text x="{left - 10}" y="{y + 4:.0f}" text-anchor="end">{machine}</text>')
        for row, (name, colour) in enumerate(colours.items()):
            seconds = found[name][0]
            x = at(seconds) if math.isfinite(seconds) else right + 43 + 8 * row
            lines.append(f'<circle cx="{x:.1f}" cy="{y:.0f}" r="4" fill="{colour}"/>')
    Path(file).write_text("\n".join([*lines, "</svg>\n"]))
    picture = base64.b64encode(Path(file).read_bytes()).decode()
    Path(file).with_suffix(".link").write_text(f"[cost]: data:image/svg+xml;base64,{picture}\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["measure", "table"])
    parser.add_argument("--only", choices=["annealed", "recipe", "rate", "check"], help="measure these lines anew")
    parser.add_argument("--machine", default="", help="only machines whose names contain this")
    parser.add_argument("--lines", default=ROOT / "measurements/peers/rbm_cost.jsonl")
    parser.add_argument("--program", default=ROOT / "target/release/annealed")
    parser.add_argument("--data", default=ROOT.parent / "shared/data/rbm", help="folder of the machines that are not in the repository")
    parser.add_argument("--figure", help="SVG file")
    options = parser.parse_args()
    {"measure": measure, "table": table}[options.part](options)
