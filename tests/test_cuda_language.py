"""Does CUDA C++ as people write it compile, and does a source that cannot be launched say why?"""

from pathlib import Path

import numpy as np
import pytest

from roofline_kit.cuda import CudaError, cuda


def first(body, before="", shared_mem=0):
    """What a kernel of one thread leaves in y[0]."""
    y = np.zeros(8, "float32")
    source = f'{before}\nextern "C" __global__ void k(float *y) {{\n{body}\n}}'
    cuda(source, "k", device="cpu")((1,), (1,), (y,), shared_mem)
    return y[0]


def test_code_for_new_gpus_alone_is_compiled():
    assert first("#if __CUDA_ARCH__ >= 700 && defined(__CUDACC__)\ny[0] = 3;\n#endif") == 3


@pytest.mark.parametrize("declared", [
    "extern volatile __shared__ float s[];", "extern __shared__ float s[ /* n */ ];", "static __shared__ float s[8];",
    "extern __shared__ Box<float> s[];", "extern __shared__ float __align__(16) s[];", "__shared__ static float s[8];",
    "extern __align__(16) __shared__ float s[];", "DYNAMIC(float, s);", "extern __shared__ float\ns[];"])
def test_shared_memory_may_be_declared_in_every_way(declared):
    before = "#define DYNAMIC(T, name) extern __shared__ T name[]\ntemplate <class T> using Box = T;"
    assert first(f"{declared} s[7] = 5; y[0] = s[7];", before, 32) == 5


def test_dynamic_shared_memory_may_have_rows():
    assert first("extern __shared__ float s[][32]; s[1][2] = 5; y[0] = (&s[0][0])[34];", shared_mem=256) == 5


@pytest.mark.parametrize("qualifiers", ["static __constant__", 'extern "C" __constant__', 'extern "C" __device__'])
def test_constants_may_be_declared_in_every_way(qualifiers):
    assert first("y[0] = gamma[1];", f"{qualifiers} float gamma[2] = {{1, 2}};") == 2


@pytest.mark.parametrize("name", ["div", "random", "remove"])
def test_a_kernel_may_have_the_name_of_a_function_of_c(name):
    y = np.zeros(1, "float32")
    cuda(f'extern "C" __global__ void {name}(float *y) {{ y[0] = 1; }}', name, device="cpu")((1,), (1,), (y,))
    assert y[0] == 1


@pytest.mark.parametrize(("expression", "value"), [
    ("float(__hmax2(h * h, h + h).y)", 9), ("float(__hmin2(b + b, -b).x)", -1), ("float(__low2half2(h).y)", 2),
    ("float(h2sqrt(h * h).y)", 3), ("__half2int_rn(hfloor(h.x) / hrcp(h.y))", 6), ("__clzll(1) + __ffsll(4)", 66),
    ("__brevll(1) >> 60", 8), ("__umul64hi(1ull << 63, 6)", 3), ("__mul64hi(-1, 1)", -1), ("__sad(-3, 4, 5)", 12),
    ("__funnelshift_l(1u << 31, 1, 1) + __funnelshift_r(2, 1, 1) % 7", 3 + (2**31 + 1) % 7), ("umax(1, ~0u) >> 30", 3),
    ("__double2int_rn(__fma_rn(2, 3, 0.5))", 6), ("__float2uint_rz(2.9f)", 2), ("sinpif(0.5f) + cospif(1)", 0),
    ("(__fadd_rz(1, 0.9e-7f) == 1) + (__fadd_rn(1, 0.9e-7f) > 1)", 2), ("normcdff(0) + norm3df(2, 3, 6)", 7.5),
    ("float((b += b).y)", 2), ("erfinvf(erff(0.5f))", 0.5),
    ("clock() + make_long2(3, 4).y", 4), ("CUDART_INF_F > CUDART_PI_F", 1), ("__mul24((1 << 24) + 2, 3)", 6)])
