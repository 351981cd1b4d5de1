"""Does the explorer of fixed costs say what the kit and lesson 13 say, and do its lines cross where it says so?"""

from dataclasses import replace
from math import inf

import pytest

from roofline_kit.datasheets import datasheet
from roofline_kit.explore_latency import GAIN, SPAN, cpu_wins, explore_latency, fastest, helps_up_to, sentences, ways
from roofline_kit.ops import mlp
from roofline_kit.recorded import recorded
from roofline_kit.roofline import Roofline

H200 = datasheet("H200 SXM", "float32")
LESSON = {"calls": 5, "bandwidth": H200.bandwidth, "launch": 2.5e-6, "graph": 1.36e-6, "call": 0.5e-6,
          "cpu_bandwidth": 80e9}


def of(**changed):
    return ways(**LESSON | changed)


@pytest.mark.parametrize("hidden", [160, 320, 640, 2240])
def test_times_are_those_of_lesson_13(hidden):
    apart, together = (mlp(hidden // 2, hidden, hidden // 2, fused=fused) for fused in (False, True))
    for name, overhead, work in (("launches", 2.5e-6, apart), ("graph", 1.36e-6, apart), ("fused", 2.5e-6, together)):
        assert of()[name].seconds(work.nbytes) == replace(H200, overhead=overhead).seconds(work)


@pytest.mark.parametrize("nbytes", [0, 1, 4096, 1e9])
@pytest.mark.parametrize("calls", [1, 5, 64])
def test_a_time_is_fixed_costs_and_bytes(nbytes, calls):
    for way in of(calls=calls).values():
        assert way.seconds(nbytes) == pytest.approx(way.calls * way.overhead + nbytes / way.bandwidth)
        assert way.times(way.balanced).memory == pytest.approx(way.fixed)


def test_the_cpu_wins_up_to_where_lesson_13_says():
    found = of()
    for name, fixed in (("launches", 12.5e-6), ("graph", 6.8e-6), ("fused", 2.5e-6)):
        lesson = (fixed - 0.5e-6) / (1 / 80e9 - 1 / H200.bandwidth)
        assert cpu_wins(found["cpu"], found[name]) == (0, pytest.approx(lesson))


@pytest.mark.parametrize("changed, kind", [
    ({}, "up to"), ({"call": 1e-3}, "never"), ({"cpu_bandwidth": 9e12}, "always"),
    ({"call": 1e-3, "cpu_bandwidth": 9e12}, "from"), ({"cpu_bandwidth": H200.bandwidth}, "always"),
    ({"call": 12.5e-6, "cpu_bandwidth": H200.bandwidth}, "never")])
def test_between_the_bytes_named_the_cpu_is_faster_and_outside_it_is_not(changed, kind):
    cpu, gpu = of(**changed)["cpu"], of(**changed)["launches"]
    low, high = cpu_wins(cpu, gpu)
    assert kind == {(True, True): "always", (True, False): "up to", (False, True): "from"}.get(
        (low == 0, high == inf), "") or (low, high) == (0, 0) and kind == "never"
    for nbytes in (1.0, 1e3, 1e6, 1e9, 1e12, *(near for edge in (low, high) if 0 < edge < inf
                                               for near in (0.99 * edge, 1.01 * edge))):
        assert (cpu.seconds(nbytes) < gpu.seconds(nbytes)) == (low < nbytes < high)


@pytest.mark.parametrize("fast", ["fused", "graph"])
def test_up_to_the_bytes_named_the_gain_is_reached_and_beyond_it_is_not(fast):
    slow, fast = of()["launches"], of()[fast]
    limit = helps_up_to(slow, fast)
    gains = [slow.seconds(part * limit) / fast.seconds(part * limit) for part in (0.99, 1, 1.01)]
    assert gains[0] > gains[1] == pytest.approx(GAIN) and gains[1] > gains[2]


def test_a_call_alone_has_nothing_to_fuse():
    found = of(calls=1)
    assert helps_up_to(found["launches"], found["fused"]) == 0
    assert any("nothing is left to fuse" in text for text in sentences(found, 4e5))


def test_the_sentences_say_what_is_computed():
    first, fusion, graph, cpu, best, *_ = sentences(of(), 409_600)
    assert first == "5 launches take 12.5 us, the bytes 85.3 ns: latency-bound."
    assert fusion == "Fusion makes it 4.87 times as fast; it gains 1.5 times or more up to 84 MB."
    assert graph == "A graph makes it 1.83 times as fast; it gains 1.5 times or more up to 22.1 MB."
    assert cpu == ("The CPU answers before the launches up to 976 kB, before the graph up to 513 kB, "
                   "before one kernel up to 163 kB.")
    assert best == "For 410 kB the fastest is one fused kernel: 2.59 us."


def test_what_is_left_out_is_said_last():
    *_, cache, last = sentences(of(), 409_600)
    assert "one number for all sizes" in cache and "80 GB/s" in cache
    assert "bytes that fusion saves" in last and "may not use the whole chip" in last


@pytest.mark.parametrize("changed, says", [
    ({"call": 1e-3}, "The CPU never answers before the launches or the graph or one kernel."),
    ({"cpu_bandwidth": 9e12}, "The CPU always answers before the launches and the graph and one kernel."),
    ({"call": 5e-6}, ("The CPU answers before the launches up to 610 kB, before the graph up to 146 kB, "
                      "and never answers before one kernel."))])
def test_before_what_the_cpu_answers_is_a_sentence(changed, says):
    assert says in list(sentences(of(**changed), 409_600))


@pytest.mark.parametrize("changed, nbytes, says", [
    ({"calls": 500, "launch": 8e-5}, 1024, "Fusion makes it 500 times as fast;"),
    ({"launch": 1e-8, "graph": 1e-9}, 2**28, "Fusion makes it hardly faster;"),
    ({"launch": 8e-5, "graph": 1e-9}, 1024, "A graph makes it 76,700 times as fast;")])
def test_a_gain_has_three_digits(changed, nbytes, says):
    assert any(text.startswith(says) for text in sentences(of(**changed), nbytes))


# ---- The explorer ----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("calls", [1, 5, 500])
def test_the_strip_names_the_fastest_way_everywhere(calls):
    found = of(calls=calls)
    pieces = fastest(found)
    assert (pieces[0][0], pieces[-1][1]) == SPAN
    for low, high, name in pieces:
        for nbytes in (1.001 * low, (low * high) ** 0.5, 0.999 * high):
            assert found[name].seconds(nbytes) == min(way.seconds(nbytes) for way in found.values())


def test_the_table_shows_the_times():
    head, *table = explore_latency().view().rows
    assert head == ("way", "calls", "their cost", "bytes", "time", "bound")
    assert table[0] == ("GPU, kernel by kernel", "5", "12.5 us", "85.3 ns", "12.6 us", "latency")
    assert table[3] == ("CPU, one compiled call", "1", "500 ns", "5.12 us", "5.62 us", "memory")


def test_the_hollow_signs_are_explained():
    assert "hollow: the bytes take as long as the calls" in explore_latency().view().svg


def test_all_ends_of_all_sliders_are_drawn():
    explorer = explore_latency()
    for control in explorer.controls.values():
        for _, value in (control.options[0], control.options[-1]):
            view = explorer.view(**{control.name: value})
            assert "nan" not in view.svg and "inf" not in view.svg and len(view.svg) < 12_000
            assert view.rows != explorer.view().rows or value == explorer.start[control.name]


def test_a_roof_of_a_cpu_gives_its_call_and_the_cache_that_holds_the_bytes():
    here = recorded("epyc-zen4-2-cores").roof()
    small, large = (explore_latency(here, nbytes=nbytes).start for nbytes in (409_600, 2**28))
    assert small["call"] == large["call"] == here.overhead
    assert (small["cpu"], large["cpu"]) == (here.levels[1][1], here.bandwidth)


def test_a_roof_of_a_gpu_is_one_more_chip():
    gpu = Roofline(1e15, 4e12, overhead=3e-6, name="GPU", clocks=(("wall", 0, 3e-6, 0), ("graph", 1e-6, 1.5e-6, 0)))
    start = explore_latency(gpu).start
    assert (start["chip"], start["launch"], start["graph"]) == ("this GPU", 3e-6, 1.5e-6)
    assert explore_latency(gpu).view().rows[1][3] == "102 ns"


@pytest.mark.parametrize("how, says", [
    ({"calls": 0}, "calls is 0"), ({"calls": 1.5}, "calls is 1.5"), ({"nbytes": -1}, "nbytes is -1"),
    ({"launch": "x"}, "launch is 'x'"), ({"nbytes": 999}, "from 1 kB to 300 MB"),
    ({"roof": "H200"}, "a Roofline is needed"), ({"cpu": 0}, "cpu is 0"), ({"chip": "A100"}, "several chips")])
def test_a_first_value_that_cannot_be_is_refused(how, says):
    with pytest.raises(ValueError, match=says):
        explore_latency(**how)


def test_a_datasheet_is_a_gpus_and_no_processors():
    assert explore_latency(datasheet("B200", "float32")).start["chip"] == "this B200"
