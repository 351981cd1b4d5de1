"""What does the driver say of a GPU while it is measured: its clock, what slows it down, who else uses it?

NVML tells, through the package nvidia-ml-py. Where that is missing, broken or denied, nothing is known and all goes on.
"""

import os
import uuid

SLOWED = {  # bits of the reasons why a clock is low (nvml.h) that make a measured roof too low
    0x08: "a hardware slowdown", 0x20: "heat", 0x40: "heat", 0x80: "a brake on its power supply"}


def state(uid):
    """The GPU of that uid now: {"clock" [Hz], "temperature" [C], "power" [W], "reasons", "others"}, as far as told.

    reasons:  the bits of nvml.h that say why its clock is not the highest
    others:   how many other processes compute on it
    """
    found = {}
    try:
        import pynvml
        pynvml.nvmlInit()
    except Exception:                                        # noqa: BLE001  a broken install may raise anything
        return found
    try:
        handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid.UUID(uid.removeprefix('gpu-'))}")
    except Exception:                                        # noqa: BLE001  a slice of a GPU has another kind of name
        return found
    asks = {"clock": lambda: pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM) * 1e6,
            "temperature": lambda: pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU),
            "power": lambda: pynvml.nvmlDeviceGetPowerUsage(handle) / 1e3,
            "reasons": lambda: pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle),
            "others": lambda: _others([process.pid for process in
                                       pynvml.nvmlDeviceGetComputeRunningProcesses(handle)])}
    for name, ask in asks.items():
        try:
            found[name] = ask()
        except Exception:                                    # noqa: BLE001, S112  not told here: the others may be
            continue
    return found


def _others(processes):
    """How many are not this one. In a container it may have another number there, but it is one of them."""
    return len(set(processes) - {os.getpid()}) - (os.getpid() not in processes and bool(processes))


def doubts(states):
    """What these states make doubtful, a sentence each.

    states:  as from `state`, in the order in which they were taken, while the GPU was busy
    """
    others = max((state.get("others", 0) for state in states), default=0)
    if others:
        yield (f"{others} other process{'es' * (others > 1)} computed on this GPU meanwhile, so every roof may be too "
               "low: end what `nvidia-smi` shows and measure with fresh=True (--fresh).")
    bits = [bit for bit in SLOWED if any(state.get("reasons", 0) & bit for state in states)]
    if bits:
        causes = " and ".join(dict.fromkeys(SLOWED[bit] for bit in bits))
        yield f"the driver slowed this GPU down because of {causes}: its roofs are lower than they could be."
