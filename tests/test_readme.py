"""Does the README tell the truth? Its example is run, its commands and links are looked up."""

import re
import subprocess
import sys

from conftest import ROOT

README = (ROOT / "README.md").read_text("utf-8")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)\n```", README, re.DOTALL)


def test_the_example_runs_and_prints_what_the_readme_shows():
    done = subprocess.run([sys.executable, "-c", blocks("python")[0]], capture_output=True, text=True, check=True)
    shown, printed = blocks("text")[0].splitlines(), done.stdout.splitlines()
    assert printed[0].startswith("elementwise: 16.8 MFLOP") and printed[-1] == shown[-1]    # what is not measured
    assert printed[2].split() == shown[2].split() and printed[3].split()[0] == shown[3].split()[0]


def test_the_wrong_kernel_is_found_as_the_readme_shows():
    done = subprocess.run([sys.executable, "-c", blocks("python")[1]], capture_output=True, text=True, check=False)
    assert done.returncode and done.stderr.split()[-30:] == blocks("text")[1].split()[-30:]


def test_it_is_short_and_its_links_lead_somewhere():
    links = [link for link in re.findall(r"\]\(([^)]+)\)", README) if "://" not in link]
    assert len(README.splitlines()) <= 150 and len(links) >= 5
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_its_commands_are_those_of_course_py():
    told = subprocess.run([sys.executable, ROOT / "course.py", "help"], capture_output=True, text=True, check=True)
    named = set(re.findall(r"course\.py (\w+)", README))
    assert named == set(re.findall(r"course\.py (\w+)", told.stdout)) and {"lab", "test"} <= named


def test_every_lesson_has_a_row_in_its_table():
    lessons = {path.name for path in (ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb")}
    assert lessons and all(f"notebooks/{name})" in README for name in lessons)


def test_ci_runs_the_readmes_test_command():
    assert "\npython3 course.py test\n" in (ROOT / ".ci/run").read_text() and "python course.py test" in README
