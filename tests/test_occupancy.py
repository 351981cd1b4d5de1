"""Does the formula give as many blocks on an SM as NVIDIA's own calculator does?"""

import pytest

from roofline_kit.occupancy import LIMITS, Occupancy, Resources

MOST = "as much as a block can be given"
BLOCKS = {  # (threads, registers, shared, added at the launch): by CUDA 13.0's cuda_occupancy.h for each row of LIMITS
    (256, 32, 0, 0): (4, 8, 6, 6, 8, 8, 8, 6),
    (1024, 64, 0, 0): (1, 1, 1, 1, 1, 1, 1, 1),
    (1024, 65, 0, 0): (0, 0, 0, 0, 0, 0, 0, 0),
    (128, 168, 49152, 0): (1, 3, 2, 2, 3, 3, 3, 2),
    (33, 40, 1000, 3000): (16, 24, 16, 20, 24, 24, 24, 20),
    (96, 80, 0, MOST): (1, 1, 1, 1, 1, 1, 1, 1),
    (32, 16, 0, 0): (16, 32, 16, 24, 32, 32, 32, 24),
    (384, 40, 16384, 9000): (2, 4, 3, 3, 4, 4, 4, 3),
}
FACTORS = {  # (architecture, threads, registers, shared, added): what limits it, by the same header
    ("sm_90", 256, 32, 0, 0): {"registers", "threads"},
    ("sm_90", 32, 16, 0, 0): {"blocks"},
    ("sm_90", 33, 40, 1000, 3000): {"registers"},
    ("sm_80", 128, 168, 49152, 0): {"registers", "shared memory"},
    ("sm_75", 33, 40, 1000, 3000): {"shared memory", "threads", "blocks"},
    ("sm_75", 64, 38, 0, 0): {"threads", "blocks"},
    ("sm_100", 1024, 65, 0, 0): {"registers"},
    ("sm_120", 33, 40, 1000, 3000): {"shared memory"},
}


def kernel(arch="sm_90", registers=32, shared=0):
    return Resources("k", arch, registers, shared, 0, 0)


@pytest.mark.parametrize("arch", LIMITS)
@pytest.mark.parametrize("launch", BLOCKS, ids=str)
def test_as_many_blocks_fit_as_nvidia_says(launch, arch):
    threads, registers, shared, added = launch
    warps, _, kib = LIMITS[arch]
    added = 1024 * (kib - (arch != "sm_75")) if added == MOST else added
    blocks = BLOCKS[launch][list(LIMITS).index(arch)]
    found = kernel(arch, registers, shared).occupancy(threads, added)
    assert found.blocks == blocks and found.share == blocks * -(-threads // 32) / warps


@pytest.mark.parametrize("launch", FACTORS, ids=str)
def test_the_same_things_limit_it_as_nvidia_says(launch):
    arch, threads, registers, shared, added = launch
    assert set(kernel(arch, registers, shared).occupancy(threads, added).limits) == FACTORS[launch]


@pytest.mark.parametrize("arch", LIMITS)
def test_a_byte_more_than_a_block_can_be_given_does_not_fit(arch):
    most = 1024 * (LIMITS[arch][2] - (arch != "sm_75"))
    assert kernel(arch).occupancy(32, most).blocks == 1
    assert kernel(arch).occupancy(32, most + 1) == Occupancy(0.0, 0, ("shared memory",))


def test_a_block_counts_by_its_threads_whatever_its_shape():
    assert kernel().occupancy((16, 4, 4)) == kernel().occupancy(256) == Occupancy(1.0, 8, ("registers", "threads"))


@pytest.mark.parametrize("block", [0, 1025, (32, 33), (0, 32)])
def test_a_block_that_no_gpu_launches_is_refused(block):
    with pytest.raises(ValueError, match=r"^a block of \d+ threads cannot be launched: choose 1 to 1024\.$"):
        kernel().occupancy(block)


def test_an_architecture_without_limits_is_told_with_those_that_have_some():
    with pytest.raises(ValueError, match="^the limits of sm_110 are not known: choose sm_75, .*sm_120"):
        kernel("sm_110").occupancy(32)


def test_both_are_read_in_one_line():
    assert repr(kernel()) == "k for sm_90: 32 registers, 0 B shared, 0 B spilled, 0 B stack"
    assert repr(kernel().occupancy(640)) == "94% of the warps, 3 blocks on an SM, limited by registers and threads"
    assert repr(kernel("sm_90", 255).occupancy(1024)) == ("0% of the warps, no block fits on an SM, "
                                                          "limited by registers")
