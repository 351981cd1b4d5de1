"""Bytes over links: the counts against a ring that is run, the published ones, and the laws that they obey."""

import numpy as np
import pytest

from roofline_kit import datasheet, gemm, links
from roofline_kit.roofline import Roofline
from roofline_kit.work import Work

H100 = datasheet("H100 SXM", "bfloat16")


def ring(arrays, turns):
    """The arrays of each device after so many turns, and how many numbers each device has sent."""
    n, sent = len(arrays), 0
    held = [np.array_split(array.copy(), n) for array in arrays]
    for turn in range(turns):
        parts = [(device - turn) % n for device in range(n)]
        messages = [held[device][part].copy() for device, part in enumerate(parts)]
        sent += messages[0].size
        for device in range(n):
            mine, part = held[(device + 1) % n], parts[device]
            mine[part] = mine[part] + messages[device] if turn < n - 1 else messages[device]
    return [np.concatenate(parts) for parts in held], sent


@pytest.mark.parametrize("n", [1, 2, 3, 8])
def test_a_ring_sends_what_the_formulas_say_and_adds_up(n):
    arrays = [np.arange(120) * (device + 1) for device in range(n)]
    sums, sent = ring(arrays, 2 * (n - 1))
    assert all((one == sum(arrays)).all() for one in sums)
    assert sent == links.all_reduce(120, n)
    assert ring(arrays, n - 1)[1] == links.reduce_scatter(120, n) == links.all_gather(120, n)


def test_one_device_sends_nothing():
    assert links.data_parallel(1e9, 1) == links.tensor_parallel(4096, 1024, 1) == 0


def test_an_all_reduce_hardly_grows_with_the_devices():
    sent = [links.all_reduce(1e9, n) for n in (2, 8, 10_000)]
    assert sent == sorted(sent) and sent[-1] < 2 * sent[0]


def test_sharding_costs_half_as_much_again():
    assert links.data_parallel(8e9, 8, sharded=True) == 1.5 * links.data_parallel(8e9, 8)


def test_gradients_of_four_bytes_are_twice_as_many():
    assert links.data_parallel(8e9, 8, "float32") == 2 * links.data_parallel(8e9, 8)


def test_tensor_parallelism_makes_four_all_reduces_a_block():
    assert links.tensor_parallel(100, 64, 4, blocks=3) == 3 * 4 * links.all_reduce(2 * 100 * 64, 4)


def test_a_pipeline_sends_activations_one_way_and_gradients_the_other():
    assert links.pipeline_parallel(100, 64) == 2 * 2 * 100 * 64


@pytest.mark.parametrize(("stages", "parts", "share"), [(1, 8, 0), (4, 1, 0.75), (16, 32, 15 / 47)])
def test_the_bubble(stages, parts, share):
    assert links.bubble(stages, parts) == pytest.approx(share)


def test_a_link_of_a_datasheet_counts_both_directions():
    assert links.over_link(H100).bandwidth == 450e9
    assert links.over_link(H100).ridge == pytest.approx(2198.7, abs=0.1)


def test_eight_h100_wait_for_nvlink_below_1283_tokens_each():
    nvlink = links.over_link(H100)
    for tokens, bound in ((1280, "memory"), (1290, "compute")):
        work = Work(6 * 8e9 * tokens, links.data_parallel(8e9, 8), unit="matrix", dtype="bfloat16")
        assert nvlink.bound(work) == bound


def test_the_roof_of_a_link_has_nothing_of_the_memory():
    roof = Roofline(1e12, 1e11, overhead=1e-6, mixes=((0.0, 1e11, "read"),), levels=((2**20, 1e12),), link=2e10,
                    write_allocate=True)
    assert links.over_link(roof).times(gemm(8, 8, 8), cold=False).memory == gemm(8, 8, 8).nbytes / 1e10


def test_a_chip_without_a_link_asks_for_one():
    with pytest.raises(ValueError, match="no figure for its link: give its bandwidth"):
        links.over_link(datasheet("L4", "bfloat16"))
    assert links.over_link(datasheet("L4", "bfloat16"), 25e9).bandwidth == 25e9


@pytest.mark.parametrize("wrong", [0, -1, 2.5, "8", True])
def test_a_number_of_devices_that_cannot_be_is_named(wrong):
    with pytest.raises(ValueError, match="devices is"):
        links.all_reduce(1e9, wrong)
