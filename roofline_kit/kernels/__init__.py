"""Which kernels does the kit bring, and in which file does each one live?"""

import importlib

from ..units import nearest

HOMES = {**dict.fromkeys(("read", "scale", "copy", "triad", "write"), "stream"), "fma": "fma"}


def kernel(name, device):
    """The kit's own kernel of that name for a device, a function to call on its arrays.

    Errors:  ValueError for a name that no file holds
    """
    if name not in HOMES:
        raise ValueError(nearest(name, HOMES, "kernel"))
    home = HOMES[name] if device.kind == "cpu" else "gpu"
    return getattr(importlib.import_module(f".{home}", __name__), name)
