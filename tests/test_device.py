"""Laws of Device: which one is taken, what its arrays hold, what it refuses; the GPU by a stand-in."""

import sys
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest
from fake_cupy import Gpu, fake_cupy

from roofline_kit import host
from roofline_kit.device import Device, DeviceError, _cpu, _flush_parts, _flush_parts_of, _gpu, _tell, device

MODULE = sys.modules["roofline_kit.device"]
MiB = 2**20


@pytest.fixture(autouse=True)
def no_memory_of_earlier_devices(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)           # as if it were not installed
    for remembered in (_cpu, _gpu, _tell):
        remembered.cache_clear()
    yield
    for remembered in (_cpu, _gpu, _tell, _flush_parts_of):
        remembered.cache_clear()


def use(monkeypatch, cupy):
    monkeypatch.setitem(sys.modules, "cupy", cupy)


class Sizes:
    """In place of NumPy where only the size of an array matters."""

    @staticmethod
    def full(size, value, dtype):
        return SimpleNamespace(nbytes=size * 4)


def cpu(cores=2, caches=None, free=10**10, xp=np):
    made = Device("cpu", xp, "a CPU", "float32", cores, caches or {}, 10**10, "cpu-0")
    object.__setattr__(made, "available", lambda: free)
    return made


def test_without_cupy_it_is_the_cpu():
    assert device().kind == "cpu" and device().xp is np and device() is device("cpu")


def test_the_cpu_says_what_the_host_says():
    here = device("cpu")
    assert (here.cores, here.caches, here.memory) == (host.cores(), host.caches(), host.memory())
    assert (here.name, here.uid) == (host.name(), host.uid())


def test_a_plain_laptop_is_told_nothing(monkeypatch, capsys):
    monkeypatch.setattr(MODULE, "nvidia_driver", lambda: False)
    device()
    assert capsys.readouterr() == ("", "")


def test_a_driver_without_cupy_is_told_once_in_one_line(monkeypatch, capsys):
    monkeypatch.setattr(MODULE, "nvidia_driver", lambda: True)
    device(), device()
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(("cupy", "says"), [
    (fake_cupy(status=999), "the driver reports an error: cudaErrorFake: it is broken: run `nvidia-smi`"),
    (fake_cupy(status=35, driver=0), "CuPy is installed but this machine has no NVIDIA driver: if it has"),
    (fake_cupy(factor=1), "a test kernel gives wrong numbers: look for errors with"),
    (fake_cupy(), "CuPy cannot use it (a test kernel gave wrong numbers): `python -m roofline_kit doctor`"),
])  # fmt: skip
def test_cupy_without_a_gpu_falls_back_and_tells_why_and_what_to_do_in_one_line(monkeypatch, capsys, cupy, says):
    cupy.arange = lambda *size, **kind: np.zeros(3)
    use(monkeypatch, cupy)
    assert device().kind == "cpu"
    told = capsys.readouterr().err
    assert told.startswith(f"using the CPU: {says}") and told.count("\n") == 1


def test_insisting_on_a_gpu_is_one_sentence_with_a_next_step():
    says = r"^there is no GPU to use: CuPy is not installed.* doctor.*\.$"
    with pytest.raises(DeviceError, match=says) as error:
        device("gpu")
    assert len(error.value._render_traceback_()) == 1


def test_a_gpu_that_computes_wrong_numbers_is_not_used(monkeypatch):
    cupy = fake_cupy()
    cupy.arange = lambda *args, **kind: np.zeros(3)
    use(monkeypatch, cupy)
    with pytest.raises(DeviceError, match="wrong numbers"):
        device("gpu")


def test_an_unknown_device_is_refused():
    with pytest.raises(ValueError, match="'cpu' or 'gpu'"):
        device("tpu")


