"""Does the compiler answer without a GPU, and is everything that can go wrong told in one sentence?"""

import sys

import pytest

from roofline_kit import nvrtc
from roofline_kit.nvrtc import NvrtcError, Resources

KERNEL = """#line 1 "reverse.cu"
extern "C" __global__ void reverse(float* x) {
    __shared__ float tile[256];
    tile[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = tile[255 - threadIdx.x];
}
extern "C" __global__ void add_one(float* x) { x[threadIdx.x] += 1; }
"""
pytestmark = pytest.mark.skipif(sys.platform == "darwin", reason="NVIDIA makes no NVRTC for macOS")


def test_a_kernel_is_told_with_what_it_takes():
    found = nvrtc.resources(KERNEL, "reverse", "sm_80")
    assert found == Resources("reverse", "sm_80", found.registers, 1024, 0, 0) and 6 <= found.registers <= 16


def test_what_does_not_fit_into_registers_is_told_as_spilled():
    code = """extern "C" __global__ void __launch_bounds__(1024, 2) wide(float* x, int n) {
        float v[80];
        for (int i = 0; i < 80; ++i) v[i] = x[i * n];
        for (int k = 0; k < n; ++k) for (int i = 0; i < 80; ++i) v[i] = v[i] * v[(i + 7) % 80] + 1;
        for (int i = 0; i < 80; ++i) x[i * n] = v[i];
    }"""
    found = nvrtc.resources(code, "wide")
    assert found.registers == 32 and found.spills > 100 and found.stack > 100


def test_an_array_that_is_indexed_by_data_lies_on_the_stack():
    code = """extern "C" __global__ void pick(float* x) {
        volatile float t[9];
        t[int(x[0])] = x[1];
        x[2] = t[int(x[3])];
    }"""
    assert nvrtc.resources(code, "pick").stack == 40         # 36 B, rounded up to a multiple of 8


def test_machine_code_comes_for_the_architecture_asked_for():
    codes = {nvrtc.compile(KERNEL, arch).code for arch in ("sm_75", "sm_80", "sm_90", "sm_100")}
    assert len(codes) == 4 and all(code.startswith(b"\x7fELF") for code in codes)


FAULTS = {
    "x[0] = y;": r'^bad.cu, line 2 does not compile: identifier "y" is undefined, in `x\[0\] = y;`\.$',
    "x[0] = y; z = 1;": r'^bad.cu, line 2 .* in `x\[0\] = y; z = 1;`, and 1 more error\.$',
    "#include <vector>": r"^bad.cu, line 2: NVRTC has no header vector, only CUDA's own: leave this #include out\.$",
    "#include <cuda_new.h>": r"^bad.cu, line 2: the CUDA header cuda_new.h is not installed: run `.*nvidia-cuda-runt",
    "#include <crt/new.h>": r"^bad.cu, line 2: the CUDA header crt/new.h is not installed: run `.*nvidia-cuda-crt",
    "#include <nv/new>": r"^bad.cu, line 2: the CUDA header nv/new is not installed: run `.*nvidia-cuda-cccl",
    'asm("nothing;");': r"^the kernel does not compile: .*nothing",
    "__shared__ char t[50000]; t[int(x[0])] = 1; x[0] = t[int(x[1])];": "does not compile: .* too much shared data",
}


@pytest.mark.parametrize("line", FAULTS)
def test_a_fault_is_told_in_one_sentence_with_its_line(line):
    code = f'#line 1 "bad.cu"\nextern "C" __global__ void bad(float* x) {{\n{line}\n}}'
    with pytest.raises(NvrtcError, match=FAULTS[line]) as raised:
        nvrtc.compile(code)
    assert str(raised.value).endswith(".") and "\n" not in str(raised.value) and "error" in raised.value.log
    assert raised.value._render_traceback_() == [f"NvrtcError: {raised.value}"]


def test_an_unknown_architecture_is_told_with_the_known_ones():
    with pytest.raises(NvrtcError, match=r"^unknown architecture 'sm_42': NVRTC 1\d\.\d knows .*sm_90, .*\.$"):
        nvrtc.compile(KERNEL, "sm_42")


def test_an_unknown_kernel_is_told_with_the_known_ones():
    with pytest.raises(ValueError, match="^the source has no kernel 'revers', it has add_one, reverse: .*"):
        nvrtc.resources(KERNEL, "revers")


