"""Figures: the right points in the right place, told apart without colour, and no clock needed to draw them."""

import os
import subprocess
import sys

import matplotlib
import pytest

from roofline_kit.datasheets import datasheet
from roofline_kit.ops import dot, gemm
from roofline_kit.plot import plot, plot_sweep
from roofline_kit.roofline import Roofline
from roofline_kit.timing import Run
from roofline_kit.work import Work

matplotlib.use("Agg")
HERE = Roofline(100e9, 10e9, vector_peak=60e9, name="machine", origin="measured", levels=((2**20, 100e9),))
DOT, GEMM = dot(10**7), gemm(1000, 1000, 1000)


def run(work, seconds, cold=True):
    return Run(work.name, seconds, 0.1, (seconds,), work, cold)


@pytest.fixture(autouse=True)
def close():
    yield
    matplotlib.pyplot.close("all")


def markers(ax):
    return [line for line in ax.lines if line.get_marker() not in ("None", None, "")]


def texts(ax):
    return [text.get_text() for text in ax.texts]


def test_a_roof_is_its_slope_its_ridge_and_its_peak():
    line = plot(HERE).lines[0]
    xs, ys = line.get_xdata(), line.get_ydata()
    assert (xs[1], ys[1], ys[2]) == (HERE.ridge, HERE.peak, HERE.peak) and ys[0] == pytest.approx(xs[0] * 10e9)


def test_measured_roofs_are_solid_and_datasheets_dashed():
    ax = plot(HERE, datasheet("H100 SXM", "float32"))
    assert ax.lines[0].get_linestyle() == "-" and "--" in [line.get_linestyle() for line in ax.lines]
    assert any("H100 SXM (datasheet, float32)" in text for text in texts(ax))


def test_a_lower_vector_unit_and_the_caches_have_lines_of_their_own():
    assert {"vector unit", "L1"} <= set(texts(plot(HERE)))


def test_a_run_is_a_filled_mark_at_its_achieved_rate_and_a_hollow_one_at_the_predicted():
    hollow, filled = markers(plot(HERE, runs=run(DOT, 0.01)))
    assert hollow.get_markerfacecolor() == "none" and filled.get_markerfacecolor() != "none"
    assert filled.get_ydata()[0] == pytest.approx(2e9) and hollow.get_ydata()[0] == pytest.approx(2.5e9)
    assert filled.get_xdata()[0] == 0.25


def test_a_work_alone_is_hollow_and_named():
    ax = plot(HERE, works=[GEMM])
    assert [line.get_markerfacecolor() for line in markers(ax)] == ["none"] and "gemm" in texts(ax)


def test_one_work_and_many_roofs_can_be_drawn():
    assert "dot" in texts(plot(*[HERE] * 11, works=DOT))


def test_operations_differ_in_the_shape_of_their_marks():
    shapes = {line.get_marker() for line in markers(plot(HERE, works=[DOT, GEMM]))}
    assert len(shapes) == 2


def test_a_point_above_the_roof_is_ringed_and_says_so():
    ax = plot(HERE, runs=[run(DOT, 0.008 / 1.06)])
    assert "dot (above its roof)" in texts(ax) and len(markers(ax)) == 3
    assert not any("above" in text for text in texts(plot(HERE, runs=[run(DOT, 0.008 / 1.04)])))


def test_axes_are_logarithmic_and_name_their_units():
    ax = plot(HERE)
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert "[FLOP/B]" in ax.get_xlabel() and "[FLOP/s]" in ax.get_ylabel()


def test_a_notebook_shows_the_figure_and_no_text_for_the_axes():
    from IPython.core.formatters import DisplayFormatter

    ax = plot(HERE)
    assert isinstance(ax, matplotlib.axes.Axes) and DisplayFormatter().format(ax) == ({}, {})


def test_the_style_does_not_leak():
    before = dict(matplotlib.rcParams)
    plot(HERE, runs=run(DOT, 0.01))
    assert dict(matplotlib.rcParams) == before


def test_a_figure_can_be_saved(tmp_path):
    plot(HERE, runs=[run(DOT, 0.01), run(GEMM, 0.03)]).figure.savefig(tmp_path / "roof.png")
    assert (tmp_path / "roof.png").stat().st_size > 5000


