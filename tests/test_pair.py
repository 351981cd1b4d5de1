"""Two processes: do they agree on sums, and does nothing ever hang or stay behind?"""

import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from roofline_kit import MeasureError, Pair, pair


@pytest.fixture(scope="module")
def both():
    with Pair() as two:
        yield two


def numbers(n, seed=1):
    return np.random.default_rng(seed).standard_normal(n, dtype="float32")


def ended(process):
    """Whether it ends within a few seconds."""
    until = time.monotonic() + 5
    while process.poll() is None and time.monotonic() < until:
        time.sleep(0.01)
    return process.poll() is not None


@pytest.mark.parametrize("n", [0, 1, 2, 3, 1000, 2**20 + 1])
def test_they_agree_on_the_sum(both, n):
    x, total = numbers(n), np.full(n, np.nan, "float32")
    both.all_reduce(x, total)
    assert np.array_equal(total, x + both.other(n))


def test_the_sum_leaves_its_input_and_can_be_repeated(both):
    x, total = numbers(100), np.empty(100, "float32")
    for _ in range(3):
        both.all_reduce(x, total)
    assert np.array_equal(x, numbers(100))
    assert np.array_equal(total, x + both.other(100))


def test_both_sides_end_with_the_sum():
    ends, xs = socket.socketpair(), [numbers(1001, seed) for seed in (1, 2)]
    totals, room = [np.empty(1001, "float32") for _ in range(2)], np.empty((2, 1001), "float32")
    for end in ends:
        end.setblocking(False)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(pair._all_reduce, ends, (0, 1), xs, totals, room))
    for end, total in zip(ends, totals):
        end.close()
        assert np.array_equal(total, xs[0] + xs[1])


def test_an_exchange_hands_over_what_the_other_one_holds(both):
    into = np.empty(2**18, "float32")
    both.exchange(numbers(2**18), into)
    assert np.array_equal(into, both.other(2**18))


@pytest.mark.parametrize("wrong", [np.zeros(4), np.zeros(8, "float32")[::2], [1.0, 2.0], None])
def test_only_contiguous_float32_is_taken(both, wrong):
    with pytest.raises(ValueError, match="contiguous NumPy array of float32"):
        both.all_reduce(wrong, np.zeros(4, "float32"))


def test_lengths_must_agree(both):
    with pytest.raises(ValueError, match="as long"):
        both.all_reduce(numbers(4), numbers(5))
    with pytest.raises(ValueError, match="as many"):
        both.exchange(numbers(4), numbers(5))


def test_closing_ends_the_process_and_later_calls_say_so():
    two = Pair()
    process = two._process
    two.close()
    two.close()
    assert ended(process)
    with pytest.raises(MeasureError, match="start another one"):
        two.exchange(numbers(4), numbers(4))


def test_a_forgotten_pair_ends_with_its_object():
    two = Pair()
    process = two._process
    del two
    assert ended(process)


def test_a_killed_process_is_reported_and_not_waited_for():
    with Pair() as two:
        two._process.kill()
        two._process.wait()
        with pytest.raises(MeasureError, match="gone"):
            two.all_reduce(numbers(2**22), np.empty(2**22, "float32"))


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="no way to stop a process here")
def test_a_process_that_hangs_is_given_up(monkeypatch):
    monkeypatch.setattr(pair, "PATIENCE", 0.3)
    with Pair() as two:
        two.exchange(numbers(8), numbers(8))
        os.kill(two._process.pid, signal.SIGSTOP)
        with pytest.raises(MeasureError, match="gone"):
            two.all_reduce(numbers(2**22), np.empty(2**22, "float32"))


def test_an_interrupt_in_the_middle_ends_the_pair(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    with Pair() as two:
        monkeypatch.setitem(pair.STEPS, b"x", interrupted)
        with pytest.raises(KeyboardInterrupt):
            two.exchange(numbers(8), numbers(8))
        monkeypatch.undo()
        with pytest.raises(MeasureError, match="start another one"):
            two.exchange(numbers(8), numbers(8))


def test_a_process_that_cannot_start_is_one_sentence(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(MeasureError, match="no second process can be started here"):
        Pair()


def test_a_process_that_ends_at_once_is_one_sentence(monkeypatch):
    start = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda args, **rest: start([sys.executable, "-c", "pass"], **rest))
    with pytest.raises(MeasureError, match="did not start"):
        Pair()


def test_a_stranger_at_the_door_is_sent_away(monkeypatch):
    start = subprocess.Popen

    def late(args, **rest):
        port = int(args[2].split("serve(")[1].rstrip(")"))
        with socket.create_connection(("127.0.0.1", port)) as stranger:
            stranger.sendall(b"0" * 32)
        return start(args, **rest)

    monkeypatch.setattr(subprocess, "Popen", late)
    with Pair() as two:
        total = np.empty(4, "float32")
        two.all_reduce(numbers(4), total)
        assert np.array_equal(total, numbers(4) + two.other(4))