LAYOUTS = {  # where NVRTC and the headers lie below a folder: wheels for CUDA 13 and 12, toolkits, conda
    "wheels 13": ("nvidia/cu13/lib/libnvrtc.so.13", "nvidia/cu13/include"),
    "wheels 13 on Windows": ("nvidia/cu13/bin/x86_64/nvrtc64_130_0.dll", "nvidia/cu13/include"),
    "wheels 12": ("nvidia/cuda_nvrtc/lib/libnvrtc.so.12", "nvidia/cuda_runtime/include"),
    "wheels 12 on Windows": ("nvidia/cuda_nvrtc/bin/nvrtc64_120_0.dll", "nvidia/cuda_runtime/include"),
    "toolkit": ("cuda/lib64/libnvrtc.so", "cuda/include"),
    "toolkit on Windows": ("cuda/bin/x64/nvrtc64_130_0.dll", "cuda/include"),
    "conda": ("prefix/lib/libnvrtc.so.13", "prefix/targets/x86_64-linux/include"),
    "conda on Windows": ("prefix/Library/bin/nvrtc64_130_0.dll", "prefix/Library/include"),
}


@pytest.fixture
def empty(monkeypatch, tmp_path):
    """A machine on which nothing of CUDA is installed."""
    monkeypatch.setattr(nvrtc, "TOOLKIT", tmp_path / "nowhere")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "prefix"))
    monkeypatch.setenv("CUDA_PATH", str(tmp_path / "cuda"))
    nvrtc.library.cache_clear()
    yield tmp_path
    nvrtc.library.cache_clear()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_nvrtc_and_the_headers_are_found_in_every_layout(empty, layout):
    library, headers = (empty / path for path in LAYOUTS[layout])
    for path in (library, library.parent / "nvrtc-builtins64_130.dll", headers / "cuda_fp16.h"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert nvrtc.find() == library and nvrtc.includes() == [headers]


def test_headers_of_two_versions_are_not_mixed(empty):
    for path in ("nvidia/cu13/include/cuda_fp16.h", "nvidia/cuda_runtime/include/cuda_fp16.h", "cuda/include/cuda.h"):
        (empty / path).parent.mkdir(parents=True)
        (empty / path).touch()
    assert nvrtc.includes() == [empty / "nvidia/cu13/include"]


def test_headers_that_lack_the_tensor_cores_come_last(empty):
    for path in ("nvidia/cu13/include/cuda_fp16.h", "cuda/include/cuda_fp16.h", "cuda/include/crt/mma.h"):
        (empty / path).parent.mkdir(parents=True, exist_ok=True)
        (empty / path).touch()
    assert nvrtc.includes() == [empty / "cuda/include"]


def test_a_machine_without_nvrtc_is_told_how_to_get_it(empty):
    assert nvrtc.find() is None and nvrtc.includes() == []
    with pytest.raises(NvrtcError, match="^NVRTC, NVIDIA's compiler, is not installed: run `.*nvidia-cuda-nvrtc==13"):
        nvrtc.compile(KERNEL)


def test_macos_is_told_that_there_is_none(empty, monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(NvrtcError, match="^NVIDIA makes no NVRTC for macOS: .*"):
        nvrtc.compile(KERNEL)


def test_a_library_that_does_not_load_is_one_sentence(empty):
    broken = empty / "nvidia/cu13/lib/libnvrtc.so.13"
    broken.parent.mkdir(parents=True)
    broken.write_bytes(b"not a library")
    with pytest.raises(NvrtcError, match=r"libnvrtc.so.13 does not load \(.*\): run `.*nvidia-cuda-nvrtc==13.*`\.$"):
        nvrtc.compile(KERNEL)


def test_without_headers_the_sentence_names_the_package(monkeypatch):
    monkeypatch.setattr(nvrtc, "includes", list)
    with pytest.raises(NvrtcError, match="cuda_fp16.h is not installed: run `.*nvidia-cuda-runtime==13"):
        nvrtc.compile("#include <cuda_fp16.h>")


@pytest.mark.parametrize(("there", "command"), [(True, f"{sys.executable} -m pip install"),
                                                (None, f"uv pip install --python {sys.executable}")])
def test_the_command_fits_the_environment(monkeypatch, there, command):
    monkeypatch.setattr(nvrtc.importlib.util, "find_spec", lambda name: there)
    assert nvrtc.install("nvidia-cuda-crt") == f'{command} "nvidia-cuda-crt==13.*"'