def test_a_gpu_is_described_by_its_attributes(monkeypatch):
    use(monkeypatch, fake_cupy())
    gpu = device()
    assert (gpu.kind, gpu.name, gpu.dtype, gpu.cores) == ("gpu", "Fake H100", "float16", 132)
    assert gpu.caches == {"L1": 228 * 1024, "L2": 50 * MiB} and gpu.uid == "gpu-" + bytes(range(16)).hex()


def test_free_memory_of_a_gpu_counts_what_the_pool_holds(monkeypatch):
    use(monkeypatch, fake_cupy())
    assert device().available() == 71 * 10**9


def test_waiting_for_a_gpu_ends_when_its_queue_does(monkeypatch):
    gpu = Gpu()
    use(monkeypatch, fake_cupy(gpu))
    gpu.run(3.0)
    device().wait()
    assert gpu.host == 3.0


@pytest.mark.parametrize(("l2", "total"), [(MiB, 256 * 10**6), (80 * MiB, 320 * MiB)])
def test_the_flush_of_a_gpu_covers_256_mb_or_four_times_l2(l2, total):
    gpu = Device("gpu", Sizes, "a GPU", "float16", 1, {"L2": l2}, 10**9, "gpu-0")
    assert [part.nbytes for part in _flush_parts(gpu)] == [total]


@pytest.mark.parametrize(("caches", "cores", "free", "total"), [
    ({"L2": MiB, "L3": 62 * MiB}, 2, 10**10, 128 * MiB),     # twice all of it
    ({}, 2, 10**10, 64 * MiB),                               # nothing known
    ({"L3": 1024 * MiB}, 2, 10**10, 512 * MiB),              # two cores of a large server
    ({"L3": 64 * MiB}, 2, 256 * MiB, 64 * MiB),              # little memory
])  # fmt: skip
def test_the_flush_of_a_cpu_covers_twice_its_caches_within_reason(caches, cores, free, total):
    parts = _flush_parts(cpu(cores, caches, free, Sizes))
    assert len(parts) == cores and sum(part.nbytes for part in parts) == total


def test_a_flush_writes_and_never_leaves_zeros():
    here = cpu(2, {})
    here.flush()
    assert all((part == -1.5).all() for part in _flush_parts(here))


def test_a_flush_reads_last_so_that_no_dirty_line_is_left():
    log = []
    xp = SimpleNamespace(negative=lambda part, out: log.append("write"))
    MODULE._stream(xp, SimpleNamespace(max=lambda: log.append("read")))
    assert log == ["write", "read"]


def test_a_kernel_is_looked_up_for_this_device(monkeypatch):
    monkeypatch.setattr("roofline_kit.kernels.kernel", lambda name, device: (name, device))
    here = cpu()
    assert here.kernel("triad") == ("triad", here)


def test_random_numbers_have_mean_zero_and_spread_one():
    numbers = cpu().random(1000, 1000)
    assert abs(numbers.mean()) < 0.01 and abs(numbers.std() - 1) < 0.01 and numbers.dtype == "float32"


@pytest.mark.parametrize(("name", "stored"), [
    ("float64", "float64"), ("float16", "float16"), ("bfloat16", "bfloat16"), ("tfloat32", "float32"),
    ("float8", "float8_e4m3fn"), ("int8", "int8"), (np.float32, "float32"), (np.dtype("int32"), "int32"),
])  # fmt: skip
def test_each_dtype_is_filled_with_different_numbers(name, stored):
    numbers = cpu().random(64, 64, dtype=name)
    assert numbers.dtype.name == stored and len(np.unique(numbers.astype("float64"))) > 100


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float8"])
def test_no_number_is_denormal(name):
    numbers = cpu().random(10**5, dtype=name)
    assert abs(numbers.astype("float64")).min() >= float(ml_dtypes.finfo(numbers.dtype).smallest_normal)


def test_integers_use_the_whole_of_int8_but_its_lowest():
    numbers = cpu().random(10**5, dtype="int8")
    assert (numbers.min(), numbers.max()) == (-127, 127)


