"""Do the explorers follow a key, in JupyterLab and in Voila? Numbers, figures, names, and a console without errors."""

import re

import pytest

import roofline_kit as rk

from .conftest import ROOT, shut, start_voila
from .test_lab import RUN

FIGURE = ".explorer svg[role=img]"
CASES = {                     # explorer: the slider that is moved, its value then
    "roofline": ("m", {"m": 1448}), "gemm": ("m, the batch", {"m": 1448}), "serving": ("batch", {"batch": 24}),
    "latency": ("kernels", {"calls": 6})}
PLACES = "(box) => [...box.querySelectorAll('svg[role=img], table'), box].map((e) => e.getBoundingClientRect().bottom)"
KNOWN = re.compile("cdn.jsdelivr.net|RUNTIME-012")       # Voila's own: icons from a network; an extension that it skips

STATIC = RUN[:RUN.index("app.shell.collapseLeft")].replace("seconds", "count") + """
    panel.content.notebookConfig = { ...panel.content.notebookConfig, windowingMode: 'none' };
    for (let i = 0; i < 100; i++) {                        // widths of the figures, before any cell has run
        const all = [...document.querySelectorAll(".jp-OutputArea-output img[src^='data:image/svg']")];
        if (all.length == count && all.every((img) => img.naturalWidth)) return all.map((img) => img.naturalWidth);
        await pause(100);
    }
    return [];
}"""


@pytest.fixture(scope="module")
def lab(browser, browser_context_args, served):
    """The notebook with all explorers, run in JupyterLab, and what its console said."""
    yield from opened(browser, browser_context_args, served % "explore.ipynb", in_lab=True)


@pytest.fixture(scope="module")
def voila(browser, browser_context_args, tmp_path_factory):
    server, address = start_voila(ROOT / "notebooks/explore.ipynb", tmp_path_factory.mktemp("voila"))
    yield from opened(browser, browser_context_args, address)
    shut(server)


def opened(browser, arguments, address, in_lab=False):
    page, said = browser.new_page(**arguments), []
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("console", lambda note: note.type == "error" and said.append(f"{note.text} {note.location['url']}"))
    page.goto(address)
    if in_lab:
        page.wait_for_function("window.jupyterapp", timeout=60_000)
        page.static = page.evaluate(STATIC, len(CASES))
        page.evaluate(RUN.replace("await panel.sessionContext.shutdown();", ""), 60)
    page.wait_for_function(f"document.querySelectorAll('{FIGURE}').length == {len(CASES)}", timeout=60_000)
    yield page, said
    page.close()


def shown(box):
    """(the figure, the cells of the table) of an explorer as they stand in the page."""
    figure = box.locator("svg[role=img]").evaluate("(svg) => svg.outerHTML")
    return figure, box.locator("th, td").all_inner_texts()


def expected(name, **changed):
    return [cell for row in getattr(rk, f"explore_{name}")().view(**changed).rows for cell in row]


def follows(page, name):
    """Move a slider with an arrow key; the figure and the numbers are the kit's own, before and after."""
    label, changed = CASES[name]
    box = page.locator(".explorer").nth(list(CASES).index(name))
    before, numbers = shown(box)
    assert numbers == expected(name)
    slider = box.get_by_role("slider", name=label, exact=True)
    slider.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("([box, was]) => box.querySelector('svg[role=img]').outerHTML != was",
                           arg=[box.element_handle(), before], timeout=10_000)
    assert shown(box)[1] == expected(name, **changed) != numbers
    readout = slider.locator("xpath=ancestor::*[contains(@class, 'widget-slider')]").locator(".widget-readout")
    assert slider.get_attribute("aria-valuetext") == readout.inner_text()


@pytest.mark.parametrize("name", CASES)
def test_in_jupyterlab_a_key_changes_figure_and_numbers(lab, name):
    follows(lab[0], name)


def test_before_it_is_run_the_notebook_shows_its_figures(lab):
    assert len(lab[0].static) == len(CASES) and all(width > 40 for width in lab[0].static)


