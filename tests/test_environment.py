"""Do pyproject.toml, the locks and environment.yml say the same?"""

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
DIRECT = [*map(Requirement, PROJECT["project"]["dependencies"] + PROJECT["dependency-groups"]["dev"])]
EXTRAS = {name: [*map(Requirement, lines)]
          for name, lines in PROJECT["project"]["optional-dependencies"].items()}
CONDA_NAMES = {"matplotlib-base": "matplotlib"}      # conda-forge's matplotlib is this and a window toolkit
LOCKS = {"main": "requirements.lock.txt", **{name: f"requirements.{name}.lock.txt" for name in EXTRAS}}
MACHINES = [{"sys_platform": system, "os_name": "nt" if system == "win32" else "posix",
             "python_version": f"3.{minor}", "python_full_version": f"3.{minor}.{patch}",
             "implementation_name": "cpython", "platform_python_implementation": "CPython"}
            for system in ("linux", "darwin", "win32") for minor in (11, 12, 13, 14) for patch in (0, 9)]


def pins(lock):
    """(name, version, marker or None, hashes) of each pin of a lock."""
    for block in re.split(r"(?m)^(?=[A-Za-z0-9])", (ROOT / LOCKS[lock]).read_text())[1:]:
        pin = Requirement(block.splitlines()[0].rstrip(" \\"))
        hashes = re.findall(r"--hash=sha256:[0-9a-f]{64}\b", block)
        yield canonicalize_name(pin.name), str(pin.specifier).removeprefix("=="), pin.marker, tuple(hashes)


def conda():
    """Name to range of what environment.yml asks for, pip's part included."""
    lines = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    lines += next(line for line in lines if isinstance(line, dict))["pip"]
    asked = [Requirement(line) for line in lines if isinstance(line, str) and line not in ("pip", "-e .")]
    return {canonicalize_name(CONDA_NAMES.get(need.name, need.name)): need.specifier for need in asked}


def test_environment_yml_asks_for_what_pyproject_asks_for():
    wanted = {canonicalize_name(need.name): need.specifier for need in DIRECT}
    found = conda()
    assert found.pop("python") == Requirement("python" + PROJECT["project"]["requires-python"]).specifier
    assert found == wanted


def test_environment_yml_installs_the_kit_in_place():
    assert "- -e ." in (ROOT / "environment.yml").read_text()


def test_environment_yml_offers_the_cupy_of_the_extras():
    offered = re.search(r"# - (cupy\S*)", (ROOT / "environment.yml").read_text()).group(1)
    for needs in (EXTRAS["cuda12"], EXTRAS["cuda13"]):
        assert Requirement(offered).specifier == needs[0].specifier and needs[0].name.startswith("cupy-cuda")


@pytest.mark.parametrize("lock", LOCKS)
def test_every_pin_has_a_hash_and_no_address(lock):
    assert all(hashes for *_, hashes in pins(lock))
    assert not re.search(r"://|--(extra-)?index|--find-links", (ROOT / LOCKS[lock]).read_text())


def test_every_pin_lies_in_the_range_of_pyproject():
    needs = sum(EXTRAS.values(), DIRECT)
    ranges = {canonicalize_name(need.name): need.specifier for need in needs}
    outside = [(name, version) for lock in LOCKS for name, version, *_ in pins(lock)
               if name in ranges and version not in ranges[name]]
    assert not outside


@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: f"{m['sys_platform']}-{m['python_full_version']}")
def test_every_machine_gets_each_direct_package_once(machine):
    here = [name for name, _, marker, _ in pins("main") if marker is None or marker.evaluate(machine)]
    assert {canonicalize_name(need.name) for need in DIRECT} <= set(here)
    assert len(here) == len(set(here))


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extras_lock_holds_the_extra_and_nothing_of_the_main_lock(extra):
    names = {name for name, *_ in pins(extra)}
    assert {canonicalize_name(need.name) for need in EXTRAS[extra]} <= names
    assert not names & {name for name, *_ in pins("main")}


def test_neither_cupy_lock_has_the_others_wheels():
    twelve, thirteen = ({name for name, *_ in pins(extra)} for extra in ("cuda12", "cuda13"))
    assert twelve & thirteen <= {"cuda-pathfinder"}           # pure Python, of no CUDA version
    assert not [name for name in twelve if "cuda13" in name]
    assert not [name for name in thirteen if "cuda12" in name or name.endswith("cu12")]


def test_the_compiler_is_the_same_with_a_gpu_and_without():
    assert set(pins("nvrtc")) <= set(pins("cuda13"))


def test_the_slow_helper_is_never_installed():
    slow = next(marker for name, _, marker, _ in pins("main") if name == "rfc3987-syntax")
    assert not any(Marker(str(slow)).evaluate(machine) for machine in MACHINES)
