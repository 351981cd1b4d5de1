"""Is every misuse of a kernel, and every lack of the machine, one sentence that says what to do?"""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from roofline_kit.cuda import CudaError, cuda
from roofline_kit.cuda_on_cpu import compiler, program
from roofline_kit.cuda_on_cpu.source import Source

SOURCE = """
extern "C" __global__ void axpy(float *y, const float *x, float a, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}
extern "C" __global__ void last(const float *x, float *out) {       // every thread takes the last one's number
  __shared__ float all;
  if (threadIdx.x == blockDim.x - 1) all = x[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = all;
}
extern "C" __global__ void endless(volatile int *x) { while (x[0] == 0) {} }
extern "C" __global__ void wild(float *x, size_t far) { x[far] = 1; }
extern "C" __global__ void hello(int *x) { printf("hello\\n"); }
extern "C" __global__ void divide(int *x) { x[0] = x[1] / x[2]; }
"""
N = 1000
f32, i32 = np.float32, np.int32


def kernel(name):
    return cuda(SOURCE, name, device="cpu")


def axpy_arguments():
    return [np.ones(N, "float32"), np.arange(N, dtype="float32"), f32(2), i32(N)]


def replaced(index, value):
    return lambda: [*axpy_arguments()[:index], value, *axpy_arguments()[index + 1:]]


@pytest.mark.parametrize(("arguments", "says"), [
    (lambda: axpy_arguments()[:3], "takes 4 arguments .float. y, const float. x, float a, int n., but the call has 3"),
    (replaced(0, np.zeros(N)), "argument 1 of kernel axpy, float. y, points to float32, but the array holds float64"),
    (replaced(0, [1.0]), "is a pointer, but the call gives a list"),
    (replaced(0, np.zeros((N, 2), "float32")[:, 0]), "without gaps"),
    (replaced(0, np.broadcast_to(f32(1), (1,))), "read-only: declare the parameter const"),
    (replaced(2, 2.0), r"float a, gets a Python float, .* write np.float32\(2.0\)"),
    (replaced(2, np.float64(2)), r"is not a float64: write np.float32\(2.0\)"),
    (replaced(3, N), r"int n, gets a Python int, which a GPU takes as 64 bits: write np.int32\(1000\)"),
    (replaced(3, np.zeros(4, "int32")), "is one number, but the call gives a ndarray"),
    (lambda: [(y := np.zeros(N + 1, "float32"))[:-1], y[1:], f32(2), i32(N)], "y and x of kernel axpy overlap in part"),
])
def test_wrong_arguments_are_refused(arguments, says):
    with pytest.raises(CudaError, match=says):
        kernel("axpy")((4,), (256,), arguments())


def test_a_const_pointer_takes_a_read_only_array():
    y, x, a, n = axpy_arguments()
    x.flags.writeable = False
    kernel("axpy")((4,), (256,), (y, x, a, n))
    assert y[3] == 7


@pytest.mark.parametrize(("grid", "block", "shared", "says"), [
    ((1,), (1025,), 0, "at most 1024 threads"), ((1,), (1, 1, 65), 0, "64 of them deep"),
    ((1, 65536), (1,), 0, "65535"),
    ((0,), (1,), 0, "at least 1"), ((1,), (1.0,), 0, "whole numbers"), ((1,), (1,), 240_000, "227 KiB")])
def test_sizes_that_no_gpu_has_are_refused(grid, block, shared, says):
    with pytest.raises(CudaError, match=says):
        kernel("axpy")(grid, block, axpy_arguments(), shared)


def test_a_wrong_count_is_noticed_even_without_checks():
    y, x, a, _ = axpy_arguments()
    with pytest.raises(CudaError, match=r"wrote y\[1000\], but y has 1000 elements: run check"):
        kernel("axpy")((4,), (256,), (y, x, a, i32(N + 1)))


def test_a_wild_pointer_harms_nobody():
    with pytest.raises(CudaError, match=r"kernel wild, kernel.cu line [0-9]+, .*thread \(0, 0, 0\) of .*run check"):
        kernel("wild")((1,), (1,), (np.zeros(4, "float32"), np.uint64(2**40)))


