#!/usr/bin/env python3
"""Builds the wheel of the Python package, installs it into a fresh environment, and runs its tests and the README's programs there.

    integrations/python/check.py              # 7 to 16 minutes on two cores that others use, too; most of them to compile
    integrations/python/check.py --no-bits    # without the comparison with Rust, bit for bit

It needs Python 3.9 or later, Rust and the network. The environment is deleted at the end.
"""

import subprocess
import sys
import tempfile
import time
import venv
from os import environ
from pathlib import Path

HERE = Path(__file__).resolve().parent
PACKAGE = HERE.parents[1] / "crates" / "annealed-python"
#: Bytes that the wheel may have.
MOST = 8 << 20
TOOLS = "maturin pytest scikit-learn pymbar jax arviz mypy".split()


def run(*command, folder=HERE, **settings):
    print("$", *map(str, command), flush=True)
    return subprocess.run(list(map(str, command)), cwd=folder, check=True, **settings)


def main():
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        venv.create(folder / "venv", with_pip=True)
        python = folder / "venv" / "bin" / "python"
        run(python, "-m", "pip", "install", "--quiet", *TOOLS)
        run("cargo", "fmt", "--check", folder=PACKAGE)
        run("cargo", "clippy", "--release", "--quiet", "--", "-D", "warnings", folder=PACKAGE)
        run(python, "-m", "maturin", "build", "--release", "--locked", "--quiet", "--out", folder, folder=PACKAGE)
        (wheel,) = folder.glob("*.whl")
        size = wheel.stat().st_size
        print(f"{wheel.name}: {size / 1e6:.1f} MB")
        assert size < MOST, size
        run(python, "-m", "pip", "install", "--quiet", wheel)
        if "--no-bits" not in sys.argv:
            found = run("cargo", "run", "--locked", "--quiet", stdout=subprocess.PIPE, text=True)
            environ["ANNEALED_RUST_RUNS"] = found.stdout
        # Not from the folder of the package, whose sources have no compiled module.
        run(python, "-m", "mypy", "--strict", "--package", "annealed", folder=folder)
        run(python, "-m", "pytest", "--quiet", "-rs", "-p", "no:cacheprovider", PACKAGE / "tests", folder=folder)
    print(f"{time.monotonic() - begun:.0f} s")


main()
