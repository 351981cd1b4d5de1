"""Is what the driver says of a GPU told right, and does nothing fail where it says nothing?"""

import os
import sys
from types import ModuleType, SimpleNamespace

import pytest

from roofline_kit.nvml import doubts, state

UID = "gpu-" + "0f" * 16
NAME = "GPU-0f0f0f0f-0f0f-0f0f-0f0f-0f0f0f0f0f0f"


def fake(processes=(), **failing):
    """pynvml, for one GPU; what is named in `failing` raises that."""
    answers = {"nvmlInit": None, "nvmlDeviceGetHandleByUUID": "the handle", "nvmlDeviceGetClockInfo": 1980,
               "nvmlDeviceGetTemperature": 60, "nvmlDeviceGetPowerUsage": 350_000,
               "nvmlDeviceGetCurrentClocksThrottleReasons": 4,
               "nvmlDeviceGetComputeRunningProcesses": [SimpleNamespace(pid=pid) for pid in processes]}
    module = ModuleType("pynvml")
    module.asked, module.NVML_CLOCK_SM, module.NVML_TEMPERATURE_GPU = [], 1, 0

    def answering(name):
        def answer(*arguments):
            module.asked.append((name, *arguments))
            if name in failing:
                raise failing[name]
            return answers[name]
        return answer

    for name in answers:
        setattr(module, name, answering(name))
    return module


@pytest.fixture
def driver(monkeypatch):
    def use(*processes, **failing):
        module = fake(processes, **failing)
        monkeypatch.setitem(sys.modules, "pynvml", module)
        return module
    return use


def test_the_state_is_in_si_units_and_of_the_gpu_asked_for(driver):
    module = driver()
    assert state(UID) == {"clock": 1.98e9, "temperature": 60, "power": 350, "reasons": 4, "others": 0}
    assert ("nvmlDeviceGetHandleByUUID", NAME) in module.asked


def test_without_the_package_nothing_is_known(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert state(UID) == {}


@pytest.mark.parametrize("name", ["nvmlInit", "nvmlDeviceGetHandleByUUID"])
def test_a_driver_that_refuses_is_no_error(driver, name):
    driver(**{name: OSError("denied")})
    assert state(UID) == {}


def test_what_is_not_told_is_left_out_and_the_rest_is_there(driver):
    driver(nvmlDeviceGetClockInfo=RuntimeError("Not Supported"))
    assert "clock" not in state(UID) and state(UID)["power"] == 350


def test_a_uid_that_is_none_is_no_error(driver):
    driver()
    assert state("gpu-0") == {}


@pytest.mark.parametrize(("processes", "others"), [
    ((), 0), ((os.getpid(),), 0), ((os.getpid(), 1), 1), ((1,), 0), ((1, 2, 3), 2)])
def test_this_process_is_no_other_whatever_its_number_there(driver, processes, others):
    driver(*processes)
    assert state(UID)["others"] == others


@pytest.mark.parametrize(("states", "says"), [
    ([], []), ([{}], []), ([{"others": 0, "reasons": 4}], []),
    ([{"others": 1}, {}], ["1 other process computed"]),
    ([{"reasons": 0x20}, {"reasons": 0x48}], ["because of a hardware slowdown and heat:"]),
])  # fmt: skip
def test_only_what_lowers_a_roof_is_a_doubt(states, says):
    told = list(doubts(states))
    assert len(told) == len(says) and all(part in text for part, text in zip(says, told))
