"""Does CuPy itself behave on this GPU as the kit takes for granted?"""

import pytest
from contract import *


@pytest.fixture
def cupy(device):
    """CuPy, on a GPU."""
    return device.xp
