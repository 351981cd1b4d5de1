"""What must hold on a GPU for the kit to be right about it? The same tests for the stand-in and for CuPy itself.

They need a fixture `cupy`, the module; `from contract import *` makes them tests of the file that provides it.
"""

import ml_dtypes
import numpy as np
import pytest

from roofline_kit import clocks, gpu
from roofline_kit.device import Device
from roofline_kit.products import NEEDS

ADD = 'extern "C" __global__ void add(float *x, float s, int n) { int i = threadIdx.x; if (i < n) x[i] += s; }'
ROOMY = """extern "C" __global__ void roomy(float *x, int n) {
    extern __shared__ float held[];
    for (int i = threadIdx.x; i < n; i += blockDim.x) held[i] = i;
    __syncthreads();
    if (threadIdx.x == 0) x[0] = held[n - 1];
}"""
LENGTH = 100


def added(cupy):
    """(an array of LENGTH zeros, a call that adds 1 to it)."""
    x, kernel = cupy.zeros(LENGTH, dtype="float32"), gpu.raw_kernel(cupy, ADD, "add")
    return x, lambda: kernel((1,), (128,), (x, np.float32(1), np.int32(LENGTH)))


def device_of(cupy):
    facts = gpu.facts(cupy)
    return Device("gpu", cupy, facts["name"], "float16", facts["multiprocessors"], {"L2": facts["L2"]}, 0, "gpu-0")


def test_a_kernel_changes_the_numbers(cupy):
    x, add = added(cupy)
    add(), add()
    gpu.wait(cupy)
    assert (x.get() == 2).all()


def test_an_array_is_not_taken_for_numpys(cupy):
    with pytest.raises(TypeError, match=r"[Ii]mplicit conversion"):
        np.asarray(cupy.zeros(3))


def test_time_passes_between_two_events(cupy):
    with gpu.stream(cupy):
        begin = gpu.mark(cupy)
        added(cupy)[1]()
        assert gpu.between(cupy, begin, gpu.mark(cupy)) > 0


def test_an_event_has_happened_after_the_wait(cupy):
    with gpu.stream(cupy):
        added(cupy)[1]()
        event = gpu.mark(cupy)
        gpu.wait(cupy)
        assert event.done


def test_capturing_runs_nothing_and_each_replay_runs_all(cupy):
    with gpu.stream(cupy):
        x, add = added(cupy)
        add()
        gpu.wait(cupy)
        graph = gpu.captured(cupy, add, 5)
        assert x.get()[0] == 1
        graph.launch(), graph.launch()
        assert x.get()[0] == 11


@pytest.mark.parametrize("count", [1, 4, 8])
def test_calls_in_a_graph_are_that_many_calls(cupy, count, monkeypatch):
    monkeypatch.setattr(clocks, "NODES", 4)
    with gpu.stream(cupy):
        x, add = added(cupy)
        assert clocks.graph(add, device_of(cupy), [])(count) > 0
        assert x.get()[0] == count


def test_a_call_that_waits_is_not_captured_and_the_stream_goes_on(cupy):
    with gpu.stream(cupy):
        x, add = added(cupy)
        with pytest.raises(gpu.GpuError, match=r"cannot be captured in a CUDA graph .* clock='throughput'"):
            gpu.captured(cupy, lambda: gpu.wait(cupy), 1)
        add()
        assert x.get()[0] == 1


def test_a_librarys_product_is_not_captured(cupy):
    a = cupy.zeros((8, 8), dtype="float32")
    with gpu.stream(cupy), pytest.raises(gpu.GpuError, match="cuBLAS"):
        gpu.captured(cupy, lambda: gpu.product(cupy, "float32")(a, a, a), 1)


def test_a_kernel_that_does_not_compile_is_named_with_the_line(cupy):
    kernel = gpu.raw_kernel(cupy, ADD.replace("x[i] +=", "y[i] +="), "add")
    with pytest.raises(gpu.GpuError, match=r"the kernel add does not compile.*\by\b"):
        kernel((1,), (1,), (cupy.zeros(1, dtype="float32"), np.float32(1), np.int32(1)))


def test_a_block_that_is_too_large_is_refused_with_the_kernels_name(cupy):
    kernel = gpu.raw_kernel(cupy, ADD, "add")
    with pytest.raises(gpu.GpuError, match=r"the kernel add was not launched .*INVALID_VALUE.* smaller"):
        kernel((1,), (2048,), (cupy.zeros(1, dtype="float32"), np.float32(1), np.int32(1)))


def test_more_than_48_kib_of_shared_memory_are_granted(cupy):
    x, n = cupy.zeros(1, dtype="float32"), 60 * 256          # 60 KiB, which even a T4 has
    gpu.raw_kernel(cupy, ROOMY, "roomy")((1,), (128,), (x, np.int32(n)), 4 * n)
    assert x.get()[0] == n - 1


def test_memory_that_runs_out_is_told_with_what_to_do(cupy):
    with pytest.raises(MemoryError) as error:
        cupy.zeros(2**44, dtype="int8")
    assert "choose a smaller size" in gpu.explained(error.value)


@pytest.mark.parametrize("dtype", gpu.TYPES)
def test_each_product_equals_the_one_in_float64(cupy, dtype):
    if float(gpu.facts(cupy)["capability"]) < NEEDS.get(dtype, 0):
        pytest.skip(f"{dtype} needs compute capability {NEEDS[dtype]}")
    stored = {"tfloat32": "float32", "bfloat16": ml_dtypes.bfloat16}.get(dtype, dtype)
    rng = np.random.default_rng(0)
    a, b = ((10 * rng.standard_normal(shape)).astype(stored) for shape in ((24, 64), (40, 64)))
    out = cupy.zeros((24, 40), dtype={"int8": "int32", "bfloat16": "uint16"}.get(dtype, stored))
    left, right = (cupy.asarray(array.view("uint16") if dtype == "bfloat16" else array) for array in (a, b))
    gpu.product(cupy, dtype)(left, right, out)
    exact = a.astype("float64") @ b.astype("float64").T
    got = out.get().view(stored) if dtype == "bfloat16" else out.get()
    assert abs(got.astype("float64") - exact).max() < {"float64": 1e-12, "int8": 1e-12}.get(dtype, 1e-2) * exact.max()


def test_the_runtime_tells_what_the_kit_needs(cupy):
    facts = gpu.facts(cupy)
    assert facts["name"] and facts["uid"].startswith("gpu-") and len(facts["uid"]) == 36
    assert all(facts[key] > 0 for key in ("multiprocessors", "memory", "L1", "L2")) and float(facts["capability"]) > 5
    assert 0 < gpu.free(cupy) and set(gpu.software(cupy)) == {"cupy", "driver", "runtime"}
