"""How many warps of a kernel can an SM hold at a time, and what would it need more of to hold more?"""

import math
from dataclasses import dataclass

LIMITS = {  # warps, blocks and KiB of shared memory on one SM: CUDA Programming Guide, tables by compute capability
    "sm_75": (32, 16, 64), "sm_80": (64, 32, 164), "sm_86": (48, 16, 100), "sm_89": (48, 24, 100),
    "sm_90": (64, 32, 228), "sm_100": (64, 32, 228), "sm_103": (64, 32, 228), "sm_120": (48, 24, 100),
}
REGISTERS, PARTS = 65536, 4                # on one SM, and the parts it is made of: the same guide, all of the above
UNIT = 256                                 # registers, a warp is given a multiple of it: NVIDIA's cuda_occupancy.h
WARP, LARGEST_BLOCK, MOST_REGISTERS = 32, 1024, 255       # threads, threads, registers a thread: the same guide


@dataclass(frozen=True)
class Occupancy:
    """How much of an SM one kernel can fill.

    share:   of the warps that an SM can hold, between 0 and 1
    blocks:  that are on an SM at a time; 0 if not even one fits
    limits:  what there would have to be more of: registers, shared memory, threads or blocks
    """

    share: float
    blocks: int
    limits: tuple

    def __repr__(self):
        held = f"{self.blocks} block{'s' * (self.blocks != 1)} on an SM" if self.blocks else "no block fits on an SM"
        return f"{self.share:.0%} of the warps, {held}, limited by {' and '.join(self.limits)}"


@dataclass(frozen=True)
class Resources:
    """What one kernel takes of an SM.

    registers:  of each thread
    shared:     memory of each block that the kernel declares itself [B]
    spills:     stores and loads of registers that did not fit [B], of each thread
    stack:      of each thread [B]
    """

    name: str
    arch: str
    registers: int
    shared: int
    spills: int
    stack: int

    def __repr__(self):
        return (f"{self.name} for {self.arch}: {self.registers} registers, {self.shared} B shared, "
                f"{self.spills} B spilled, {self.stack} B stack")

    def occupancy(self, block, shared_mem=0):
        """The share of an SM's warps that can be resident, for a block of that shape.

        shared_mem:  added at the launch to what the kernel declares [B]
        Errors:      ValueError for a block of no or more than 1024 threads, and for an architecture without limits
        Source:      equals NVIDIA's cuda_occupancy.h, which says in comments what is rounded up and why
        """
        threads = math.prod(block) if isinstance(block, (tuple, list)) else block
        if not 1 <= threads <= LARGEST_BLOCK:
            raise ValueError(f"a block of {threads} threads cannot be launched: choose 1 to {LARGEST_BLOCK}.")
        if self.arch not in LIMITS:
            raise ValueError(f"the limits of {self.arch} are not known: choose {', '.join(LIMITS)}.")
        most_warps, most_blocks, kib = LIMITS[self.arch]
        ampere = self.arch != "sm_75"                        # from sm_80 on, 1 KiB of each block is the system's
        warps = -(-threads // WARP)
        per_warp = max(1, _up(self.registers * WARP, UNIT))
        per_block = _up(self.shared + shared_mem + 1024 * ampere, 128 if ampere else 256)
        fits = self.registers <= MOST_REGISTERS and per_warp * _up(warps, PARTS) <= REGISTERS
        by = {"registers": fits * (REGISTERS // PARTS // per_warp * PARTS // warps),
              "shared memory": kib * 1024 // per_block if per_block else math.inf,
              "threads": most_warps // warps, "blocks": most_blocks}
        blocks = min(by.values())
        return Occupancy(blocks * warps / most_warps, blocks, tuple(name for name in by if by[name] == blocks))


def _up(number, unit):
    """The least multiple of `unit` that is not below `number`."""
    return -(-number // unit) * unit