def test_cudas_functions_compute_what_their_names_say(expression, value):
    pairs = "__half2 h = __floats2half2_rn(2, 3); __nv_bfloat162 b = __float2bfloat162_rn(1);"
    found = first(f"{pairs} y[0] = {expression};", "#include <math_constants.h>\n#include <cuda_runtime_api.h>")
    assert found == pytest.approx(value, rel=1e-6)


BY_VALUE = """struct P { double x; int n; };
extern "C" __global__ void k(float *y, float4 v, P p, P *all) { y[0] = v.w; y[1] = p.x; y[2] = p.n; y[3] = all[1].n; }
"""


def by_value(v):
    p = np.array([(1.5, 7), (2.5, 8)], dtype=np.dtype([("x", "f8"), ("n", "i4")], align=True))
    y = np.zeros(4, "float32")
    cuda(BY_VALUE, "k", device="cpu").check((1,), (1,), (y, v, p[0], p))
    return y.tolist()


def test_structs_and_vectors_are_passed_by_value():
    assert by_value(np.array([1, 2, 3, 4], "float32")) == [4, 1.5, 7, 8]


@pytest.mark.parametrize("wrong", [1.0, (1, 2, 3, 4), np.zeros(3, "float32"), np.zeros(4)])
def test_a_vector_of_another_size_or_type_is_refused(wrong):
    with pytest.raises(CudaError, match="float4 v, is passed by value, but the call gives .*: write np.array"):
        by_value(wrong)


ONE = 'extern "C" __global__ void k(float *y) { y[0] = 1; }'


@pytest.mark.parametrize(("source", "name", "sentence"), [
    ("template <class T> __global__ void k(T *y) {}", "k", "k is a template, .* k_float"), (ONE, "", "'' is no name"),
    ("namespace a { __global__ void k(float *y) {} }", "k", "belongs to a namespace"), (ONE, None, "None is no name"),
    ("__device__ void k(float *y) {}", "k", "k is a __device__ function"), (b"text", "k", "not a bytes"),
    (ONE + " int main() { k<<<1, 1>>>(0); }", "k", "launch from Python"), (Path("none.cu"), "k", "cannot be read"),
    (ONE.replace("y[0]", 'asm volatile("mov.u32 %0, %%laneid;" : "=r"(*(int *)y)); y[0]'), "k", "inline PTX"),
    (ONE.replace("(float *y) { y", "(float **y) { *y"), "k", "pointer to pointers"), (Path("."), "k", "be read")])
def test_a_source_without_a_launchable_kernel_says_why(source, name, sentence):
    with pytest.raises(CudaError, match=sentence):
        cuda(source, name, device="cpu")((1,), (1,), (np.zeros(1, "float32"),))


def test_a_file_that_is_not_utf_8_is_refused_and_a_byte_order_mark_is_not(tmp_path):
    y, path = np.zeros(1, "float32"), tmp_path / "kernel.cu"
    path.write_text("\ufeff" + ONE, encoding="utf-8")
    cuda(path, "k", device="cpu")((1,), (1,), (y,))
    path.write_bytes("// \xe9".encode("latin1"))
    with pytest.raises(CudaError, match="not UTF-8"):
        cuda(path, "k", device="cpu")
    assert y[0] == 1


@pytest.mark.parametrize("args", [None, np.zeros(1, "float32"), (x for x in ())])
@pytest.mark.parametrize("run", ["__call__", "check", "trace"])
def test_arguments_come_as_a_tuple(run, args):
    with pytest.raises(CudaError, match=r"arguments as a tuple, but the call gives .*: write \(x,\) for one"):
        getattr(cuda(ONE, "k", device="cpu"), run)((1,), (1,), args)


@pytest.mark.parametrize("shared_mem", [None, 1.5])
def test_shared_memory_is_a_whole_number_of_bytes_and_a_grid_may_be_an_array(shared_mem):
    with pytest.raises(CudaError, match="shared_mem is a whole number of bytes"):
        cuda(ONE, "k", device="cpu")(np.array([1, 1]), (1,), (np.zeros(1, "float32"),), shared_mem)
