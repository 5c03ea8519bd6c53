#!/usr/bin/env python3
"""Reads the files of `annealed_files::PosteriorFile` by ArviZ, NumPy and pandas, and compares with the printed table.

    pip install arviz pandas
    integrations/arviz/check.py

Skips where ArviZ is not installed. ArviZ 0.x and 1.x both serve.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import arviz
    import numpy
    import pandas
except ImportError as error:
    print(f"skipped: {error}; pip install arviz pandas")
    sys.exit()

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = "cargo run --quiet -p annealed-files --example posterior --".split()


def rows(table):
    """The printed figures by name: mean, sd, 5%, 50%, 95%, error, draws."""
    lines = [line.rsplit(maxsplit=7) for line in table.splitlines()[2:] if "warning: " not in line]
    return {name.strip(): [float(x) for x in figures] for name, *figures in lines}


def read(folder):
    if hasattr(arviz, "from_json"):
        return arviz.from_json(f"{folder}/posterior.json")
    attributes = json.loads(Path(folder, "posterior.json").read_text())["posterior_attrs"]
    arrays = dict(numpy.load(f"{folder}/posterior.npz"))
    return arviz.from_dict({"posterior": arrays}, attrs={"posterior": attributes})


def main():
    with tempfile.TemporaryDirectory() as folder:
        table = subprocess.run([*PROGRAM, folder], cwd=ROOT, check=True, capture_output=True, text=True).stdout
        data, csv = read(folder), pandas.read_csv(f"{folder}/posterior.csv")
        npz = dict(numpy.load(f"{folder}/posterior.npz"))
    print(table)
    posterior = data.posterior
    assert posterior.attrs["inference_library"] == "annealed"
    headline = table.splitlines()[0]
    assert headline.startswith("log Z = {log_evidence:.3f} +- {log_evidence_error:.3f} ".format(**posterior.attrs))

    printed = rows(table)
    assert list(csv) == [".chain", ".iteration", ".draw", *printed] and set(npz) == set(printed)
    summary = arviz.summary(data, var_names=list(printed), round_to="none")
    ess = arviz.ess(data, method="mean")
    for name, (mean, sd, *quantiles, _, effective) in printed.items():
        draws = posterior[name].sel(chain=0).values
        assert (csv[name] == draws).all() and (npz[name] == draws[None]).all(), name
        ours = [mean, sd, *quantiles]
        theirs = [summary["mean"][name], summary["sd"][name], *numpy.quantile(draws, [0.05, 0.5, 0.95])]
        # The last digit printed, which rounding may raise.
        assert numpy.allclose(ours, theirs, rtol=0, atol=0.00101), (name, ours, theirs)
        # Copies of a state stand side by side, so that ArviZ's size does not count them.
        assert ess[name] < 2 * len(set(draws)), (name, float(ess[name]), len(set(draws)))
        print(f"{name}: ArviZ {arviz.__version__} has", *(f"{x:.3f}" for x in theirs), f"and {float(ess[name]):.0f} draws of ours {effective:.0f}")


main()
