"""What does it cost two processes to agree on a sum? A second process on this machine, and a socket between the two."""

import os
import secrets
import select
import socket
import struct
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np

from .doubts import MeasureError
from .units import quantity

START = 30.0             # s until the second process has to be there
PATIENCE = 10.0          # s without a byte after which the other one counts as gone
PART = 2**18             # bytes that are handed to the socket at once
ASKED = struct.Struct("<cQ")             # what to do next, and for how many numbers
GONE = "the second process is gone: start another one, pair = rk.Pair()."


class Pair:
    """This process and a second one on the same machine, which holds numbers of its own.

    exchange(out, into):     both send as many bytes to each other at the same time
    all_reduce(x, total):    total becomes x plus the other's numbers, in both processes
    other(n):                the numbers that the second process holds
    close():                 ends it; so does the end of this process, or `with rk.Pair() as pair:`
    Errors:  MeasureError where it cannot be started, or does not answer within seconds: nothing waits for ever
    """

    def __init__(self):
        self._socket, self._process, self._room = None, None, np.empty(0, "float32")
        with socket.create_server(("127.0.0.1", 0)) as door:
            door.settimeout(0.2)
            word = secrets.token_hex(16)
            paths = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
            env = os.environ | {"ROOFLINE_KIT_PAIR": word, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
            code = f"from roofline_kit.pair import serve; serve({door.getsockname()[1]})"
            try:
                self._process = subprocess.Popen([sys.executable, "-c", code], env=env, stdin=subprocess.DEVNULL,
                                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                                 start_new_session=True)
                self._socket = self._let_in(door, word.encode())
            except OSError as problem:
                self.close()
                raise MeasureError(f"no second process can be started here: {problem}.") from problem
            except BaseException:
                self.close()
                raise

    def _let_in(self, door, word):
        """The connection of the process that knows the word."""
        until = time.monotonic() + START
        while time.monotonic() < until and self._process.poll() is None:
            with suppress(TimeoutError):
                guest = door.accept()[0]
                _settle(guest)
                guest.settimeout(PATIENCE)
                if guest.recv(len(word), socket.MSG_WAITALL if hasattr(socket, "MSG_WAITALL") else 0) == word:
                    guest.setblocking(False)
                    return guest
                guest.close()
        raise MeasureError("the second process did not start: is Python allowed to start another one here?")

    def exchange(self, out, into):
        """Send the bytes of `out` and receive as many into `into`, two contiguous float32 arrays of one size."""
        out, into = _flat(out, "out"), _flat(into, "into")
        if out.size != into.size:
            raise ValueError(f"out has {out.size} numbers and into has {into.size}: as many are sent as received.")
        self._do(b"x", out.size, out, into)

    def all_reduce(self, x, total):
        """total = x + what the second process holds, there too: a reduce-scatter and an all-gather of halves."""
        x, total = _flat(x, "x"), _flat(total, "total")
        if x.size != total.size:
            raise ValueError(f"x has {x.size} numbers and total has {total.size}: they must be as long.")
        if self._room.size < x.size:
            self._room = np.empty(x.size, "float32")
        self._do(b"r", x.size, x, total, self._room)

    def other(self, n):
        """The n numbers that the second process holds for an array of that size."""
        return _held(quantity("n", n, whole=True))

    def _do(self, what, n, *arrays):
        if self._socket is None:
            raise MeasureError(GONE)
        try:
            _send(self._socket, ASKED.pack(what, n))
            STEPS[what](self._socket, 0, *arrays)
        except (OSError, EOFError) as problem:
            self.close()
            raise MeasureError(GONE) from problem
        except BaseException:                              # an interrupt: nobody knows how much has been sent
            self.close()
            raise

    def close(self):
        """End the second process."""
        if self._socket is not None:
            self._socket.close()
        self._socket = None
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(0.5)                    # it ends by itself when the socket closes
            if self._process.poll() is None:
                self._process.kill()
                self._process.wait()
        self._process = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        with suppress(Exception):
            self.close()


def _settle(connection):
    """Send small messages at once, and have room for large ones."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for side in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        connection.setsockopt(socket.SOL_SOCKET, side, 4 * PART)


def _flat(array, name):
    if not isinstance(array, np.ndarray) or array.dtype != np.float32 or not array.flags.c_contiguous:
        raise ValueError(f"{name} must be a contiguous NumPy array of float32.")
    return array.reshape(-1)


def _held(n):
    return np.random.default_rng(n).standard_normal(n, dtype="float32")


def _both(connection, out, into):
    """Send and receive at the same time, whatever comes first. Errors: EOFError, or OSError after a while."""
    out, into = memoryview(out).cast("B"), memoryview(into).cast("B")
    sent = got = 0
    while sent < len(out) or got < len(into):
        ready, free, _ = select.select([connection] if got < len(into) else [], [connection] if sent < len(out) else [],
                                       [], PATIENCE)
        if not (ready or free):
            raise TimeoutError("no byte came through")
        with suppress(BlockingIOError):
            if ready:
                count = connection.recv_into(into[got:got + PART])
                if not count:
                    raise EOFError
                got += count
        with suppress(BlockingIOError):
            if free:
                sent += connection.send(out[sent:sent + PART])


def _send(connection, message):
    _both(connection, message, bytearray())


def _exchange(connection, rank, out, into):
    _both(connection, out, into)


def _all_reduce(connection, rank, x, total, room):
    """Each one adds up its own half and then hands the sum over."""
    middle = len(x) // 2
    halves = slice(0, middle), slice(middle, len(x))
    mine, yours = halves[rank], halves[1 - rank]
    _both(connection, x[yours], room[mine])                # reduce-scatter
    np.add(x[mine], room[mine], out=total[mine])
    _both(connection, total[mine], total[yours])           # all-gather


STEPS = {b"x": _exchange, b"r": _all_reduce}


def serve(port):
    """The second process: it does the same steps, on numbers of its own, until the connection ends."""
    with socket.create_connection(("127.0.0.1", port), START) as connection, suppress(OSError, EOFError):
        _settle(connection)
        connection.sendall(os.environ["ROOFLINE_KIT_PAIR"].encode())
        connection.setblocking(False)
        x = total = room = np.empty(0, "float32")
        while True:
            select.select([connection], [], [])            # as long as the learner thinks
            asked = bytearray(ASKED.size)
            _both(connection, b"", asked)
            what, n = ASKED.unpack(asked)
            if n != x.size:
                x, total, room = _held(n), np.empty(n, "float32"), np.empty(n, "float32")
            STEPS[what](connection, 1, x, total, *[room] * (what == b"r"))