def test_a_list_is_operated_by_keys(lab):
    page, _ = lab
    box = page.locator(".explorer").first
    box.get_by_role("combobox", name="operation").focus()
    page.keyboard.press("ArrowDown")
    box.get_by_role("slider", name="length", exact=True).wait_for(timeout=10_000)
    assert not box.get_by_role("slider", name="m", exact=True).is_visible()


def test_an_impossible_value_is_a_sentence_and_the_figure_stays(lab):
    page, _ = lab
    box = page.locator(".explorer").nth(1)
    before, where = shown(box)[0], box.evaluate(PLACES)
    box.get_by_role("combobox", name="dtype").select_option("float4")
    box.get_by_role("alert").wait_for(timeout=10_000)
    assert box.evaluate(PLACES) == where
    assert "H100 SXM has no unit for float4" in box.get_by_role("alert").inner_text() and shown(box)[0] == before


def test_a_broken_config_is_a_sentence(lab):
    page, _ = lab
    box = page.locator(".explorer").nth(2)
    box.get_by_role("combobox", name="model").select_option("a config.json, pasted")
    box.get_by_role("textbox", name="config.json").fill("{")
    page.keyboard.press("Tab")
    box.get_by_role("alert", name="").filter(has_text="no JSON").wait_for(timeout=10_000)


def test_every_control_has_a_name(lab):
    unnamed = "(all) => all.filter((e) => !e.getAttribute('aria-label') && !e.labels?.length).length"
    controls = lab[0].locator(".explorer [role=slider], .explorer select, .explorer textarea")
    assert controls.count() > 20 and controls.evaluate_all(unnamed) == 0


def test_the_value_beside_a_slider_takes_no_words_and_is_no_stop_of_the_tab_key(lab):
    closed = "(all) => all.filter((one) => one.isContentEditable || one.tabIndex >= 0).length"
    values = lab[0].locator(".explorer .widget-readout")                    # of sliders moved before, too
    assert values.count() > 15 and values.evaluate_all(closed) == 0


def test_no_second_chip_reads_none(lab):
    second = lab[0].locator(".explorer").first.get_by_role("combobox", name="second chip")
    second.select_option("none")
    assert second.evaluate("(list) => list.selectedOptions[0].textContent") == "none"


@pytest.mark.parametrize("width", [1280, 900, 700])
def test_no_name_of_a_control_is_cut(lab, width):
    lab[0].set_viewport_size({"width": width, "height": 900})
    lab[0].locator(".explorer").first.get_by_role("combobox", name="operation").select_option("attention")
    lab[0].get_by_role("slider", name="queries (32 heads)").wait_for(timeout=10_000)
    cut = "(all) => all.filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.textContent)"
    assert lab[0].locator(".explorer .widget-label:visible").evaluate_all(cut) == []


def test_jupyterlabs_console_holds_no_error(lab, pictures):
    page, said = lab
    for width in (1280, 700):
        page.set_viewport_size({"width": width, "height": 900})
        for number, name in enumerate(CASES):
            page.locator(".explorer").nth(number).screenshot(path=pictures / f"explore_{name}_{width}.png")
    assert said == []


def test_a_notebook_that_was_saved_shows_the_still_figures_when_it_is_opened_again(lab):
    page, _ = lab
    still = page.locator(".explorer-still img")
    assert still.count() == len(CASES) and not any(one.is_visible() for one in still.all())
    page.evaluate("""async () => {
        const app = window.jupyterapp;
        await app.commands.execute('docmanager:save');
        await app.shell.currentWidget.sessionContext.shutdown();
    }""")
    page.reload()
    page.wait_for_function("window.jupyterapp", timeout=60_000)
    assert all(width > 40 for width in page.evaluate(STATIC, len(CASES)))
    assert still.count() == len(CASES) and all(one.is_visible() for one in still.all())


def test_in_voila_each_explorer_follows_a_key(voila, pictures):
    page, said = voila
    assert not any(one.is_visible() for one in page.locator(".explorer-still").all())
    for name in CASES:
        follows(page, name)
    page.screenshot(path=pictures / "explore_voila.png", full_page=True)
    assert [words for words in said if not KNOWN.search(words)] == []
