"""Does each kernel compute what its definition says: the twin, and the CUDA C++ run on the CPU, checked or not?"""

import numpy as np
import pytest
from cases import TOLERANCE, cases

import roofline_kit as rk
from roofline_kit.kernels import Launcher, launched

CASES = cases()
FAST = Launcher(np, lambda source, name: rk.cuda(source, name, device="cpu"))
CHECKED = Launcher(np, lambda source, name: rk.cuda(source, name, device="cpu").check)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_numba_twin_equals_the_reference(case):
    assert case.error(rk.device("cpu").kernel(case.kernel)) < TOLERANCE[case.dtype]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_cuda_kernel_equals_the_reference_on_the_cpu(case):
    assert case.error(launched(case.kernel, FAST)) < TOLERANCE[case.dtype]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_cuda_kernel_is_clean_under_every_check(case):
    assert case.error(launched(case.kernel, CHECKED)) < TOLERANCE[case.dtype]
