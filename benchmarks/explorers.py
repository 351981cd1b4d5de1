"""How long from a moved mouse to a changed picture? Measured in the page, in JupyterLab and in Voila.

    python benchmarks/explorers.py [roofline gemm serving latency] [--in lab voila] [--steps 30] [--json FILE]

Needs Chromium. A slider's handle is dragged in steps; each starts at the time that the browser gives the mouse's event
and ends when the changed figure has been laid out ("changed"), and when the frame after it is painted ("painted").
"""

import argparse
import importlib.util
import itertools
import json
import math
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parents[1]
SLIDERS = {"roofline": "m", "gemm": "m, the batch", "serving": "batch", "latency": "bytes in all"}    # what is dragged
START = """() => {                                  // lay out what has changed, note when; note when it was painted
    window.moved = null;
    window.took = [];
    const note = (event) => { window.moved = window.moved ?? event.timeStamp; };
    for (const kind of ['pointermove', 'mousemove', 'keydown']) window.addEventListener(kind, note, true);
    new MutationObserver(() => {
        const svg = document.querySelector('.explorer svg[role=img]');
        if (window.moved === null || !svg || svg === window.figure) return;
        window.figure = svg;
        svg.getBoundingClientRect();
        const begun = window.moved, changed = performance.now() - begun;
        window.moved = null;
        requestAnimationFrame(() => {
            const { port1, port2 } = new MessageChannel();
            port1.onmessage = () => window.took.push([changed, performance.now() - begun]);
            port2.postMessage(0);
        });
    }).observe(document.body, { childList: true, subtree: true });
    window.figure = document.querySelector('.explorer svg[role=img]');
}"""


def browser_tests():
    """The servers that the browser tests start, and what they tell JupyterLab to do."""
    found = []
    sys.path.insert(0, str(ROOT / "tests"))
    for name in ("conftest", "test_lab"):
        spec = importlib.util.spec_from_file_location(f"browser_{name}", ROOT / f"tests/browser/{name}.py")
        found.append(importlib.util.module_from_spec(spec))
        spec.loader.exec_module(found[-1])
    return found


def drag(page, label, steps):
    """Times of `steps` steps of the slider of this label [ms]: to the change, to the painted frame."""
    slider = page.locator(".widget-slider", has=page.locator(f".widget-label:text-is('{label}')")).first
    slider.scroll_into_view_if_needed()
    handle, track = slider.locator(".noUi-handle"), slider.locator(".noUi-target").bounding_box()
    place, last = (float(handle.get_attribute(f"aria-value{name}")) for name in ("now", "max"))
    box, way = handle.bounding_box(), 1
    y = box["y"] + box["height"] / 2
    page.evaluate(START)
    page.mouse.move(box["x"] + box["width"] / 2, y)
    page.mouse.down()
    for step in range(steps):
        way = 1 if place < 2 else -1 if place > last - 2 else way
        place += way
        page.wait_for_timeout(60)                          # a hand rests, too; then no message is under way
        page.evaluate("() => { window.moved = null; }")
        page.mouse.move(track["x"] + track["width"] * place / last, y)
        page.wait_for_function(f"window.took.length > {step}", timeout=10_000)
    page.mouse.up()
    return page.evaluate("window.took")


def timed(browser, address, name, place, steps, run):
    """{"changed": {"median", "p95"}, "painted": ..} [ms] of one explorer in JupyterLab ("lab") or Voila."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(address)
    if place == "lab":
        page.wait_for_function("window.jupyterapp", timeout=60_000)
        page.evaluate(run, 60)
    page.locator(".explorer svg[role=img]").first.wait_for(timeout=60_000)
    page.wait_for_timeout(1000)
    took = drag(page, SLIDERS[name], steps)
    page.close()
    found = {}
    for what, times in zip(("changed", "painted"), zip(*took)):
        ordered = sorted(times)
        found[what] = {"median": statistics.median(ordered), "p95": ordered[math.ceil(0.95 * len(ordered)) - 1]}
    told = "; ".join(f"{what}: median {each['median']:5.1f} ms, p95 {each['p95']:5.1f} ms"
                     for what, each in found.items())
    print(f"{place:5} {name:9} {told}", flush=True)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("explorers", nargs="*", default=list(SLIDERS))
    parser.add_argument("--in", dest="places", nargs="+", default=["lab", "voila"], choices=["lab", "voila"])
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--json", type=Path, metavar="FILE")
    options, found = parser.parse_args(), {}
    servers, lab = browser_tests()
    run = lab.RUN.replace("await panel.sessionContext.shutdown();", "")          # the kernel has to stay
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        home = Path(folder) / "course"
        (home / "notebooks").mkdir(parents=True)
        for name in options.explorers:
            servers.tiny(home / f"notebooks/{name}.ipynb", "import roofline_kit as rk", f"rk.explore_{name}()")
        chromium = next(filter(None, map(shutil.which, servers.BROWSERS)))
        browser = playwright.chromium.launch(executable_path=chromium, args=servers.FLAGS)
        for place, name in itertools.product(options.places, options.explorers):
            notebook = home / f"notebooks/{name}.ipynb"
            (own := Path(folder) / f"{place} {name}").mkdir()
            server, address = servers.start(home, own) if place == "lab" else servers.start_voila(notebook, own)
            try:
                address = address % notebook.name if place == "lab" else address
                found[f"{place} {name}"] = timed(browser, address, name, place, options.steps, run)
            finally:
                servers.shut(server)
        browser.close()
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
