"""Do measured points become the right roofs, and is a card kept, reused and measured anew as it should be?"""

import json
import multiprocessing
import os
import sys
import threading
import time
from types import SimpleNamespace

import pytest

from roofline_kit import cards, protocol
from roofline_kit.device import device
from roofline_kit.doubts import INCONCLUSIVE, MeasureError
from roofline_kit.sustained import bandwidths, best, card, judged, one_core, plateaus, roofline, sustained, warnings

home = sys.modules["roofline_kit.sustained"]     # the name in the package is the function
CPU = device("cpu")
MiB = 2**20
COUNTED = {"read": 60e9, "triad": 54e9, "copy": 52e9, "scale": 100e9, "write": 50e9}


def a_round(slower=1.0, **counted):
    arrays = {label: home.TRAFFIC[label][0] for label in COUNTED}
    return {label: {"seconds": slower * arrays[label] / rate, "bytes": 1, "spread": 0.02, "threads": 2}
            for label, rate in (COUNTED | counted).items()}


def points(**changed):
    """What the protocol would have measured on a quiet machine of two cores."""
    rates = {"fma": {"float32": 200e9, "float64": 100e9}, "gemm": {"float32": 160e9, "float64": 80e9}}
    roofs = {kind: {dtype: [{"rate": rate / 2, "spread": 0.0}, {"rate": rate, "spread": 0.01}]
                    for dtype, rate in by.items()} for kind, by in rates.items()}
    return {"rounds": [a_round(1.1), a_round(), a_round(1.05)], "sweep": sweep((2, 400e9), (10, 60e9)),
            **roofs, "overheads": {"a NumPy call on four numbers": 4e-7}, "threads": 2, "buffer": 1024 * MiB,
            "software": {}, "foreign": 0.01, "seconds": 20.0} | changed


def sweep(*stretches):
    """(octaves, rate) of each stretch -> the sweep, two sizes an octave from 8 KiB."""
    rates = [rate for octaves, rate in stretches for _ in range(2 * octaves)]
    return [{"size": int(8192 * 2 ** (i / 2)), "bandwidth": rate} for i, rate in enumerate(rates)]


