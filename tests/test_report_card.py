"""The page to print: whole in one file, nothing of the person or the network in it, what was typed made harmless."""

import getpass
import importlib
import json
import platform
import re
from html.parser import HTMLParser

import pytest
from conftest import ROOT, run_of

from roofline_kit import ops
from roofline_kit.cards import Card
from roofline_kit.diagnose import Diagnosis
from roofline_kit.timing import Run

home = importlib.import_module("roofline_kit.report_card")
DATA = {"device": {"name": "a <fast> machine", "kind": "cpu", "cores": 2, "caches": {}, "uid": "cpu-secret"},
        "date": "2026-01-02T03:04:05+00:00", "bandwidth": 30e9, "overhead": 1e-6, "write_allocate": True,
        "mixes": {label: {"share": share, "bandwidth": 30e9, "counted": 25e9, "spread": 0.01, "threads": 2}
                  for label, share in (("read", 0), ("triad", 0.25))},
        "levels": [], "peak": {"float32": 140e9}, "vector_peak": {"float32": 186e9}, "warnings": [],
        "overheads": {"a call": 1e-6}, "gemm": {"float32": [{"n": 512, "rate": 130e9, "spread": 0.02},
                                                            {"n": 1024, "rate": 140e9, "spread": 0.01}]}}


@pytest.fixture
def written(learner, monkeypatch, tmp_path):
    """A function that writes the page with a card by hand, and gives its text."""
    monkeypatch.setattr(home, "card", lambda fresh: Card(DATA))
    monkeypatch.chdir(tmp_path)
    return lambda *given, **named: home.report_card(*given, **named).read_text("utf-8")


def test_it_is_written_where_one_works_and_the_path_comes_back(written, tmp_path):
    assert home.report_card() == home.Path("report_card.html") and (tmp_path / "report_card.html").exists()
    assert home.report_card(path=tmp_path / "mine.html").name == "mine.html"


def test_it_asks_the_network_for_nothing(written):
    text = written("A")
    addresses = re.findall(r"""(?:src|href)=["']([^"']*)""", text) + re.findall(r"url\(([^)]*)", text)
    assert addresses and all(address.startswith("data:") for address in addresses)
    assert "<script" not in text and "//" not in re.sub(r"data:[^']*", "", text)


def test_it_holds_nothing_personal_that_nobody_typed(written, tmp_path):
    text = re.sub(r"data:[^']*", "", written())
    words = {DATA["device"]["uid"], str(tmp_path), platform.node(), str(ROOT)} | {getpass.getuser()} - {"root"}
    assert not [word for word in words if word and re.search(rf"\b{re.escape(word)}\b", text)]


def test_what_is_typed_stands_there_and_cannot_do_harm(written):
    text = written("Ada <script>", findings=["reads: 1 < 2", " "])
    assert "Ada &lt;script&gt;" in text and "<li>reads: 1 &lt; 2</li>" in text and "<script" not in text
    assert text.count("<li>") == 1 and "a &lt;fast&gt; machine" in text


def test_one_finding_may_be_a_text(written):
    assert "<li>one</li>" in written(findings="one")


def test_a_page_without_findings_has_no_heading_for_them(written):
    assert "What I found" not in written()


def test_the_points_of_the_learner_are_in_the_table_and_in_the_words_of_the_figure(written):
    work = ops.elementwise(2**20).named("mine & yours")
    text = written(runs=run_of(work, name="mine & yours"))
    assert text.count("mine &amp; yours") == 2 and "best product" not in text


def test_without_runs_the_points_are_those_that_made_the_roof(written):
    rates = {run.name: run for run in home.own_points(DATA, "float32")}
    assert rates["best product"].flop_per_s == pytest.approx(140e9)
    assert rates["triad"].bytes_per_s == rates["read"].bytes_per_s == pytest.approx(25e9)


def test_runs_without_their_work_are_refused(written):
    with pytest.raises(ValueError, match="know their work"):
        written(runs=[Run("bare", 1.0)])


@pytest.mark.parametrize(("given", "expected"), [
    ({"runs": 5}, "runs is 5"), ({"runs": [5]}, "runs holds 5"), ({"runs": ops.dot(4).named("d")}, "runs is d:"),
    ({"findings": 5}, "findings is 5"), ({"findings": [1]}, "each of them must be a text"), ({"path": 5}, "path is 5"),
])
def test_wrong_arguments_are_told_in_a_sentence(written, given, expected):
    with pytest.raises(ValueError, match=expected):
        written(**given)


@pytest.mark.parametrize("path", [".", "no folder/page.html"])
def test_a_file_that_cannot_be_written_is_told_in_a_sentence(written, path):
    with pytest.raises(OSError, match=r"^the page cannot be written to .* \(.*\): give another file"):
        home.report_card(path=path)


def test_nothing_is_as_good_as_nothing_typed(written):
    text = written(None, findings=None, runs=None)
    assert "None" not in re.sub(r"data:[^']*", "", text) and "best product" in text


def test_half_a_character_does_no_harm(written):
    assert "Ada ?" in written("Ada \ud800")


def test_a_diagnosis_is_drawn_as_its_run(written):
    run = run_of(ops.elementwise(2**20), name="diagnosed")
    assert "diagnosed" in written(runs=Diagnosis("memory", (), 0.0, run, (), ""))


def test_a_name_may_hold_what_a_figure_takes_for_maths(written):
    assert "a $\\frac{ b$" in written(runs=[run_of(ops.elementwise(2**20), name=r"a $\frac{ b$")])


def test_passed_exercises_are_counted(written, learner):
    learner.mkdir(parents=True)
    (learner / "progress.json").write_text(json.dumps({"99.1": "2026-01-02"}))
    assert re.search(r"<td>1 of \d+</td>", written())


def test_its_tags_are_closed(written):
    open_tags, alone = [], {"meta", "img", "br"}

    class Reader(HTMLParser):
        def handle_starttag(self, tag, attributes):
            open_tags.extend([tag] * (tag not in alone))

        def handle_endtag(self, tag):
            assert open_tags.pop() == tag

    Reader().feed(written("A", findings="b"))
    assert not open_tags
