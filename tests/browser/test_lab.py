"""Does each lesson run from top to bottom in a browser, as a learner sees it?"""

import json
from pathlib import Path

import pytest

LESSONS = sorted(path.name for path in (Path(__file__).parents[2] / "notebooks").glob("[0-9]*.ipynb"))
LAB = ".jp-NotebookPanel .jp-OutputArea-output"
RUN = """async (seconds) => {
    const pause = (ms) => new Promise((done) => setTimeout(done, ms));
    const app = window.jupyterapp;
    await app.restored;
    let panel = app.shell.currentWidget;
    for (let i = 0; i < 300 && !panel?.sessionContext; i++) {
        await pause(100);
        panel = app.shell.currentWidget;
    }
    await panel.context.ready;
    await panel.sessionContext.ready;
    await panel.sessionContext.session.kernel.info;
    app.shell.collapseLeft();
    panel.content.notebookConfig = { ...panel.content.notebookConfig, windowingMode: 'none' };
    await app.commands.execute('notebook:clear-all-cell-outputs');
    await Promise.race([app.commands.execute('notebook:run-all-cells'), pause(1000 * seconds)]);
    const code = panel.content.model.sharedModel.toJSON().cells.filter((cell) => cell.cell_type == 'code');
    const outputs = code.flatMap((cell) => cell.outputs);
    const kernel = panel.sessionContext.session.kernel.name;
    await panel.sessionContext.shutdown();                   // or the kernels of all lessons would stay in memory
    return {
        kernel,
        waiting: code.filter((cell) => cell.source.length && !cell.execution_count).length,
        ran: code.map((cell) => ({ id: cell.id, outputs: cell.outputs })),
        errors: outputs.filter((o) => o.output_type == 'error').map((o) => o.ename + ': ' + o.evalue),
    };
}"""
SECONDS = 180                    # a lesson takes up to 60 on a quiet machine


def run(page, address):
    """Open a notebook, run all its cells; (what its cells came to, the errors of the page, its cells)."""
    broken = []
    page.on("pageerror", lambda error: broken.append(str(error)))
    page.goto(address)
    page.wait_for_function("window.jupyterapp", timeout=60_000)
    cells = page.evaluate(RUN, SECONDS)
    return cells, broken, cells.pop("ran")


def figures(page):
    """How many pictures and drawings the learner sees in the outputs."""
    drawn = page.locator(f"{LAB} img, {LAB} svg, {LAB} canvas")
    drawn.first.scroll_into_view_if_needed(timeout=20_000)
    seen = "(e) => e.getBoundingClientRect().width > 40 && (e.naturalWidth ?? 1) > 0"
    return sum(drawn.nth(i).evaluate(seen) for i in range(drawn.count()))


@pytest.mark.parametrize("lesson", LESSONS)
def test_a_lesson_runs_from_top_to_bottom(page, served, lesson, pictures, request):
    cells, broken, ran = run(page, served % lesson)
    Path(request.config.cache_folder, lesson).write_text(json.dumps(ran), "utf-8")     # for tests/test_notebooks.py
    shown = figures(page)
    page.screenshot(path=pictures / lesson.replace(".ipynb", ".png"))
    assert cells == {"kernel": "python3", "waiting": 0, "errors": []}
    assert broken == [] and shown >= 1


def test_a_good_notebook_passes(page, served):
    cells, broken, _ = run(page, served % "tiny_good.ipynb")
    assert (cells, broken) == ({"kernel": "python3", "waiting": 0, "errors": []}, [])
    assert figures(page) == 1


def test_an_error_in_a_notebook_is_seen(page, served):
    cells, _, _ = run(page, served % "tiny_bad.ipynb")
    assert cells["errors"] == ["ZeroDivisionError: division by zero"] and cells["waiting"] == 1


def test_the_first_screen_is_the_lesson_without_a_question(page, served):
    page.goto(served % "tiny_good.ipynb")
    page.wait_for_function("window.jupyterapp", timeout=60_000)
    page.evaluate("() => window.jupyterapp.restored")
    page.wait_for_timeout(1500)
    assert page.locator(".jp-Dialog, .Toastify__toast").count() == 0
