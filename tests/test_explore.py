"""Explorers: what they show is what the kit computes, at every end of every slider; errors are sentences."""

import base64
import html
import math
import re
from dataclasses import replace

import nbformat
import pytest
from conftest import CPU, ROOT
from nbconvert import HTMLExporter

import roofline_kit as rk
from roofline_kit.explore import STILL, Control, Explorer, View, area, choice, sentence, sizes, slider
from roofline_kit.explore_gemm import PLANE, critical_batch, critical_tile, draw, explore_gemm, step, three, tiled
from roofline_kit.explore_roofline import OPERATIONS, SIGNS, _plane, effective, explore_roofline, gains
from roofline_kit.svg import picture
from roofline_kit.tiles import steps

H100 = rk.datasheet("H100 SXM", "bfloat16")
ALL = {"roofline": rk.explore_roofline, "gemm": rk.explore_gemm, "serving": rk.explore_serving,
       "latency": rk.explore_latency}
each = pytest.mark.parametrize("name", ALL)


def half(n, how="plain"):
    if n == 3:
        raise ValueError("3 is not even.")
    return View(picture("half", "told"), (("half", str(n // 2)),), (f"{how}: half of {n}.",))


def small():
    return Explorer("Half", [slider("n", "a number", (2, 3, 4)), choice("how", "how", ("plain", "more")),
                             slider("m", "hidden", (1, 2), only=("how", ("more",)))],
                    lambda n, how, m: half(n, how))


def column(view, place=1):
    """{name of a row: the text in this column} of a view."""
    return {row[0]: row[place] for row in view.rows}


# the shell

def test_sizes_are_powers_of_two_with_steps_between():
    assert sizes(1, 16) == (1, 2, 4, 8, 16) and sizes(1, 16, steps=2) == (1, 2, 3, 4, 6, 8, 11, 16)


def test_a_control_writes_its_values():
    assert slider("n", "n", (1, 1024)).text(1024) == "1,024" and area("a", "a", "x").text("x") == "x"


def test_a_value_that_a_control_does_not_have_is_a_sentence():
    with pytest.raises(ValueError, match="unknown how 'plane': did you mean 'plain'"):
        small().view(how="plane")
    with pytest.raises(ValueError, match="unknown control 'N'"):
        small().view(N=2)


def test_a_control_without_meaning_is_not_shown():
    explorer = small()
    assert explorer.shown({"how": "plain"}) == ["n", "how"] and explorer.shown({"how": "more"}) == ["n", "how", "m"]


def test_the_widget_follows_its_controls():
    box = small().widget
    controls, figure, _ = box.children
    n, how, hidden = controls.children
    assert hidden.layout.display == "none" and "half of 2." in figure.value
    n.value, how.value = 4, "more"
    assert hidden.layout.display is None and "more: half of 4." in figure.value and "<svg" in figure.value


def test_an_error_is_a_sentence_and_the_last_figure_stays():
    controls, figure, _ = small().widget.children
    controls.children[0].value = 3
    assert "3 is not even." in figure.value and 'role="alert"' in figure.value and "half of 2." in figure.value
    controls.children[0].value = 4
    assert "alert" not in figure.value and "half of 2." not in figure.value


@pytest.mark.parametrize(("error", "told"), [
    (ValueError("Two\nlines."), "Two lines."), (KeyError("x"), "These values cannot be computed (KeyError: 'x').")])
def test_any_error_is_one_line(error, told):
    assert sentence(error) == told


def test_an_alert_stands_below_the_figure_where_a_place_is_kept_for_it():
    controls, figure, _ = small().widget.children
    room = '</svg><div style="min-height:4.6em">'
    assert f"{room}</div>" in figure.value
    controls.children[0].value = 3
    assert f'{room}<p role="alert"' in figure.value


@pytest.mark.parametrize("make", [choice, slider])
def test_none_is_a_value_like_any_other(make):
    pairs = [("none", None), ("two", 2)]
    more = {} if make is choice else {"text": {None: "none", 2: "two"}.get}
    control = make("n", "n", pairs if make is choice else [None, 2], **more)
    box = Explorer("N", [control], lambda n: View("<svg></svg>", (), (f"n is {n}.",))).widget
    (chosen,), figure = box.children[0].children, box.children[1]
    assert chosen.index == 0 and chosen.options[0][0] == "none" and "n is None." in figure.value
    chosen.index = 1
    assert "n is 2." in figure.value
    chosen.index = 0
    assert "n is None." in figure.value


def test_no_second_chip_is_shown_as_none():
    second = explore_roofline(second=None).widget.children[0].children[1]
    assert second.label == "none" and second.index == 0


def test_only_a_page_without_a_kernel_says_that_it_stands_still():
    explorer = small()
    assert f"<p>{STILL}</p><table" in explorer.html() and STILL not in explorer.widget.children[1].value


def test_a_first_figure_that_cannot_be_drawn_is_told_at_once():
    with pytest.raises(ValueError, match="not even"):
        Explorer("Half", [slider("n", "n", (3, 4))], half)


def test_every_control_of_the_widget_has_its_label():
    controls = small().widget.children[0].children
    assert [control.description for control in controls] == ["a number", "how", "hidden"]


def test_a_widget_that_was_closed_is_made_again():
    explorer = small()
    first = explorer.widget
    assert explorer.widget is first
    first.close()
    assert explorer.widget is not first and explorer.widget.comm


# all four

@each
def test_beside_the_widget_a_page_without_a_kernel_gets_the_same_figure_and_numbers(name, monkeypatch):
    explorer, outputs = ALL[name](), []
    monkeypatch.setattr("IPython.display.display", lambda data, **_: outputs.append(data))
    explorer._ipython_display_()
    live, data = outputs
    assert live["application/vnd.jupyter.widget-view+json"]["model_id"] and "text/html" not in live
    drawn = re.search(r'src="data:image/svg\+xml;base64,([^"]+)"', data["text/html"])[1]
    view = explorer.view()
    assert base64.b64decode(drawn).decode() == view.svg
    assert all(cell in data["text/plain"] for row in view.rows for cell in row)
    assert re.search(r'alt="[^"]{40,}"', data["text/html"])


@each
def test_the_committed_notebook_shows_what_the_kit_computes(name):
    cells = nbformat.read(ROOT / "notebooks/explore.ipynb", as_version=4).cells
    shown = [out.data for cell in cells if cell.source == f"rk.explore_{name}()" for out in cell.outputs]
    assert len(shown) == 1 and ALL[name]().html() in shown[0]["text/html"]
    assert list(shown[0]) == ["text/html", "text/plain"]


@each
def test_every_end_of_every_control_is_a_figure_or_a_sentence(name):
    explorer = ALL[name]()
    for control in explorer.controls.values():
        for _, value in control.options:
            controls = {"operation": next((told for told, (names, _) in OPERATIONS.items() if control.name in names),
                                          "matrix product")} if name == "roofline" else {}
            try:
                view = explorer.view(**{**controls, control.name: value})
            except ValueError as error:
                assert re.fullmatch(r"[^\n]+[.?]", str(error))
                continue
            assert "nan" not in view.svg and "inf" not in view.svg and all(view.sentences)
            assert len({len(row) for row in view.rows}) == 1


@each
def test_no_text_of_a_figure_is_smaller_than_the_rest(name):
    assert not re.search(r'<text[^>]* font-size="(\d|1[0-3])"', ALL[name]().view().svg)


def test_nbconvert_makes_a_page_with_the_figures_and_the_numbers():
    page, _ = HTMLExporter().from_filename(str(ROOT / "notebooks/explore.ipynb"))
    assert len(re.findall(r'<img[^>]* src="data:image/svg\+xml;base64,', page)) == len(ALL)
    assert all(html.escape(cell) in page for name in ALL for row in ALL[name]().view().rows for cell in row)


# the roofline

@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_table_is_the_kits_own(operation):
    explorer = explore_roofline(operation=operation, launch=1e-6)
    roof, names = replace(H100, overhead=1e-6), OPERATIONS[operation][0]
    work = OPERATIONS[operation][1](*(explorer.start[name] for name in names), dtype="bfloat16")
    told, times = column(explorer.view()), roof.times(work)
    assert [told["memory"], told["arithmetic"], told["launches"]] == [rk.si(seconds, "s") for seconds in times]
    assert told["predicted time"] == rk.si(roof.seconds(work), "s") and told["bound"] == f"{roof.bound(work)}-bound"
    assert told["arithmetic intensity"] == rk.si(work.intensity, "FLOP/B")


def test_a_second_chip_has_a_column_of_its_own():
    view = explore_roofline(chip="A100 80GB SXM", second="H100 SXM", launch=0.0).view()
    assert view.rows[0] == ("", "A100 80GB SXM", "H100 SXM")
    work = rk.gemm(1024, 4096, 4096, "bfloat16")
    assert column(view, 2)["predicted time"] == rk.si(H100.seconds(work), "s")
    assert "H100 SXM is 3.17 times as fast" in view.sentences[1]


def test_the_point_lies_where_the_model_says():
    view = explore_roofline(second=None, launch=0.0).view()
    x, y = _plane((H100,)).at(rk.gemm(1024, 4096, 4096, "bfloat16").intensity, H100.peak)
    assert f'cx="{x:.1f}" cy="{y:.1f}" r="{SIGNS[0][2]}"' in view.svg


@pytest.mark.parametrize("explore", [explore_roofline, explore_gemm])
def test_a_roof_of_ones_own_is_first_in_the_list(explore):
    chip = explore(roof=CPU).widget.children[0].children[0]
    assert chip.value is CPU and chip.options[0][0] == "a laptop, by hand (by hand)"


def test_a_roof_of_ones_own_is_chosen_and_keeps_its_dtype():
    explorer = explore_roofline(roof=CPU, second=None)
    work = rk.gemm(1024, 4096, 4096, "float32")
    assert column(explorer.view())["predicted time"] == rk.si(CPU.seconds(work), "s")
    with pytest.raises(ValueError, match="is a roof for float32: choose that dtype"):
        explorer.view(dtype="float64")


def test_a_recorded_machine_is_in_the_list():
    name = rk.recorded()[0]
    view = explore_roofline(chip=name, second=None, dtype="float32").view()
    bandwidth, peak = effective(rk.recorded(name).roof("float32"), rk.gemm(1024, 4096, 4096, "float32"))
    assert column(view)["ridge point"] == rk.si(peak / bandwidth, "FLOP/B")


def test_a_memory_bound_operation_gains_from_bytes_and_a_compute_bound_one_from_flops():
    assert gains(H100, rk.dot(2**24, "bfloat16")) == pytest.approx({"bytes": 2, "FLOPs": 1, "launches": 1})
    assert gains(H100, rk.gemm(*[8192] * 3, "bfloat16")) == pytest.approx({"bytes": 1, "FLOPs": 2, "launches": 1})


def test_arrays_that_no_memory_holds_are_a_sentence():
    told = explore_roofline().view(m=2**17, n=2**17, k=2**18).sentences
    assert sum(words.startswith("The arrays take 172 GB, ") for words in told) == 2


@pytest.mark.parametrize("wrong", [{"roof": "H100"}, {"chip": "H1000"}, {"m": 0}, {"m": 2.5}, {"q": 3},
                                   {"dtype": "half"}, {"operation": "fft"}, {"dtype": "float4"}])
def test_a_wrong_argument_is_a_sentence(wrong):
    with pytest.raises(ValueError, match=r"^[^\n]+$"):
        explore_roofline(**wrong)


# the product

@pytest.mark.parametrize(("m", "n", "k", "tile"), [(6, 6, 6, 2), (5, 7, 6, 3), (1, 4, 9, 4), (2, 3, 4, 5)])
def test_tiles_load_what_their_steps_load(m, n, k, tile):
    every = steps(m, n, k, tile)
    assert tiled(m, n, k, tile, "float32").nbytes == 4 * (every[-1][-1] + m * n)
    assert f">step 1 of {len(every):,}<" in draw("H100 SXM", "bfloat16", m, n, k, tile, 0).svg
    assert [step(m, n, k, tile, number / len(every) + 1e-9) for number in range(len(every))] == [
        at[:3] for at in every]
    assert step(m, n, k, tile, 1) == every[-1][:3]


def test_a_tile_of_the_whole_product_moves_each_number_once():
    assert tiled(64, 32, 16, 64).nbytes == rk.gemm(64, 32, 16).nbytes


@pytest.mark.parametrize(("n", "k"), [(4096, 4096), (4096, 28672)])
def test_the_critical_batch_is_where_the_bound_changes(n, k):
    batch = critical_batch(H100, n, k)
    assert H100.bound(rk.gemm(batch, n, k, "bfloat16")) == "compute"
    assert H100.bound(rk.gemm(batch - 1, n, k, "bfloat16")) == "memory"
    assert batch == math.ceil(1 / (1 / H100.ridge - 1 / n - 1 / k))


def test_a_small_layer_has_no_critical_batch():
    assert critical_batch(H100, 512, 512) == math.inf
    told = explore_gemm(n=512, k=512).view().sentences
    assert "no batch makes it compute-bound: n and k are too short." in told[0]
    assert "No tile makes it compute-bound: n and k are too short." in told[1]


@pytest.mark.parametrize(("shape", "side"), [({"n": 64}, "n"), ({"k": 1}, "k")])
def test_the_side_that_is_too_short_is_named(shape, side):
    assert f"No tile makes it compute-bound: {side} is too short." in explore_gemm(**shape).view().sentences[1]


@pytest.mark.parametrize("m", [322, 346, 700, 1024])
@pytest.mark.parametrize(("n", "k"), [(4096, 4096), (640, 5000), (300, 300), (2000, 20000)])
def test_the_critical_tile_is_the_smallest_that_is_compute_bound(m, n, k):
    fit = (t for t in range(1, max(m, n) + 1) if H100.bound(tiled(m, n, k, t, "bfloat16")) == "compute")
    assert critical_tile(H100, m, n, k) == next(fit, math.inf)


@pytest.mark.parametrize("m", [1, 64, 345])
def test_below_the_critical_batch_no_tile_is_compute_bound(m):
    view = explore_gemm(m=m).view()
    assert "No tile makes it compute-bound: m is below the critical batch." in view.sentences[1]
    assert view.rows[-1] == ("compute-bound from", "m 346", "none")


def test_the_tile_that_is_told_is_compute_bound_and_the_one_before_is_not():
    assert column(explore_gemm().view(), 2)["compute-bound from"] == "tile 1,024"
    assert column(explore_gemm(tile=1024).view(), 2)["bound"] == "compute-bound"
    assert column(explore_gemm(tile=1023).view(), 2)["bound"] == "memory-bound"


@pytest.mark.parametrize(("side", "dtype", "told"), [
    (2**17, "bfloat16", "From a tile of 594 on it is compute-bound, a little more than 2 x ridge point = 591,"),
    (4096, "float32", "From a tile of 82 on it is compute-bound, a little more than 4 x ridge point = 80,")])
def test_in_a_large_product_the_tile_is_near_lesson_06s_rule(side, dtype, told):
    assert told in explore_gemm(side, side, side, dtype=dtype).view().sentences[1]


def test_what_is_on_the_chip_of_a_tile_is_no_more_than_the_matrices():
    assert "one of each matrix takes 6.29 MB." in explore_gemm().view().sentences[1]           # 3 x 1024 x 1024 x 2 B
    told = explore_gemm(n=2**15, k=400, chip="A100 80GB SXM").view().sentences[1]    # 2 B x (512 x 512 + 2 x 512 x 400)
    assert "From a tile of 512 on" in told and "one of each matrix takes 1.34 MB." in told


def test_the_matrices_have_the_names_that_are_asked_for():
    view = explore_gemm(names=("x", "W", "y")).view()
    assert all(f">{name}</text>" in view.svg for name in "xWy") and "filled: y so far" in view.svg
    assert "Each number of x is used 4,096 times, each of W 1,024 times, and each of y has 4,096" in view.sentences[0]
    assert not re.search(r">[ABC]<| [ABC]\b", " ".join(view.sentences) + view.svg)


@pytest.mark.parametrize(("number", "told"), [(1, "1.00"), (1.196, "1.20"), (9.999, "10.0"), (256.4, "256"),
                                              (87381.7, "87,400")])
def test_a_ratio_has_three_digits(number, told):
    assert three(number) == told


def test_one_is_singular():
    told = explore_gemm(k=1, tile=2048).view().sentences[0]
    assert "each of C has 1 term:" in told


def test_where_both_signs_lie_on_one_place_the_smaller_one_is_on_top():
    view = explore_gemm(m=64, tile=2**12).view()
    x, y = PLANE.at(64, rk.gemm(64, 4096, 4096, "bfloat16").intensity)
    assert column(view)["bytes"] == column(view, 2)["bytes"]
    assert -1 < view.svg.index(f'cx="{x:.1f}" cy="{y:.1f}" r="9"') < view.svg.index(f'd="M{x:.1f} {y - 5.85:.1f}L')


def test_arrays_that_no_memory_holds_are_drawn_and_told():
    view = explore_gemm(2**17, 2**17, 2**17).view()
    assert view.sentences[2].startswith("The arrays take 103 GB, ") and "H100 SXM" in view.sentences[2]
    assert len(explore_gemm(2**17, 2**17, 2**17, roof=CPU).view().sentences) == 2


def test_both_columns_are_the_kits_own():
    view = explore_gemm(m=64, tile=32).view()
    for place, work in ((1, rk.gemm(64, 4096, 4096, "bfloat16")), (2, tiled(64, 4096, 4096, 32, "bfloat16"))):
        told = column(view, place)
        assert told["bytes"] == rk.si(work.nbytes, "B") and told["memory"] == rk.si(H100.times(work).memory, "s")
        assert told["arithmetic intensity"] == rk.si(work.intensity, "FLOP/B")
        assert told["bound"] == f"{H100.bound(work)}-bound"


@pytest.mark.parametrize("wrong", [{"m": 0}, {"tile": 0}, {"n": 1.5}, {"roof": 3}, {"chip": "A1000"},
                                   {"names": "xWy"}, {"names": ("x", "W")}, {"names": 3}])
def test_a_wrong_size_is_a_sentence(wrong):
    with pytest.raises(ValueError, match=r"^[^\n]+$"):
        explore_gemm(**wrong)


def test_extreme_shapes_are_drawn():
    for m, n, k in ((1, 1, 1), (1, 2**17, 1), (2**17, 1, 2**17)):
        assert "nan" not in draw("H100 SXM", "bfloat16", m, n, k, 128, 100).svg


def test_a_control_is_frozen():
    with pytest.raises(AttributeError):
        Control("a", "a", "area", (), "").value = 1
