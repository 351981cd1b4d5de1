"""JupyterLab and Voila as course.py serves them, on copies of the notebooks, and this machine's Chromium."""

import importlib.util
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parents[2]
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
         "--disable-background-networking", "--disable-component-update"]    # nothing but the page itself
SECONDS = 60         # for JupyterLab to start; it takes about 2
FIGURE = """
from IPython.display import Image
import struct, zlib
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
grey = zlib.compress(b"".join(b"\\0" + b"\\x88" * 64 for _ in range(64)))
Image(b"\\x89PNG\\r\\n\\x1a\\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 64, 64, 8, 0, 0, 0, 0))
      + chunk(b"IDAT", grey) + chunk(b"IEND", b""))
"""


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args):
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None and os.environ.get("CI", "").lower() == "true":
        pytest.fail("CI needs Chromium for the browser tests: apt-get install chromium")
    if found is None:
        pytest.skip("no Chromium or Chrome on this machine")
    return {**browser_type_launch_args, "executable_path": found, "args": FLAGS}


@pytest.fixture(scope="session")
def browser_context_args(browser_context_args):
    return {**browser_context_args, "viewport": {"width": 1280, "height": 900}}


def tiny(path, *sources):
    """Write a notebook of these code cells."""
    cells = [nbformat.v4.new_code_cell(source, id=f"cell-{i}") for i, source in enumerate(sources)]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    path.write_text(nbformat.writes(nbformat.v4.new_notebook(cells=cells, metadata=kernel)))


@pytest.fixture(scope="session")
def served(browser_type_launch_args, tmp_path_factory):
    """The address of a JupyterLab over a copy of the course's notebooks and two tiny ones beside them."""
    home = tmp_path_factory.mktemp("course")
    (home / "notebooks").mkdir()
    for lesson in (ROOT / "notebooks").glob("*.ipynb"):
        shutil.copy(lesson, home / "notebooks")
    tiny(home / "notebooks/tiny_good.ipynb", "import roofline_kit", FIGURE)
    tiny(home / "notebooks/tiny_bad.ipynb", "1 / 0", "'never reached'")
    server, address = start(home, tmp_path_factory.mktemp("jupyter"))
    yield address
    shut(server)


def shut(server):
    server.terminate()
    try:
        server.wait(15)
    except subprocess.TimeoutExpired:
        server.kill()


def prepare(own):
    """(course.py, an environment with settings of its own, a free port) for a server."""
    spec = importlib.util.spec_from_file_location("course", ROOT / "course.py")
    course = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(course)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (own / "labconfig").mkdir()
    (own / "labconfig/page_config.json").write_text(course.PAGE)
    env = {**course.environment(sys.prefix), "JUPYTER_CONFIG_DIR": str(own), "IPYTHONDIR": str(own / "i")}
    env |= {f"{name}_DIR": str(own / name.lower())
            for name in ("JUPYTER_DATA", "JUPYTERLAB_SETTINGS", "JUPYTERLAB_WORKSPACES")}
    return course, env, port


def start(home, own):
    """JupyterLab with the arguments of `course.py lab`, and settings of its own: (process, address)."""
    course, env, port = prepare(own)
    token = secrets.token_hex(16)
    command = [sys.executable, *course.LAB, f"--ServerApp.root_dir={home}", "--ServerApp.ip=127.0.0.1",
               f"--ServerApp.port={port}", "--ServerApp.port_retries=0", "--no-browser",
               f"--IdentityProvider.token={token}", "--expose-app-in-browser"]
    with open(own / "log", "wb") as log:
        server = subprocess.Popen(command, cwd=home, env=env, stdout=log, stderr=subprocess.STDOUT)
    wait(server, f"http://127.0.0.1:{port}/api/status?token={token}", own / "log")
    return server, f"http://127.0.0.1:{port}/lab/tree/notebooks/%s?reset&token={token}"


def start_voila(notebook, own):
    """Voila with the arguments of `course.py explore`, on another notebook: (process, address of the page)."""
    course, env, port = prepare(own)
    token = secrets.token_hex(16)
    asked = course.COMMANDS["explore"][0][:2]
    command = [sys.executable, *asked, str(notebook), f"--token={token}", "--no-browser", "--Voila.ip=127.0.0.1",
               f"--port={port}", "--Voila.port_retries=0"]
    with open(own / "log", "wb") as log:
        server = subprocess.Popen(command, cwd=ROOT, env=env, stdout=log, stderr=subprocess.STDOUT)
    wait(server, f"http://127.0.0.1:{port}/voila/static/voila.js?token={token}", own / "log")
    return server, f"http://127.0.0.1:{port}/?token={token}"


def wait(server, address, log):
    until = time.monotonic() + SECONDS
    while server.poll() is None and time.monotonic() < until:
        try:
            return urllib.request.urlopen(address, timeout=5).close()
        except OSError:
            time.sleep(0.1)
    server.kill()
    pytest.fail("The server did not start:\n" + log.read_text()[-2000:])
