"""Is a recording read back whole, drawn as recorded, and refused in one sentence where it is none?"""

import json
import sys
from pathlib import Path

import pytest
from gpu import look
from test_record import CPU, named, short
from test_sustained import measured  # noqa: F401  a fixture, found by its name

import roofline_kit as rk
from roofline_kit.recorded import FOLDER, recorded

HOME = sys.modules["roofline_kit.recorded"]    # the name in the package is the function
KEPT = sorted(FOLDER.glob("*.json"))


@pytest.fixture
def mine(measured, tmp_path):                                        # noqa: F811
    short(tmp_path / "mine.json", *named("triad", "gemm thin", "copy", "empty launch"))
    return tmp_path / "mine.json"


def changed(path, **values):
    path.write_text(json.dumps(json.loads(path.read_text()) | values))
    return path


def refused(path):
    with pytest.raises(ValueError) as error:
        recorded(path)
    text = str(error.value)
    assert text.endswith(".") and "\n" not in text and str(path) in text
    return text


def test_a_file_is_found_by_its_path(mine):
    assert recorded(mine) == recorded(str(mine)) and recorded(mine).device == CPU.name


def test_a_recording_of_the_kit_is_found_by_its_name_in_any_case(mine, monkeypatch):
    monkeypatch.setattr(HOME, "FOLDER", mine.parent)
    assert recorded() == ("mine",) and recorded("Mine") == recorded(mine)


def test_an_unknown_name_offers_the_nearest(mine, monkeypatch):
    monkeypatch.setattr(HOME, "FOLDER", mine.parent)
    with pytest.raises(ValueError, match="^unknown recording 'mien': did you mean 'mine'\\?$"):
        recorded("mien")


def test_without_recordings_a_path_is_asked_for(tmp_path, monkeypatch):
    monkeypatch.setattr(HOME, "FOLDER", tmp_path)
    with pytest.raises(ValueError, match="give the path of a file"):
        recorded("H200")


def test_its_roof_is_the_card_s_and_says_that_it_is_recorded(mine):
    roof, own = recorded(mine).roof(), rk.sustained(device="cpu")
    assert roof.origin == "recorded" and roof.dtype == "float32" and roof.peak == own.peak
    assert recorded(mine).roof("float64").dtype == "float64"


def test_a_dtype_without_a_roof_offers_the_nearest(mine):
    with pytest.raises(ValueError, match="unknown dtype of this recording 'float16': did you mean 'float"):
        recorded(mine).roof("float16")


def test_a_scorecard_takes_the_runs(mine):
    found = recorded(mine)
    text = repr(rk.scorecard(found.roof(), found.of("float32")))
    assert "(recorded)" in text and all(run.name in text for run in found.runs)


def test_a_figure_takes_the_points_and_draws_the_roof_as_recorded(mine):
    found = recorded(mine)
    assert [run.name for run in found.points()] == ["triad", "gemm thin"]
    ax = rk.plot(found.roof(), runs=found.points())
    assert "-." in {line.get_linestyle() for line in ax.lines}


def test_a_run_is_found_by_its_name(mine):
    assert recorded(mine).run("copy").name == "copy"
    with pytest.raises(ValueError, match="did you mean 'copy'"):
        recorded(mine).run("cpoy")


def test_it_is_shown_in_a_few_lines(mine):
    assert repr(recorded(mine)).startswith(f"mine: {CPU.name}, recorded 20") and len(repr(recorded(mine))) < 400


def test_a_spread_that_is_unknown_stays_so(mine):
    data = json.loads(mine.read_text())
    data["runs"][0] |= {"spread": None}
    assert recorded(changed(mine, **data)).runs[0].spread != 0 and "unknown" in repr(recorded(mine).runs[0])


@pytest.mark.parametrize("content", ["", "{", "[]", "3", "null", '{"schema": 1}', '{"schema": 99}', "[" * 100000])
def test_a_file_that_is_none_is_told_in_a_sentence(tmp_path, content):
    path = tmp_path / "mine.json"
    path.write_text(content)
    assert "damaged or of another version" in refused(path)


@pytest.mark.parametrize("values", [
    {"schema": 2}, {"runs": [{}]}, {"runs": [3]}, {"card": {}}, {"card": []}, {"device": None}, {"software": 3},
    {"date": None}, {"device": {"name": "x", "kind": "tpu"}}])
def test_a_part_that_is_damaged_is_told_in_a_sentence(mine, values):
    assert "damaged or of another version" in refused(changed(mine, **values))


@pytest.mark.parametrize("field, value", [
    ("seconds", 0), ("seconds", "fast"), ("seconds", -1), ("samples", [1, -1]), ("samples", 3), ("work", {}),
    ("work", {"flops": -1, "nbytes": 1}), ("warnings", None)])
def test_a_run_that_makes_no_sense_is_told_in_a_sentence(mine, field, value):
    runs = json.loads(mine.read_text())["runs"]
    runs[1][field] = value
    refused(changed(mine, runs=runs))


def test_a_machine_card_is_no_recording(mine, tmp_path):
    refused(changed(mine, runs=None))
    path = tmp_path / "card.json"
    path.write_text(json.dumps(rk.card(device="cpu").data))
    refused(path)


@pytest.mark.parametrize("path", ["nowhere.json", "."])
def test_a_file_that_cannot_be_read_is_told_in_a_sentence(tmp_path, path):
    with pytest.raises(ValueError, match="(?s)^.* cannot be read .*: give the path of a recording.$"):
        recorded(Path(tmp_path / path))


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_a_recording_of_the_kit_is_sound(path):
    found = recorded(path.stem)
    assert list(look.faults(found)) == [] and len(found.runs) >= 30 and '"uid"' not in path.read_text()
