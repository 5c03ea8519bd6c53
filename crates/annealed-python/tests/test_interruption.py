"""Ctrl-C: a run ends soon, and what was finished is kept."""

import os
import pickle
import signal
import threading
import time

import annealed
import numpy as np
import pytest

W, a, b = np.full((30, 100), 0.01), np.zeros(30), np.zeros(100)
PRIOR = {"x": annealed.normal(0, 1)}


class CtrlC:
    """Sends SIGINT some seconds after the beginning of a block, and tells when it was sent."""

    def __init__(self, *seconds):
        self.timers = [threading.Timer(after, self.send) for after in seconds]

    def send(self):
        self.sent = time.monotonic()
        os.kill(os.getpid(), signal.SIGINT)

    def __enter__(self):
        for timer in self.timers:
            timer.start()
        return self

    def __exit__(self, *_):
        for timer in self.timers:
            timer.cancel()
        self.waited = time.monotonic() - self.sent


def test_finished_chains_are_kept():
    with CtrlC(1.5) as ctrl_c, pytest.raises(annealed.Interrupted) as stopped:
        annealed.rbm(W, a, b, base="uniform", chains=10_000_000, stages=100)
    run = stopped.value.result
    assert ctrl_c.waited < 1 and 128 <= run.chains < 10_000_000
    assert abs(run.log_z - 130 * np.log(2)) < 20 and "interrupted" in str(stopped.value)
    assert isinstance(stopped.value, KeyboardInterrupt)


def test_nothing_is_kept_before_the_first_block():
    with CtrlC(0.5) as ctrl_c, pytest.raises(annealed.Interrupted, match="before the first block") as stopped:
        annealed.rbm(W, a, b, base="uniform", stages=3_000_000)
    assert ctrl_c.waited < 1 and stopped.value.result is None


def slow(x):
    time.sleep(0.002)
    return -0.5 * (x[:, 0] - 1) ** 2


def test_a_finished_round_is_kept():
    with CtrlC(2.0) as ctrl_c, pytest.raises(annealed.Interrupted) as stopped:
        annealed.evidence(PRIOR, slow, rounds=30)
    run = stopped.value.result
    assert ctrl_c.waited < 1 and "ended: interrupted" in str(run)
    assert abs(run.log_z + 0.25 + 0.5 * np.log(2)) < 4 * run.standard_error


def test_finished_data_are_kept():
    def of_data(z, x):
        time.sleep(0.001)
        return -0.5 * (z[:, 0] - x) ** 2

    data = np.linspace(-1, 1, 30)
    with CtrlC(8.0) as ctrl_c, pytest.raises(annealed.Interrupted) as stopped:
        annealed.log_likelihoods(PRIOR, of_data, data, data_per_block=1, moves=1, stages=500)
    run = stopped.value.result
    assert ctrl_c.waited < 1 and 0 < len(run.indices) < 30
    exact = -0.25 * data[run.indices] ** 2 - 0.5 * np.log(2)
    assert np.abs(run.values - exact).max() < 5 * run.standard_errors.max()


def test_a_second_one_ends_the_step():
    def very_slow(x):
        time.sleep(0.2 if len(x) < 10 else 30)
        return -x[:, 0] ** 2

    begun = time.monotonic()
    with CtrlC(1.0, 2.0), pytest.raises(KeyboardInterrupt):
        annealed.evidence(PRIOR, very_slow)
    assert time.monotonic() - begun < 4


def test_other_signals_raise_what_their_handler_raises():
    def handler(*_):
        raise TimeoutError("too late")

    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    try:
        with pytest.raises(TimeoutError, match="too late"):
            annealed.rbm(W, a, b, base="uniform", stages=3_000_000)
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_time_limit_ends_a_run_in_peace():
    run = annealed.rbm(W, a, b, base="uniform", chains=10_000_000, stages=100, time_limit=0.5)
    assert run.chains < 10_000_000
    with pytest.raises(TimeoutError, match="time limit reached before the first block"):
        annealed.rbm(W, a, b, base="uniform", stages=3_000_000, time_limit=0.2)
    with pytest.raises(TimeoutError, match="time limit reached before the first round was done"):
        annealed.evidence(PRIOR, slow, time_limit=0.01)


# A search for fewer than 4,000 stages has no early end; this one takes seconds.
SLOW = np.random.default_rng(2).normal(0, 0.05, (400, 800)), np.zeros(400), np.zeros(800)


def test_a_time_limit_covers_the_search():
    begun = time.monotonic()
    with pytest.raises(TimeoutError, match="time limit reached during the search for a start, .*fewer stages"):
        annealed.rbm(*SLOW, stages=3_999, time_limit=0.3)
    assert time.monotonic() - begun < 2
    begun = time.monotonic()
    run = annealed.rbm(W, a, b, chains=10_000_000, stages=1000, time_limit=3)
    assert run.chains < 10_000_000 and 2.9 < run.seconds <= time.monotonic() - begun < 5
    again = pickle.loads(pickle.dumps(run))
    assert again.seconds == run.seconds


def test_the_search_is_named_that_ctrl_c_ended():
    with CtrlC(0.5) as ctrl_c, pytest.raises(annealed.Interrupted, match="interrupted during the search for a start") as stopped:
        annealed.rbm(*SLOW, stages=3_999)
    assert ctrl_c.waited < 1 and stopped.value.result is None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_can_run():
    annealed.rbm(W[:12], a[:12], b, chains=256, stages=20).exact()
    child = os.fork()
    if child == 0:
        annealed.rbm(W[:12], a[:12], b, chains=256, stages=20).exact()
        os._exit(7)
    for _ in range(200):
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            break
        time.sleep(0.1)
    else:
        os.kill(child, signal.SIGKILL)
    assert os.waitstatus_to_exitcode(status) == 7
