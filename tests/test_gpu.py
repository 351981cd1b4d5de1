"""Does the seam to CuPy keep its contract on the stand-in, whose kernels are the real sources, run on the CPU?"""

from math import prod

import pytest
from cases import TOLERANCE, cases
from contract import *
from contract import ADD, added, device_of
from fake_cupy import CudaError, Gpu, fake_cupy
from gpu.conftest import on

from roofline_kit import gpu
from roofline_kit.cuda import cuda
from roofline_kit.cuda_on_cpu import compiler


def emulated(source, name):
    kernel = cuda(source, name, device="cpu")
    compiler.program(kernel.source, name, "fast")
    return lambda grid, block, arguments, shared_mem: kernel(grid, block, arguments, shared_mem)


@pytest.fixture
def cupy():
    return fake_cupy(Gpu(launch=1e-6, cost=lambda name, arguments: 2e-6), compiled=emulated)


def failing(source, name):
    def run(*_):
        raise IndexError
    return run


def test_a_fault_inside_a_kernel_shows_at_the_wait_and_names_it():
    cupy = fake_cupy(compiled=failing)
    added(cupy)[1]()
    says = r"^the kernel add, the kit's last one, failed .*illegal.* rk.cuda.* restart Python.*\.$"
    with pytest.raises(gpu.GpuError, match=says):
        gpu.wait(cupy)
    with pytest.raises(gpu.GpuError, match=says):            # not that of the next kernel, which is innocent
        gpu.raw_kernel(cupy, ADD.replace("add", "next"), "next")((1,), (1,), ())


@pytest.mark.parametrize("first, given", [("#include <mma.h>\n", ["-Iheaders"]), ("", [])])
def test_only_tensor_core_kernels_need_headers_that_cupy_does_not_look_for(monkeypatch, first, given):
    cupy, asked = fake_cupy(), []
    monkeypatch.setattr(cupy, "RawKernel", lambda code, name, options: asked.extend(options))
    monkeypatch.setattr(gpu.nvrtc, "includes", lambda: ["headers"])
    gpu.raw_kernel(cupy, first + ADD, "add")
    assert asked == ["--std=c++17", *given]


def test_a_kernel_is_late_until_somebody_waits():
    done = []
    cupy = fake_cupy(compiled=lambda source, name: lambda *_: done.append(name))
    added(cupy)[1]()
    assert done == []
    gpu.wait(cupy)
    assert done == ["add"]


def test_events_that_are_no_pair_are_the_runtimes_error(cupy):
    with pytest.raises(CudaError, match="NotReady"), gpu.stream(cupy):
        begin = gpu.mark(cupy)
        added(cupy)[1]()
        cupy.cuda.get_elapsed_time(begin, gpu.mark(cupy))


def test_nothing_is_captured_on_the_default_stream(cupy):
    with pytest.raises(RuntimeError, match="legacy"):
        gpu.captured(cupy, added(cupy)[1], 1)


def test_an_interrupt_while_capturing_passes_and_ends_the_capture(cupy):
    with gpu.stream(cupy):
        with pytest.raises(KeyboardInterrupt):
            gpu.captured(cupy, lambda: (_ for _ in ()).throw(KeyboardInterrupt), 1)
        x, add = added(cupy)
        add()
        assert x.get()[0] == 1


def test_memory_is_given_back_with_its_array():
    device = Gpu(memory=1000)
    cupy = fake_cupy(device)
    for _ in range(3):
        cupy.zeros(900, dtype="int8")
    assert device.used == 0


def test_missing_headers_are_told_apart_from_a_wrong_line():
    def no_headers(source, name):
        raise RuntimeError('cannot open source file "mma.h"')
    with pytest.raises(gpu.GpuError, match=r"the kernel add does not compile .*mma.h.* doctor"):
        added(fake_cupy(compiled=no_headers))[1]()


@pytest.mark.parametrize("error", [ValueError("no"), RuntimeError("an illegal move")])
def test_an_error_that_is_not_the_gpus_is_not_explained(error):
    assert gpu.explained(error) == ""


LARGEST = {case.kernel: case for case in sorted(cases(), key=lambda case: prod(case.shape))}


@pytest.mark.parametrize("case", LARGEST.values(), ids=str)
def test_a_kernel_of_the_kit_is_right_through_the_device_the_launcher_and_the_seam(cupy, case):
    device = device_of(cupy)
    assert case.error(on(device, device.kernel(case.kernel))) < TOLERANCE[case.dtype]