def test_an_integer_division_by_zero_names_the_line():
    with pytest.raises(CudaError, match="kernel.cu line [0-9]+, .*x.1. / x.2..*divides an integer by zero"):
        kernel("divide")((1,), (1,), (np.zeros(3, "int32"),))


def test_an_endless_kernel_is_stopped(monkeypatch):
    monkeypatch.setattr(program, "TIME_LIMIT", 0.5)
    with pytest.raises(CudaError, match="kernel.cu line [0-9]+, .*while .*still runs after 0.5 s: look for a loop"):
        kernel("endless")((1,), (1,), (np.zeros(1, "int32"),))


def test_an_interrupt_stops_the_kernel_and_goes_on():
    endless = kernel("endless")
    endless_children = children()
    timer = threading.Timer(1.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        endless((1,), (1,), (np.zeros(1, "int32"),))
    assert children() == endless_children


ORPHAN = """
import sys
import numpy as np
from roofline_kit.cuda import cuda
cuda(sys.argv[1], "endless", device="cpu")((1,), (1,), (np.zeros(1, "int32"),))
"""


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_kernel_ends_when_python_is_killed(how, tmp_path):
    import psutil
    python = subprocess.Popen([sys.executable, "-c", ORPHAN, SOURCE], env=os.environ | {"TMPDIR": str(tmp_path)})
    while not (running := [each for each in psutil.Process(python.pid).children() if "endless" in words(each)]):
        assert python.poll() is None
        time.sleep(0.05)
    python.send_signal(how)
    python.wait()
    assert not psutil.wait_procs(running, timeout=30)[1]


def words(process):
    import psutil
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def children():
    import psutil
    return {child.pid for child in psutil.Process().children(recursive=True)}


@pytest.mark.parametrize(("text", "says"), [
    ("\n  x[0] = y;", "kernel.cu line 2 does not compile: .*y"),
    ('\n#line 1 "mine.cu"\n  x[0] = 1', "line 1 does not compile: expected")])
def test_source_that_does_not_compile_is_one_sentence(text, says):
    broken = cuda(f'extern "C" __global__ void k(float *x) {{{text}\n}}', "k", device="cpu")
    with pytest.raises(CudaError, match=says) as caught:
        broken((1,), (1,), (np.zeros(1, "float32"),))
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(sys.platform == "darwin", reason="there is no NVRTC for macOS")
@pytest.mark.parametrize(("line", "says"), [
    ("out[0] = -INFINITY;", "INFINITY"), ("__shared__ float s[20000]; s[0] = 1; out[0] = s[0];", "48|0xc000|shared")])
def test_check_tells_what_runs_here_but_not_on_a_gpu(line, says):
    checked = cuda(f'extern "C" __global__ void k(float *out) {{ {line} }}', "k", device="cpu").check
    with pytest.raises(CudaError, match=says):
        checked((1,), (1,), (np.zeros(1, f32),))


def test_check_does_without_nvidias_compiler(monkeypatch):
    monkeypatch.setattr("roofline_kit.nvrtc.find", lambda: None)
    cuda('extern "C" __global__ void k(float *out) { out[0] = -INFINITY; }', "k", device="cpu").check(
        (1,), (1,), (out := np.zeros(1, f32),))
    assert out[0] == -np.inf


def test_a_name_that_is_no_kernel_gets_the_nearest():
    with pytest.raises(CudaError, match="axpy"):
        kernel("axpi")


def test_a_notebook_shows_the_sentence_alone():
    assert CudaError("no.")._render_traceback_() == ["CudaError: no."]


def test_a_file_is_named_in_its_sentences(tmp_path):
    path = tmp_path / "mine.cu"
    path.write_text('extern "C" __global__ void k(int *x) {\n  x[1] = 1;\n}\n')
    with pytest.raises(CudaError, match="kernel k, mine.cu line 2, `x.1. = 1;`"):
        cuda(path, "k", device="cpu").check((1,), (1,), (np.zeros(1, "int32"),))


def test_lines_count_from_the_last_line_directive():
    text = '#define TWO 2\n#line 1 "given.cu"\nextern "C" __global__ void k(int *x) {\n  x[TWO] = 1;\n}\n'
    with pytest.raises(CudaError, match="given.cu line 2, `x.TWO. = 1;`"):
        cuda(text, "k", device="cpu").check((1,), (1,), (np.zeros(1, "int32"),))


@pytest.mark.parametrize("mode", ["__call__", "check", "trace"])
def test_what_a_kernel_prints_is_shown_once(mode, capfd):
    getattr(kernel("hello"), mode)((2,), (1,), (np.zeros(1, "int32"),))
    assert capfd.readouterr().out == "hello\nhello\n"


@pytest.mark.parametrize("mode", ["__call__", "check", "trace"])
def test_static_shared_memory_has_a_limit(mode):
    text = 'extern "C" __global__ void k(float *x) { __shared__ float s[%d]; s[0] = 1; __syncthreads(); x[0] = s[0]; }'
    getattr(cuda(text % 12288, "k", device="cpu"), mode)((1,), (1,), (x := np.zeros(1, "float32"),))
    assert x[0] == 1
    with pytest.raises(CudaError, match="kernel k: declares 655.. bytes of static shared memory.*49152.*extern"):
        getattr(cuda(text % 16384, "k", device="cpu"), mode)((1,), (1,), (x,))


@pytest.mark.parametrize("mode", ["__call__", "check"])
@pytest.mark.parametrize("text", ["return deep(x, n + x[0]) + x[n & 1];",
                                  "volatile int t[1 << 18]; for (int k = 0; k < 1 << 18; k++) t[k] = k; return t[n];"])
def test_a_stack_that_overflows_is_called_so(mode, text):
    text = (f"__device__ __noinline__ int deep(volatile int *x, int n) {{ {text} }}\n"
            'extern "C" __global__ void k(int *x) { x[1] = deep(x, 0); }')
    with pytest.raises(CudaError, match="kernel.cu line 1, .*stack overflow: too deep a recursion, or too large a loc"):
        getattr(cuda(text, "k", device="cpu"), mode)((1,), (1,), (np.zeros(2, "int32"),))


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no file that is always full")
@pytest.mark.parametrize("full", [3, 4])                 # the words of the program that name its files
def test_a_full_folder_for_temporary_files_is_told(full, monkeypatch):
    start = program._process
    monkeypatch.setattr(program, "_process", lambda all, **streams: start(
        ["/dev/full" if index == full else word for index, word in enumerate(all)], **streams))
    with pytest.raises(CudaError, match="kernel axpy: its arrays do not fit into .*set TMPDIR"):
        kernel("axpy")((4,), (256,), axpy_arguments())


@pytest.fixture
def fresh(monkeypatch):
    """Nothing is remembered of the compiler, before and after."""
    caches = [found for found in vars(compiler).values() if hasattr(found, "cache_clear")]
    for cache in caches:
        cache.cache_clear()
    yield monkeypatch
    monkeypatch.undo()
    for cache in caches:
        cache.cache_clear()


def test_without_a_compiler_the_sentence_says_what_to_install(fresh, tmp_path):
    fresh.setenv("PATH", str(tmp_path))
    fresh.delenv("CXX", raising=False)
    with pytest.raises(CudaError, match="apt install g.*dnf install gcc-c.*xcode-select.*conda.*WSL"):
        kernel("axpy")((4,), (256,), axpy_arguments())


def test_a_compiler_without_sanitizers_is_told_from_none(fresh, tmp_path):
    fake = tmp_path / "g++"
    fake.write_text('#!/bin/sh\ncase "$*" in *sanitize=address*) echo "ld: cannot find -lasan" >&2; exit 1;; esac\n'
                    f'exec {compiler.compiler()} "$@"\n')
    fake.chmod(0o755)
    compiler.compiler.cache_clear()
    fresh.setenv("CXX", str(fake))
    with pytest.raises(CudaError, match="has no AddressSanitizer.*libasan.*a plain call works without"):
        compiler.program(Source(SOURCE), "axpy", "asan")


def test_stacks_change_without_assembly_too(fresh):
    fresh.setenv("ROOFLINE_KIT_UCONTEXT", "1")
    x, out = np.arange(64, dtype="float32"), np.zeros(64, "float32")
    kernel("last")((1,), (64,), (x, out))
    assert (out == 63).all()
