"""What the tests on a GPU need. `python -m pytest tests/gpu` runs them; a run of all tests collects none of them."""

import os
from pathlib import Path

import numpy as np
import pytest

import roofline_kit as rk
from roofline_kit.device import DeviceError

from .laws import HEAD, Row, lines, worst

HERE = Path(__file__).parent
CACHE = os.environ.get("ROOFLINE_KIT_CACHE")             # as told by the user: the conftest above takes another
ROWS = pytest.StashKey[list]()


def pytest_configure(config):
    config.stash[ROWS] = []


def pytest_ignore_collect(collection_path, config):
    """Leave all of this folder out unless it was asked for by its path."""
    asked = (Path(argument.split("::")[0]).absolute() for argument in config.args)
    return None if any(HERE in (path, *path.parents) for path in asked) else True


def on(device, kernel):
    """The kernel as a function of NumPy's arrays, which it changes in place."""
    def run(*arguments):
        moved = [device.xp.asarray(value) if isinstance(value, np.ndarray) else value for value in arguments]
        returned = kernel(*moved)
        device.wait()
        for here, there in zip(arguments, moved):
            if isinstance(here, np.ndarray):
                here[...] = there.get()
        return returned.get() if hasattr(returned, "get") else returned
    return run


@pytest.fixture(scope="session")
def device():
    """The GPU; without one the test is skipped, and says why there is none."""
    try:
        return rk.device("gpu")
    except DeviceError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def card(device):
    """A fresh machine card, kept where the user keeps his, so that `record` need not measure it again."""
    ours = os.environ["ROOFLINE_KIT_CACHE"]
    os.environ["ROOFLINE_KIT_CACHE"] = CACHE or ours
    yield rk.card(fresh=True, device=device)
    os.environ["ROOFLINE_KIT_CACHE"] = ours


@pytest.fixture
def holds(request):
    """A function of rows (what, measured, low, high): puts them in the table and fails where one does not hold."""
    def check(*rows):
        rows = [Row(*row) for row in rows]
        request.config.stash[ROWS] += rows
        assert all(row.holds for row in rows), "\n".join(lines(row for row in rows if not row.holds))
    return check


def pytest_terminal_summary(terminalreporter, config):
    """One table of all that was measured, of many shapes the worst."""
    if rows := config.stash.get(ROWS, []):
        terminalreporter.section(" | ".join(HEAD))
        terminalreporter.write("\n".join(lines(worst(rows))) + "\n")
