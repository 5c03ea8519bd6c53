"""Free energies of many states by this library beside pymbar and alchemlyb.

    pip install pymbar jax alchemlyb alchemtest matplotlib maturin
    (cd crates/annealed-python && maturin develop --locked --release)
    python measurements/peers/states.py equal|assumptions|alchemtest|speed|cost [--seeds 40] [--rounds 3] [--bootstraps 10]

`equal`: draws declared independent, where both have the same equations. `assumptions`: autocorrelated draws and draws without
overlap, stated errors beside true ones. `speed`, `cost`: seconds, each library in a process of its own.
"""

import argparse
import json
import logging
import os
import subprocess
import sys
import time
import warnings

import numpy as np

LIBRARIES = ["annealed, independent", "annealed, chains", "pymbar, NumPy", "pymbar, JAX", "pymbar, JAX's solver"]
#: A solution to the last digits, for values that are compared.
EXACT = {"solver_protocol": ({"method": "adaptive", "options": {"maximum_iterations": 1000}},), "relative_tolerance": 1e-13}


class WithoutJax:
    """An importer to which JAX is not installed."""

    @staticmethod
    def find_spec(name, *_):
        if name == "jax":
            raise ImportError(name)


def oscillators(states, apart, gap=0.0):
    """Means and stiffnesses of harmonic states; the second half lies beyond the gap."""
    index = np.arange(states)
    return apart * index + gap * (index >= states // 2), 1 + 2 * index / (states - 1)


def sample(rng, mean, stiffness, counts, tau=1):
    """Reduced potentials u_kn of chains of all states with an autocorrelation time tau."""
    rho = (tau - 1) / (tau + 1)
    draws = []
    for m, k, count in zip(mean, stiffness, counts):
        x = rng.standard_normal(count)
        x[1:] *= np.sqrt(1 - rho * rho)
        for n in range(1, count if rho else 0):
            x[n] += rho * x[n - 1]
        draws.append(m + x / np.sqrt(k))
    x = np.concatenate(draws)
    return 0.5 * stiffness[:, None] * (x - mean[:, None]) ** 2


def row(*cells):
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def head(*cells):
    row(*cells)
    print("|---|" + "--:|" * (len(cells) - 1))


def equal(_):
    """Values and errors of all differences to state 0 by both, of one seed."""
    head("states", "draws of each state", "largest difference of c", "least and largest ratio of the errors, pymbar's 1")
    for states in (5, 20):
        for words, apart in (("good", 0.8), ("poor", 2.0)):
            even = np.arange(states) % 2 == 0
            kinds = {"4,000": np.full(states, 4000), "200": np.full(states, 200), "2,000 and 20": np.where(even, 2000, 20), "200 and 0": np.where(even, 200, 0)}
            for kind, counts in kinds.items():
                mean, stiffness = oscillators(states, apart)
                u_kn = sample(np.random.default_rng(1), mean, stiffness, counts)
                theirs = pymbar.MBAR(u_kn, counts, **EXACT).compute_free_energy_differences()
                ours = annealed.mbar(u_kn, counts, draws="independent")
                off = np.abs(ours.free_energies - theirs["Delta_f"][0]).max()
                ratio = ours.standard_errors[0, 1:] / theirs["dDelta_f"][0, 1:]
                warned = ", ".join(sorted(set(ours.warning_names)))
                row(f"{states}, {words} overlap", kind, f"{off:.1e}", f"{ratio.min():.3f} to {ratio.max():.3f} {warned}")


def assumptions(options):
    """The difference of the last state and the first one: its stated errors, the share of intervals that hold, its true error."""
    head("states", "method", "stated error", "true error", "95% intervals that hold", "warned")
    # Without overlap, each solution of pymbar's bootstrap takes minutes.
    cells = {
        "5, good overlap, independent": (5, 0.8, 0.0, 400, 1, 100),
        "5, good overlap, tau 20": (5, 0.8, 0.0, 6000, 20, 100),
        "4, two and two without overlap": (4, 0.8, 30.0, 400, 1, 0),
        "4, two and two a little apart": (4, 0.8, 4.0, 400, 1, 100),
    }
    for name, (states, apart, gap, count, tau, bootstraps) in ((name, cell) for name, cell in cells.items() if options.only in name):
        mean, stiffness = oscillators(states, apart, gap)
        counts, exact, found = [count] * states, 0.5 * np.log(stiffness[-1]), {}
        for seed in range(options.seeds):
            u_kn = sample(np.random.default_rng(seed), mean, stiffness, counts, tau)
            ours = annealed.mbar(u_kn, counts, draws="independent" if tau == 1 else "chains").difference(0, states - 1)
            found.setdefault("annealed", []).append((ours.delta_f, ours.standard_error, *ours.interval, bool(ours.warnings)))
            for method, (value, error) in by_pymbar(u_kn, counts, tau, bootstraps).items():
                found.setdefault(method, []).append((value, error, value - 1.96 * error, value + 1.96 * error, False))
        for method, results in found.items():
            value, error, lower, upper, warned = np.array(results, float).T
            holds = np.mean((lower <= exact) & (exact <= upper))
            row(name, method, f"{np.mean(error):.3g}", f"{np.sqrt(np.mean((value - exact) ** 2)):.3g}", f"{holds:.0%}", int(warned.sum()))


def by_pymbar(u_kn, counts, tau, bootstraps):
    """Value and error of the last state less the first one: pymbar's own error, its bootstrap's, and its own of thinned draws."""
    solved = pymbar.MBAR(u_kn, counts, n_bootstraps=bootstraps)
    found = {"pymbar": solved.compute_free_energy_differences()}
    if bootstraps:
        found[f"pymbar, bootstrap of {bootstraps}"] = solved.compute_free_energy_differences(uncertainty_method="bootstrap")
    if tau > 1:
        ends = np.cumsum([0, *counts])
        # Thinned by the energy of each state, as its manual does.
        kept = [start + np.array(pymbar.timeseries.subsample_correlated_data(u_kn[k, start:end])) for k, (start, end) in enumerate(zip(ends, ends[1:]))]
        thinned = pymbar.MBAR(u_kn[:, np.concatenate(kept)], [len(of_state) for of_state in kept])
        found["pymbar, thinned"] = thinned.compute_free_energy_differences()
    return {method: (result["Delta_f"][0, -1], result["dDelta_f"][0, -1]) for method, result in found.items()}


def alchemtest(_):
    """Published simulations: alchemlyb's values, and this library's from the same tables."""
    import alchemlyb
    from alchemlyb.estimators import BAR, MBAR
    from alchemlyb.parsing import gmx, namd
    from alchemtest.gmx import load_benzene, load_ethanol
    from alchemtest.namd import load_tyr2ala

    head("system", "states", "draws", "alchemlyb", "independent", "largest difference of F", "ratios of errors", "chains", "longest autocorrelation", "warnings")
    legs = {f"benzene, {leg}": files for leg, files in load_benzene()["data"].items()}
    # Every file of ethanol has the energies of both legs.
    legs["ethanol"] = [file for files in load_ethanol()["data"].values() for file in files]
    for leg, files in legs.items():
        table = alchemlyb.concat([gmx.extract_u_nk(file, T=300) for file in files])
        theirs = MBAR(relative_tolerance=1e-12, initial_f_k=None).fit(table)
        values, errors = theirs.delta_f_.to_numpy(), theirs.d_delta_f_.to_numpy()
        plain, chains = (annealed.mbar(table, draws=how) for how in ("independent", "chains"))
        ratio = (plain.standard_errors / errors)[np.triu_indices(len(values), 1)]
        ends = [f"{x[0, -1]:.4f} +- {e[0, -1]:.4f}" for x, e in ((values, errors), (plain.delta_f, plain.standard_errors), (chains.delta_f, chains.standard_errors))]
        off, tau = np.abs(plain.delta_f - values).max(), chains.autocorrelation_times.max()
        row(leg, len(values), len(table), ends[0], ends[1], f"{off:.1e}", f"{ratio.min():.3f} to {ratio.max():.3f}", ends[2], f"{tau:.1f}", ", ".join(chains.warning_names))
    # These runs have the energies of neighbours alone, one of them in each direction, so that there is no table for MBAR.
    forward, backward = (namd.extract_u_nk(files, T=300) for files in load_tyr2ala()["data"].values())
    table = forward.replace(0, np.nan).fillna(backward).fillna(0).sort_index(level=["fep-lambda", "time"])
    theirs, of_row = BAR(relative_tolerance=1e-12).fit(table), table.index.get_level_values("fep-lambda").to_numpy()
    pairs = {how: [] for how in ("independent", "chains")}
    for pair in zip(table.columns, table.columns[1:]):
        u_kn = np.concatenate([table.loc[of_row == state, list(pair)].to_numpy() for state in pair]).T
        for how, found in pairs.items():
            found.append(annealed.mbar(u_kn, [(of_row == state).sum() for state in pair], draws=how))
    each = np.array([found.delta_f[0, 1] for found in pairs["independent"]])
    off = np.abs(each - np.diag(theirs.delta_f_, 1)).max()
    ratio = np.array([found.standard_errors[0, 1] for found in pairs["independent"]]) / np.diag(theirs.d_delta_f_, 1)
    error = np.sqrt((np.diag(theirs.d_delta_f_, 1) ** 2).sum())
    ends = [f"{theirs.delta_f_.iloc[0, -1]:.4f} +- {error:.4f}"]
    ends += [f"{sum(x.delta_f[0, 1] for x in found):.4f} +- {np.sqrt(sum(x.standard_errors[0, 1] ** 2 for x in found)):.4f}" for found in pairs.values()]
    tau, warned = (max(max(x.autocorrelation_times) for x in pairs["chains"]), sum(len(x.warnings) > 0 for x in pairs["chains"]))
    row("tyr2ala, pairs", len(table.columns), len(table), ends[0], ends[1], f"{off:.1e}", f"{ratio.min():.3f} to {ratio.max():.3f}", ends[2], f"{tau:.1f}", f"in {warned} pairs")


def seconds(library, states, draws, threads, bootstraps=0):
    """Least seconds of some runs of a library in a process of its own: all, of the processor, values alone; and all of the first."""
    order = [sys.executable, __file__, "timed", "--library", library, "--states", states, "--draws", draws, "--threads", threads, "--bootstraps", bootstraps]
    done = subprocess.run([str(word) for word in order], check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def timed(options):
    """One process of `seconds`."""
    mean, stiffness = oscillators(options.states, 0.8)
    counts = [options.draws // options.states] * options.states
    u_kn = sample(np.random.default_rng(1), mean, stiffness, counts)
    protocol = "jax" if "solver" in options.library else None
    found = []
    # JAX compiles in the first run.
    for _ in range(1 if options.bootstraps else 2):
        start, busy = time.perf_counter(), time.process_time()
        if "annealed" in options.library:
            annealed.mbar(u_kn, counts, draws=options.library.split(", ")[1])
            solve = time.perf_counter() - start
        else:
            solved = pymbar.MBAR(u_kn, counts, solver_protocol=protocol, n_bootstraps=options.bootstraps)
            solve = time.perf_counter() - start
            solved.compute_free_energy_differences(uncertainty_method="bootstrap" if options.bootstraps else None)
        found.append((time.perf_counter() - start, time.process_time() - busy, solve))
    print(json.dumps({"first": found[0][0], **dict(zip(("wall", "processor", "solve"), np.min(found, 0)))}))


def speed(options):
    """36 states and 90,000 draws."""
    head("library", "threads", "solve", "with errors", "of the processor", "first run", f"processor for a bootstrap of 100, from {options.bootstraps}")
    for threads in (1, 2):
        for library in LIBRARIES:
            found = [seconds(library, 36, 90000, threads) for _ in range(options.rounds)]
            cells = [min(one[key] for one in found) for key in ("solve", "wall", "processor", "first")]
            if "pymbar" in library and options.bootstraps:
                more = seconds(library, 36, 90000, threads, options.bootstraps)["processor"] - cells[2]
                cells.append(100 / options.bootstraps * more)
            row(library, threads, *(f"{x:.2f}" for x in cells))


def cost(options):
    """Seconds of the processor on one thread, against the numbers of draws and of states, with a figure if a file is named."""
    libraries = LIBRARIES[1:4]
    sizes = [(36, 3600), (36, 36000), (36, 360000), (4, 36000), (12, 36000), (108, 36000)]
    head("states", "draws", *libraries)
    found = {}
    for states, draws in sizes:
        for library in libraries:
            found[states, draws, library] = min(seconds(library, states, draws, 1)["processor"] for _ in range(options.rounds))
        row(states, draws, *(f"{found[states, draws, library]:.2f}" for library in libraries))
    if options.figure:
        import matplotlib.pyplot as plt

        figure, axes = plt.subplots(1, 2, figsize=(8, 3.2), sharey=True, layout="constrained")
        for axis, place, words in zip(axes, (1, 0), ("draws of 36 states", "states, 36,000 draws")):
            for library in libraries:
                of = sorted(size for size in sizes if size[1 - place] == (36, 36000)[1 - place])
                axis.loglog([size[place] for size in of], [found[*size, library] for size in of], "o-", label=library)
            axis.set_xlabel(words)
        axes[0].set_ylabel("seconds of the processor")
        axes[0].legend(frameon=False)
        figure.savefig(options.figure, metadata={"Date": None})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = {part.__name__: part for part in (equal, assumptions, alchemtest, speed, cost, timed)}
    parser.add_argument("part", choices=parts)
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--only", default="", help="cells of `assumptions` whose names contain this")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--bootstraps", type=int, default=10)
    parser.add_argument("--figure", help="SVG file of `cost`")
    parser.add_argument("--library", choices=LIBRARIES)
    parser.add_argument("--states", type=int)
    parser.add_argument("--draws", type=int)
    parser.add_argument("--threads", type=int)
    options = parser.parse_args()
    if options.threads:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.threads])
        for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS"):
            os.environ[name] = str(options.threads)
    # JAX would compile for each of the small tables anew.
    if options.library == "pymbar, NumPy" or options.part == "assumptions":
        sys.meta_path.insert(0, WithoutJax())
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    if options.part not in ("speed", "cost"):
        import annealed
        import pymbar
    parts[options.part](options)