@pytest.fixture
def measured(monkeypatch, tmp_path):
    """An empty cache folder, and a protocol that takes no time; the list of its calls."""
    calls = []
    monkeypatch.setenv("ROOFLINE_KIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(home, "_known", {})
    monkeypatch.setattr(protocol, "measure_cpu", lambda device, tell: calls.append(tell) or points())
    return calls


def failing(error):
    """A function that raises that error, whatever it is called with."""
    def fail(*_):
        raise error
    return fail


def forget():
    home._known.clear()


def kept():
    return cards.folder() / f"{CPU.uid}.json"


# From points to roofs


def test_the_fastest_round_is_kept_whole():
    found = bandwidths([a_round(1.5, read=90e9), a_round(), a_round(1.2)])
    assert found["mixes"]["read"]["counted"] == pytest.approx(60e9)


def test_a_store_that_reads_its_line_first_moves_more_than_is_counted():
    mixes = bandwidths([a_round()])["mixes"]
    assert mixes["triad"]["bandwidth"] == pytest.approx(54e9 * 4 / 3)
    assert mixes["copy"]["bandwidth"] == pytest.approx(52e9 * 3 / 2)
    assert mixes["write"]["bandwidth"] == pytest.approx(50e9 * 2)


def test_reading_and_scaling_in_place_hide_no_traffic():
    mixes = bandwidths([a_round()])["mixes"]
    assert all(mixes[label]["bandwidth"] == mixes[label]["counted"] for label in ("read", "scale"))


def test_the_bandwidth_is_that_of_the_best_mix():
    assert bandwidths([a_round(read=120e9)])["bandwidth"] == pytest.approx(120e9)


def test_stores_too_fast_to_read_their_lines_are_not_said_to():
    found = bandwidths([a_round(write=90e9)])
    assert not found["write_allocate"] and found["mixes"]["write"]["share"] == 1
    assert found["bandwidth"] == pytest.approx(100e9)


def test_shares_written_follow_the_traffic_on_the_bus():
    shares = {label: mix["share"] for label, mix in bandwidths([a_round()])["mixes"].items()}
    assert shares == {"read": 0, "triad": 1 / 4, "copy": 1 / 3, "scale": 1 / 2, "write": 1 / 2}


def test_the_roofline_has_one_bandwidth_for_each_share():
    roof = roofline(judged(points(), CPU), "float32")
    assert [mix[0] for mix in roof.mixes] == [0, 1 / 4, 1 / 3, 1 / 2]
    assert roof.bandwidth == max(mix[1] for mix in roof.mixes)


def test_the_roofs_of_a_dtype_are_its_best_points():
    roof = roofline(judged(points(), CPU), "float64")
    assert (roof.peak, roof.vector_peak, roof.overhead, roof.origin) == (80e9, 100e9, 4e-7, "measured")


def test_a_cpu_has_no_clocks_of_a_gpu():
    assert roofline(judged(points(), CPU), "float64").clocks == ()


def test_buffers_that_a_gpus_l2_could_hold_are_said():
    gpu = SimpleNamespace(kind="gpu", caches={"L1": 2**18, "L2": 50 * MiB})
    assert "buffers of 67.1 MB only" in " ".join(warnings(points(buffer=64 * MiB), gpu))


def test_three_caches_are_found_where_the_rate_falls():
    found = plateaus(sweep((3, 400e9), (4, 300e9), (3, 200e9), (4, 60e9)), 60e9)
    assert [level["bandwidth"] for level in found] == [400e9, 300e9, 200e9]
    assert [level["capacity"] for level in found] == [int(8192 * 2 ** (i / 2)) for i in (5, 13, 19)]


def test_a_dip_on_a_plateau_is_noise():
    rates = sweep((4, 400e9), (4, 60e9))
    rates[3]["bandwidth"] = 90e9
    assert plateaus(rates, 60e9) == plateaus(sweep((4, 400e9), (4, 60e9)), 60e9)


def test_a_slope_between_two_plateaus_is_no_cache():
    slope = sweep((3, 400e9), (4, 60e9))
    slope[6]["bandwidth"], slope[7]["bandwidth"] = 250e9, 120e9
    assert [level["bandwidth"] for level in plateaus(slope, 60e9)] == [400e9]


def test_a_machine_without_a_fast_cache_shows_none():
    assert plateaus(sweep((14, 60e9)), 60e9) == []


# Doubts


def told(**changed):
    return " ".join(warnings(points(**changed), SimpleNamespace(kind="cpu", caches={"L3": 32 * MiB})))


def test_a_quiet_machine_raises_no_doubt():
    assert told() == ""


def test_a_loaded_machine_makes_the_card_inconclusive():
    assert "shared machine" in told(foreign=0.6) and INCONCLUSIVE in told(foreign=0.6)
    assert "doubtful" in roofline(judged(points(foreign=0.6), CPU), "float32").note


def test_an_unknown_load_is_no_doubt():
    assert told(foreign=None) == ""


def test_rounds_that_differ_are_reported():
    assert "2.0 times as fast" in told(rounds=[a_round(), a_round(2.0)])


def test_a_noisy_roof_is_inconclusive():
    noisy = points()["fma"] | {"float32": [{"rate": 200e9, "spread": 0.4}]}
    assert "float32 multiply-adds spread over 40 %" in told(fma=noisy)


def test_roofs_that_contradict_each_other_are_inconclusive():
    fma = points()["fma"] | {"float64": [{"rate": 50e9, "spread": 0.0}]}
    assert "4.0 times as fast as float64" in told(fma=fma) and INCONCLUSIVE in told(fma=fma)


def test_one_core_is_said():
    assert "only one core" in told(threads=1)


def test_buffers_that_a_cache_could_hold_are_said():
    assert "buffers of 67.1 MB only" in told(buffer=64 * MiB)


def test_too_little_memory_is_one_sentence():
    tight = SimpleNamespace(caches={}, memory=2**30, available=lambda: 12 * MiB)
    with pytest.raises(MeasureError, match="12.6 MB of memory are free"):
        protocol._buffers(tight, 1)


# The card on disk


def test_a_card_is_measured_once(measured):
    card(device=CPU)
    forget()
    assert card(device=CPU).data == json.loads(kept().read_text()) and len(measured) == 1


def test_a_doubtful_card_is_used_for_a_while_and_then_measured_again(measured, monkeypatch):
    monkeypatch.setattr(protocol, "measure_cpu", lambda device, tell: measured.append(tell) or points(foreign=0.9))
    for age, times in ((0, 1), (0, 1), (home.BELIEVED + 1, 2)):
        forget()
        monkeypatch.setattr(home, "BELIEVED", home.BELIEVED - age)
        card(device=CPU)
        assert len(measured) == times


@pytest.mark.parametrize("damage", [
    {"bandwidth": 0}, {"bandwidth": float("nan")}, {"peak": {}}, {"mixes": {"read": {}}}, {"overhead": None},
    {"date": "yesterday"}, {"date": "2099-01-01T00:00:00+00:00"}, {"warnings": [5]}, {"levels": 3}])
def test_a_card_whose_numbers_make_no_sense_is_measured_again(measured, capsys, damage):
    kept_at = cards.folder() / f"{card(device=CPU).data['device']['uid']}.json"
    kept_at.write_text(json.dumps(json.loads(kept_at.read_text()) | damage))
    forget()
    card(device=CPU)
    assert len(measured) == 2 and "damaged" in capsys.readouterr().err


def test_fresh_measures_again(measured):
    card(device=CPU)
    card(fresh=True, device=CPU)
    assert len(measured) == 2


@pytest.mark.parametrize("content", ["", "{", "[]", '{"schema": 1}', '{"schema": 0}', "\0\0"])
def test_a_damaged_card_is_measured_again_with_a_sentence(measured, capsys, content):
    cards.folder().mkdir(parents=True)
    kept().write_text(content)
    assert card(device=CPU).data["bandwidth"] and len(measured) == 1
    assert "measuring again" in capsys.readouterr().err
    assert json.loads(kept().read_text())["schema"] == cards.SCHEMA


def test_a_folder_that_cannot_be_written_costs_a_sentence_only(measured, capsys, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ROOFLINE_KIT_CACHE", str(tmp_path / "file/cache"))
    assert card(device=CPU).data["bandwidth"] == card(device=CPU).data["bandwidth"]
    assert len(measured) == 1 and capsys.readouterr().err.count("could not be kept") == 1


def test_a_write_that_fails_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    path = tmp_path / "card.json"
    path.write_text("old")
    monkeypatch.setattr(os, "replace", failing(OSError("full")))
    with pytest.raises(OSError, match="full"):
        cards.write(path, b"new")
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["card.json"]


def test_measuring_that_is_interrupted_keeps_nothing(measured, monkeypatch):
    monkeypatch.setattr(protocol, "measure_cpu", failing(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        card(device=CPU)
    assert not list(cards.folder().glob("*.json"))


def test_progress_is_the_callers_if_he_has_one(measured):
    card(progress=print, device=CPU)
    assert measured == [print]


# Two processes


def hold(folder, begun, end):
    os.environ["ROOFLINE_KIT_CACHE"] = folder
    with cards.alone():
        begun.set()
        end.wait(60)


@pytest.fixture
def elsewhere(measured):
    """Another process that measures until its event is set."""
    context = multiprocessing.get_context("spawn")
    begun, end = context.Event(), context.Event()
    other = context.Process(target=hold, args=(str(cards.folder()), begun, end))
    other.start()
    assert begun.wait(60)
    yield end
    end.set()
    other.join()


def test_who_waits_too_long_gets_one_sentence(elsewhere, capsys):
    with pytest.raises(MeasureError, match="over 0.1 s: end it"), cards.alone(patience=0.1):
        pass
    assert "waiting for it" in capsys.readouterr().err


def test_the_second_process_uses_the_card_of_the_first(elsewhere, measured):
    waiting = threading.Timer(0.3, lambda: cards.keep(judged(points(), CPU)) or elsewhere.set())
    waiting.start()
    assert card(device=CPU).data["seconds"] == 20.0 and measured == []


# What cannot be had


def test_a_dtype_without_a_roof_is_told_which_have_one():
    with pytest.raises(ValueError, match="no measured roof for bfloat16: choose float32 or float64"):
        sustained("bfloat16", device=CPU)


def test_an_unknown_dtype_is_told_the_nearest():
    with pytest.raises(ValueError, match="did you mean 'float32'"):
        sustained("flaot32", device=CPU)


def test_the_roof_of_one_core_is_made_of_its_own_points(measured, monkeypatch):
    def one(device, dtype, chains):
        assert (dtype, chains) == ("float32", 8)
        return [a_round(3.0), a_round(2.0)], [{"rate": 70e9}, {"rate": 80e9}], [{"rate": 99e9}]

    chained = [{"rate": 1e9, "spread": 0.0, "chains": 4}, {"rate": 2e11, "spread": 0.0, "chains": 8}]
    monkeypatch.setattr(protocol, "measure_cpu", lambda *_: points(fma={"float32": chained, "float64": chained}))
    monkeypatch.setattr(protocol, "measure_one_core", one)
    monkeypatch.setattr("threadpoolctl.threadpool_limits", lambda *_, **__: None)
    roof, whole = one_core("float32", device=CPU), sustained("float32", device=CPU)
    assert (roof.peak, roof.vector_peak, roof.levels) == (80e9, 99e9, ()) and roof.name == f"{whole.name}, one core"
    assert roof.bandwidth == pytest.approx(whole.bandwidth / 2)


# This machine, really


@pytest.fixture(scope="module")
def here():
    return card(device=CPU)


def test_the_real_card_has_all_roofs(here):
    data = json.loads(json.dumps(here.data))
    assert set(data["peak"]) == set(data["vector_peak"]) == {"float32", "float64"}
    assert data["bandwidth"] == max(mix["bandwidth"] for mix in data["mixes"].values()) > 0


def test_the_real_sweep_starts_faster_than_it_ends(here):
    rates = [point["bandwidth"] for point in here.data["sweep"]]
    assert best([{"rate": rate} for rate in rates[:8]])["rate"] > min(rates)


def test_the_real_card_says_its_roofs_in_words(here):
    text = repr(here)
    assert all(word in text for word in ("bandwidth", "triad", "float32", "float64", CPU.name))
    assert here._repr_html_().count("<tr>") == len(list(here.rows()))


def test_a_second_look_costs_nothing(here):
    start = time.perf_counter()
    assert card(device=CPU) is here and time.perf_counter() - start < here.data["seconds"]