def test_unsigned_integers_do_not_wrap():
    assert cpu().random(10**5, dtype="uint8").max() == 127


def test_successive_arrays_differ_and_a_new_session_repeats_them():
    one, two = cpu(), cpu()
    first, second = one.random(100), one.random(100)
    assert (first != second).any() and (two.random(100) == first).all() and (two.random(100) == second).all()


def test_a_seed_fixes_the_numbers_and_is_not_the_default():
    here = cpu()
    assert (here.random(100, seed=7) == here.random(100, seed=7)).all()
    assert (cpu().random(100) != cpu().random(100, seed=0)).any()


def test_numbers_beyond_one_chunk_are_filled_and_do_not_repeat(monkeypatch):
    monkeypatch.setattr(MODULE, "CHUNK", 10)
    numbers = cpu().random(5, 5)
    assert len(np.unique(numbers)) == 25


def test_a_shape_may_be_a_tuple_or_empty():
    assert cpu().random((2, 3)).shape == (2, 3) and cpu().random(0).size == 0 and cpu().random().shape == ()


@pytest.mark.parametrize(("shape", "says"), [((3, -1), "negative, but -1"), ((2.0,), "2.0 is not one"),
                                             (("3",), "'3' is not one"), ((True,), "True is not one")])
def test_a_wrong_shape_is_refused_in_one_sentence(shape, says):
    with pytest.raises(ValueError, match=says):
        cpu().random(*shape)


def test_an_array_larger_than_the_free_memory_is_refused_before_it_is_made():
    with pytest.raises(MemoryError, match=r"\(1000000, 1000000\).* takes 4 TB, but only 10 GB are free"):
        cpu().random(10**6, 10**6)


def test_all_of_the_free_memory_may_be_taken_and_no_byte_more():
    assert cpu(free=1000).random(250).nbytes == 1000
    with pytest.raises(MemoryError):
        cpu(free=1000).random(251)


@pytest.mark.parametrize(("dtype", "says"), [("flot32", "did you mean 'float32'"), ("int4", "share a byte"),
                                             ("complex64", "no random data"), (bool, "no random data")])
def test_a_dtype_without_random_data_is_refused(dtype, says):
    with pytest.raises(ValueError, match=says):
        cpu().random(3, dtype=dtype)


def test_a_gpu_draws_small_floats_too(monkeypatch):
    use(monkeypatch, fake_cupy())
    numbers = device().random(100, 100)
    assert numbers.dtype == "float16" and abs(numbers.astype("float32").std() - 1) < 0.05


def test_a_gpu_draws_bfloat16_without_a_cast(monkeypatch):
    use(monkeypatch, fake_cupy())
    numbers = device().random(100, 100, dtype="bfloat16").get().astype("float32")
    assert abs(numbers.std() - 1) < 0.05 and abs(numbers).min() > 0 and len(np.unique(numbers)) > 1000


def test_a_dtype_that_cupy_has_no_arrays_of_is_one_sentence(monkeypatch):
    def empty(shape, dtype):
        raise TypeError("Unsupported dtype float8_e4m3fn")
    cupy = fake_cupy()
    cupy.empty = empty
    use(monkeypatch, cupy)
    with pytest.raises(ValueError, match=r"^this CuPy has no arrays of float8_e4m3fn \(Unsup.*: choose float16"):
        device().random(3, dtype="float8")


def test_the_text_names_cores_caches_memory_and_library():
    text = repr(cpu(2, {"L1": 32768, "L3": 32 * MiB}))
    assert text.splitlines()[0] == "a CPU (CPU)" and "cores   2" in text and "NumPy" in text
    assert "L1 32 KiB, L3 32 MiB (as claimed)" in text and "10 GB, 10 GB of it free" in text


def test_a_device_cannot_be_changed():
    with pytest.raises(AttributeError):
        device("cpu").cores = 64


def test_a_device_is_given_back_as_it_is():
    assert device(device("cpu")) is device("cpu")
