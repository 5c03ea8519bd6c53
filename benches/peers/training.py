"""An epoch of contrastive divergence with scikit-learn or PyTorch, in mini-batches of 100; one line of JSON."""

import argparse
import json
import os
import time

parser = argparse.ArgumentParser()
parser.add_argument("library", choices=["sklearn", "torch"])
parser.add_argument("--data", required=True)
parser.add_argument("--hidden", type=int, default=500)
parser.add_argument("--persistent", action="store_true", help="scikit-learn knows nothing else")
parser.add_argument("--threads", type=int, default=1)
args = parser.parse_args()

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = str(args.threads)
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: args.threads])

import numpy as np

BATCH, RATE = 100, 0.05
rows = np.load(args.data).astype(np.float32)


def with_sklearn():
    from sklearn.neural_network import BernoulliRBM

    def train(rows):
        machine = BernoulliRBM(args.hidden, learning_rate=RATE, batch_size=BATCH, n_iter=1, random_state=0)
        machine.fit(rows)
        return machine.components_, machine.intercept_hidden_, machine.intercept_visible_

    return train


def with_torch():
    import torch

    torch.set_num_threads(args.threads)

    @torch.inference_mode()
    def train(rows):
        torch.manual_seed(0)
        order = torch.from_numpy(rows)[torch.randperm(len(rows))]
        visible = order.shape[1]
        W, a, b = 0.01 * torch.randn(args.hidden, visible), torch.zeros(args.hidden), torch.zeros(visible)
        chains = torch.bernoulli(torch.full((BATCH, visible), 0.5))
        for v0 in order.split(BATCH):
            p0 = torch.sigmoid(v0 @ W.T + a)
            p = torch.sigmoid(chains @ W.T + a) if args.persistent else p0
            v = torch.bernoulli(torch.sigmoid(torch.bernoulli(p) @ W + b))
            p = torch.sigmoid(v @ W.T + a)
            W += RATE / BATCH * (p0.T @ v0 - p.T @ v)
            a += RATE * (p0 - p).mean(0)
            b += RATE * (v0 - v).mean(0)
            chains = v
        return W.numpy(), a.numpy(), b.numpy()

    return train


def reconstruction_error(W, a, b):
    """The mean square of v - P(v = 1 | h) with h drawn given v, over 200 rows."""
    v = rows[:: len(rows) // 200]
    h = np.random.default_rng(0).random((len(v), len(a))) < 1 / (1 + np.exp(-(v @ W.T + a)))
    return float(((v - 1 / (1 + np.exp(-(h @ W + b)))) ** 2).mean())


train = {"sklearn": with_sklearn, "torch": with_torch}[args.library]()
train(rows[: 10 * BATCH])
begun = time.process_time()
machine = train(rows)
seconds = time.process_time() - begun
print(json.dumps({"rate": len(rows) / seconds, "error": reconstruction_error(*machine)}))
