"""Stan models: the library that `cc` compiles in the place of BridgeStan's, whose evidence has a closed form."""

import pickle
import shutil
import subprocess
from pathlib import Path

import annealed
import numpy as np
import pytest

SOURCE = Path(__file__).parents[2] / "annealed-stan" / "tests" / "rates.c"
pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    file = tmp_path_factory.mktemp("stan") / "rates.so"
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", file, SOURCE, "-lm"], check=True)
    return file


def test_the_evidence_is_that_of_negative_binomials(library):
    run = annealed.stan(library, seed=1)
    counts, exposures = np.array([3, 0, 11, 6]), np.array([1.0, 0.5, 2.5, 2.0])
    total = 0.5 + exposures
    exact = (np.log(counts + 1) + 2 * np.log(0.5 / total) + counts * np.log(exposures / total)).sum()
    assert 0 < run.standard_error < 0.03
    assert abs(run.log_z - exact) < 4 * run.standard_error
    assert run.parameter_names == ["rate.1", "rate.2", "rate.3", "rate.4"]
    for name, mean in zip(run.parameter_names, (2 + counts) / total):
        row = run.summary()[name]
        assert abs(row["mean"] - mean) < 4 * row["error"] < 0.5
    again = pickle.loads(pickle.dumps(run))
    assert run.draws(20)["rate"].shape == (20, 4) and (again.draws(20)["rate"] == run.draws(20)["rate"]).all()


def test_other_files_are_refused(library, tmp_path):
    with pytest.raises(OSError, match="none.so"):
        annealed.stan(tmp_path / "none.so")
    with pytest.raises(ValueError, match="is no library of BridgeStan 2"):
        annealed.stan(SOURCE)
    with pytest.raises(ValueError, match="brings its data along"):
        annealed.stan(library, "rates.json")
