"""What a call of a user's function costs: batches of 512 states in 20 dimensions."""

import time

import numpy as np
import pytest
from annealed._annealed import _time_calls
from annealed._arrays import BatchFunction

STATES = np.random.default_rng(0).normal(size=(512, 20))


def one_millisecond(x):
    for _ in range(16):
        x = np.tanh(1.1 * x)
    return x.sum(axis=1)


def cheap(x):
    return -0.5 * (x * x).sum(axis=1)


def direct(function, calls):
    seconds = []
    for _ in range(calls):
        begun = time.perf_counter()
        np.asarray(function(STATES))
        seconds.append(time.perf_counter() - begun)
    return np.median(seconds)


@pytest.mark.parametrize("function", [one_millisecond, cheap], ids=lambda function: function.__name__)
def test_overhead(function, record_property):
    by_run = BatchFunction("log_likelihood", function)
    # In turns, so that both meet the same neighbours on the machine.
    pairs = [(direct(function, 100), np.median(_time_calls(by_run, STATES, 100))) for _ in range(10)]
    alone, called = np.median(pairs, axis=0)
    print(f"{function.__name__}: {alone * 1e6:.0f} us alone, {called * 1e6:.0f} us from a run, {(called - alone) * 1e6:+.0f} us")
    assert called < 1.2 * alone + 200e-6
