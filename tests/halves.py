"""How do the tests use two cores? What measures nothing is shared by two processes; then the rest runs alone.

The second process is a fork of the first. Both draw tickets, each for some tests, from one pipe until none is left; the
second keeps its reports in a file, from which the first one tells them. Where there is no fork, or one core, or few
tests, all run in one process as ever.
"""

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

COUNTING = {  # files whose tests take no time by a clock, and share nothing but the cache of compiled kernels
    "test_cuda_language", "test_cuda_misuse", "test_kernel_arguments", "test_kernel_ledgers", "test_kernel_numbers",
    "test_labs", "test_nvrtc", "test_planted_bugs", "test_resources"}
MEASURING = {"test_the_solutions_pass"}                      # but these
FEWEST = 200             # tests that are worth a second process
TICKET = 2               # B


def ticket(item):
    """What a test is drawn with: those of a kernel together, so that one process compiles it, and those of a lab."""
    values = item.callspec.params if hasattr(item, "callspec") else {}
    name = getattr(values.get("case"), "kernel", "") or values.get("name", "")
    if item.path.stem == "test_labs":
        return values.get("stem", name)[:2]                  # 07_roofline, 07.3
    return name if item.path.stem.startswith("test_kernel_") and name else item.path.stem


def shared(items):
    """[tests of a ticket, ..], the most tests first; empty where one process is as good."""
    tickets = {}
    for item in items:
        if item.path.stem in COUNTING and getattr(item, "originalname", "") not in MEASURING:
            tickets.setdefault(ticket(item), []).append(item)
    few = sum(map(len, tickets.values())) < FEWEST
    return [] if few or sys.platform != "linux" or os.cpu_count() < 2 else sorted(tickets.values(), key=len)[::-1]


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session):
    """In place of pytest's own loop, where two processes pay."""
    options = session.config.option
    tickets = [] if options.collectonly or options.usepdb or session.testsfailed else shared(session.items)
    if not tickets:
        return None
    subprocess.run([sys.executable, "-m", "roofline_kit"], check=False, stdout=subprocess.DEVNULL,
                   cwd=Path(__file__).parents[1])            # the machine's card, while nothing else runs
    drawn, filled = os.pipe()
    os.write(filled, b"".join(number.to_bytes(TICKET) for number in range(len(tickets))))
    os.close(filled)
    reports = Path(session.config.cache_folder, "reports")
    sys.stdout.flush(), sys.stderr.flush()
    child = os.fork()
    if child == 0:
        _second(session, tickets, drawn, reports)
    counting = {item.nodeid for group in tickets for item in group}
    rest = [item for item in session.items if item.nodeid not in counting]
    ran = set()
    try:
        _run(session, _drawn(tickets, drawn, ran), rest[:1])
    finally:
        while os.read(drawn, TICKET):
            pass                                             # after a failure under -x, or Ctrl-C
        status = os.waitpid(child, 0)[1]
    missing = counting - ran - _told(session, reports)
    if status or (missing and not session.shouldfail):
        session.shouldfail = (f"the second process ended with {os.waitstatus_to_exitcode(status)}, {len(missing)} "
                              f"tests have no report: {', '.join(sorted(missing)[:3])}")    # shown at the end
        raise session.Failed(session.shouldfail)
    _run(session, rest)
    return True


def _drawn(tickets, pipe, ran):
    """The tests of this process; their names go into `ran`."""
    while number := os.read(pipe, TICKET):
        for item in tickets[int.from_bytes(number)]:
            yield item
            ran.add(item.nodeid)                             # it has been run when the next one is asked for


def _run(session, items, after=()):
    """As pytest's own loop does it; a test is told which follows, which decides what is torn down."""
    items = itertools.chain(items, after)
    item = next(items, None)
    while item is not None and item not in after:
        following = next(items, None)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        item = following


def _second(session, tickets, pipe, path):
    """The whole life of the second process."""
    plugins, status = session.config.pluginmanager, 1
    try:
        capture = plugins.getplugin("capturemanager")
        capture.stop_global_capturing()                      # or both processes would write to one file
        capture.start_global_capturing()
        plugins.unregister(name="terminalreporter")
        with path.open("w", encoding="utf-8") as file:
            plugins.register(_Writer(session.config, file))
            try:
                _run(session, _drawn(tickets, pipe, set()))
                status = 0
            except session.Failed:
                status = 0                                   # -x: the first process tells it from the report
    finally:
        os._exit(status)


class _Writer:
    """Keeps the reports of the second process, a line each."""

    def __init__(self, config, file):
        self.config, self.file = config, file

    def pytest_runtest_logreport(self, report):
        data = self.config.hook.pytest_report_to_serializable(config=self.config, report=report)
        print(json.dumps(data), file=self.file, flush=True)


def _told(session, path):
    """Tell the second process's reports as if the tests had run here; the names of those that ended."""
    hook, ended = session.config.hook, set()
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        report = hook.pytest_report_from_serializable(config=session.config, data=json.loads(line))
        if report.when == "setup":
            hook.pytest_runtest_logstart(nodeid=report.nodeid, location=report.location)
        hook.pytest_runtest_logreport(report=report)
        if report.when == "teardown":
            ended.add(report.nodeid)
    return ended