def test_a_sweep_shows_each_run_its_prediction_and_the_marks():
    sizes, runs = [10, 100], [run(dot(10), 1e-6), run(dot(100), 2e-6)]
    ax = plot_sweep(sizes, runs, value="seconds", roof=HERE, marks=[(50, "L1")])
    assert list(ax.lines[0].get_ydata()) == [1e-6, 2e-6] and "L1" in texts(ax)
    assert any(line.get_linestyle() == "--" for line in ax.lines) and "[s]" in ax.get_ylabel()


def test_a_guess_that_was_not_made_leaves_no_mark():
    ax = plot_sweep([10, 30], [run(dot(10), 1e-6)] * 2, marks=[(..., "your guess"), (20, "L1")])
    assert "your guess" not in texts(ax) and "L1" in texts(ax)


def test_the_mixes_of_reads_and_writes_are_a_band_below_the_slope():
    mixed = Roofline(100e9, 30e9, mixes=((0, 20e9, "read"), (0.5, 30e9, "scale")), write_allocate=True)
    assert len(plot(mixed).collections) == 1 and len(plot(HERE).collections) == 0


def test_a_second_sweep_on_the_same_axes_has_another_colour():
    runs = [run(dot(10), 1e-6)]
    ax = plot_sweep([1], runs, ax=plot_sweep([1], runs))
    assert len({line.get_color() for line in ax.lines}) == 2


def test_ridge_points_are_drawn_against_the_years_of_their_chips():
    names = ("A100 80GB SXM", "H100 SXM", "H200 SXM")
    ax = plot_sweep([2020, 2022, 2024], [datasheet(name) for name in names], value="ridge", xlabel="year")
    assert list(ax.lines[0].get_ydata()) == pytest.approx([153, 295.3, 206.1], abs=0.1)
    assert (ax.get_xscale(), ax.get_yscale()) == ("linear", "log") and ax.get_ylabel() == "ridge point [FLOP/B]"
    assert all(float(tick).is_integer() for tick in ax.get_xticks())


@pytest.mark.parametrize("call, sentence", [
    (lambda: plot(), "needs at least one roof"),
    (lambda: plot("H100 SXM"), "a Roofline is needed, not 'H100 SXM'"),
    (lambda: plot(HERE, works=[Work(flops=0, nbytes=1)]), "FLOPs and bytes above 0"),
    (lambda: plot_sweep([1, 2], []), "one size for each run"),
    (lambda: plot_sweep([1], [run(DOT, 1)], value="speed"), "value is 'speed'"),
])
def test_what_cannot_be_drawn_is_refused_in_one_sentence(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()


def test_in_a_notebook_the_second_figure_is_shown_like_the_first():
    code = ("from IPython.core.interactiveshell import InteractiveShell; InteractiveShell.instance();"
            "import matplotlib, roofline_kit as rk; rk.plot(rk.Roofline(1e12, 1e11));"
            "print(matplotlib.is_interactive())")
    env = os.environ | {"MPLBACKEND": "module://matplotlib_inline.backend_inline"}
    told = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert told.stdout == "True\n"


def test_a_second_sweep_keeps_what_the_axes_say():
    runs = [Run("dot", 1e-3, work=dot(1000))]
    ax = plot_sweep([1], runs, xlabel="rows")
    assert plot_sweep([1], runs, ax=ax).get_xlabel() == "rows"
    assert plot_sweep([1], runs).get_xlabel() == "bytes moved [B]"


@pytest.mark.parametrize("times, labels", [((1e-6, 3e-6), {"30 GFLOP/s", "70 GFLOP/s"}), ((1e-6, 1e-5), {"20 GFLOP/s"}),
                                           ((1e-6, 3e-3), {"100 MFLOP/s"})])
def test_an_axis_has_labels_to_be_read_by_however_few_powers_of_ten_it_shows(times, labels):
    ax = plot_sweep([1, 2], [Run("dot", time, work=dot(50_000)) for time in times], value="flop_per_s")
    ax.figure.canvas.draw()
    shown = {text.get_text() for minor in (True, False) for text in ax.get_yticklabels(minor=minor)}
    assert labels <= shown and ("50 GFLOP/s" in shown) == (times[1] < 1e-3)
