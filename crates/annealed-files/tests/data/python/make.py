#!/usr/bin/env python3
"""Writes RBMs and data as scikit-learn, PyTorch and NumPy save them, and what NumPy says of them.

    pip install numpy scikit-learn torch safetensors
    ./make.py

`expected.json` has for each RBM log Z, by enumeration of its hidden states, and the mean log likelihood of the
data of `zeros_and_ones.npy`; for each file of data, its rows as they should be read.
"""

import gzip
import itertools
import json
import pathlib

import numpy as np
import safetensors.torch
import torch
from sklearn.datasets import load_digits
from sklearn.neural_network import BernoulliRBM

FOLDER = pathlib.Path(__file__).parent
GREY = load_digits().images[:60, 2:6, 2:6]  # 60 images of 4 x 4 pixels, 0 to 16
BITS = (GREY >= 8).reshape(60, 16)
BYTES = np.minimum(16 * GREY, 255).astype(np.uint8)  # 128 is 8 of 16


def log_z(W, a, b):
    """log sum over h of exp(a.h) prod_i (1 + exp(b_i + (W^T h)_i)), in double precision."""
    h = np.array(list(itertools.product([0.0, 1.0], repeat=len(a))))
    return np.logaddexp.reduce(h @ a + np.logaddexp(0, b + h @ W).sum(axis=1))


def enumerated(W, a, b):
    W, a, b = (np.asarray(x, dtype=np.float64) for x in (W, a, b))
    v = BITS.astype(np.float64)
    log_f = v @ b + np.logaddexp(0, a + v @ W.T).sum(axis=1)
    Z = log_z(W, a, b)
    return {"log_z": Z, "log_likelihood": log_f.mean() - Z}


class Module(torch.nn.Module):
    """As RBMs in PyTorch are often written; `turned` has its weights visible by hidden."""

    def __init__(self, hidden, turned, dtype):
        super().__init__()
        normal = lambda *shape: torch.nn.Parameter((0.5 * torch.randn(*shape)).to(dtype))
        self.W = normal(16, hidden) if turned else normal(hidden, 16)
        self.h_bias = normal(1, hidden)
        self.v_bias = normal(1, 16)

    def save(self, name):
        safetensors.torch.save_file(self.state_dict(), FOLDER / f"{name}.safetensors")
        W, a, b = (x.detach().double().numpy() for x in (self.W, self.h_bias, self.v_bias))
        W = W.T if W.shape != (a.size, b.size) or name == "square_turned" else W
        return enumerated(W, a.ravel(), b.ravel())


def rbms():
    sklearn = BernoulliRBM(n_components=6, n_iter=50, random_state=0).fit(BITS)
    names = ["components_", "intercept_hidden_", "intercept_visible_"]
    np.savez(FOLDER / "sklearn.npz", **{name: getattr(sklearn, name) for name in names})
    yield "sklearn.npz", enumerated(*(getattr(sklearn, name) for name in names))
    torch.manual_seed(0)
    for name, hidden, turned, dtype in [
        ("float32", 6, False, torch.float32),
        ("turned", 6, True, torch.float32),
        ("float16", 6, False, torch.float16),
        ("bfloat16", 6, True, torch.bfloat16),
        ("square_turned", 16, True, torch.float32),
    ]:
        yield f"{name}.safetensors", Module(hidden, turned, dtype).save(name)


def deep():
    """A deep Boltzmann machine of 16, 5 and 4 units, summed over both hidden layers."""
    rng = np.random.default_rng(0)
    W1, W2 = rng.normal(0, 0.7, (5, 16)), rng.normal(0, 1.5, (5, 4))  # W2 the other way round
    b, a1, a2 = rng.normal(0, 0.5, 16), rng.normal(0, 0.5, 5), rng.normal(0, 0.5, 4)
    np.savez(FOLDER / "deep.npz", vishid=W1, hidpen=W2, visbiases=b[None], hidbiases=a1[None], penbiases=a2[None])
    above = np.array(list(itertools.product([0.0, 1.0], repeat=4)))
    h = np.array(list(itertools.product([0.0, 1.0], repeat=5)))
    log_f = h @ a1 + np.logaddexp.reduce((h @ W2)[:, None] @ above.T + above @ a2, axis=2)[:, 0]
    Z = np.logaddexp.reduce(log_f + np.logaddexp(0, b + h @ W1).sum(axis=1))
    v = BITS.astype(np.float64)
    log_p = np.logaddexp.reduce(log_f + v @ W1.T @ h.T, axis=1) + v @ b - Z
    return {"log_z": Z, "log_likelihood": log_p.mean()}


def idx(array):
    sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
    return bytes([0, 0, 8, array.ndim]) + sizes + array.tobytes()


def data():
    np.save(FOLDER / "zeros_and_ones.npy", BITS.astype(np.int64))
    np.save(FOLDER / "booleans.npy", np.asfortranarray(BITS.reshape(60, 4, 4)))
    np.savez_compressed(FOLDER / "fractions.npz", GREY.astype(np.float32) / 16)
    np.savez_compressed(FOLDER / "several.npz", x_train=BYTES[30:], x_test=BYTES, grey=GREY)
    (FOLDER / "bytes-idx3-ubyte").write_bytes(idx(BYTES))
    for name, array in [("zeros-and-ones", BITS), ("black-and-white", 255 * BITS)]:
        with gzip.GzipFile(FOLDER / f"{name}-idx3-ubyte.gz", "wb", mtime=0) as file:
            file.write(idx(array.reshape(60, 4, 4).astype(np.uint8)))


data()
expected = {"rbms": dict(rbms()), "deep": deep(), "rows": ["".join("01"[bit] for bit in row) for row in BITS.astype(int)]}
(FOLDER / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
