"""Does each kernel compute on this GPU what its definition says?"""

import pytest
from cases import TOLERANCE, cases

from .conftest import on


@pytest.mark.parametrize("case", cases(), ids=str)
def test_a_kernel_equals_the_reference(device, holds, case):
    error = case.error(on(device, device.kernel(case.kernel)))
    holds((f"{case.kernel} {case.dtype}: error", error, 0, TOLERANCE[case.dtype]))
