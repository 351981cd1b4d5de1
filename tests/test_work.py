"""Laws of Work: totals, intensity, fusion, and the counts it refuses."""

import dataclasses

import pytest

from roofline_kit.ops import elementwise, gemm, layernorm
from roofline_kit.work import Work, fused


def test_intensity_is_flops_over_bytes():
    assert Work(flops=6, nbytes=24).intensity == 0.25


def test_no_bytes_is_infinite_intensity_and_no_work_is_none():
    assert Work(1, 0).intensity == float("inf") and Work(0, 0).intensity == 0


def test_works_add_up_field_by_field():
    total = elementwise(10) + elementwise(20)
    assert (total.flops, total.nbytes, total.written, total.launches) == (30, 360, 120, 2)


def test_sum_adds_a_list_of_works():
    assert sum([elementwise(10)] * 3) == sum([elementwise(10)] * 2) + elementwise(10)


def test_the_part_with_more_flops_names_unit_and_dtype():
    total = elementwise(10) + gemm(8, 8, 8, "float16")
    assert (total.unit, total.dtype, total.name) == ("matrix", "float16", "elementwise + gemm")


def test_adding_something_else_is_a_type_error():
    with pytest.raises(TypeError):
        elementwise(10) + 1


def test_fusing_two_elementwise_calls_drops_the_intermediate_twice():
    n = 1000
    one = fused(elementwise(n, 2), elementwise(n, 1))         # c = a + b, then d = relu(c)
    assert (one.flops, one.nbytes, one.written, one.launches) == (2 * n, 3 * 4 * n, 4 * n, 1)


def test_fusing_never_adds_traffic_and_never_loses_arithmetic():
    parts = [elementwise(100, 2), elementwise(100, 1), layernorm(10, 10)]
    assert fused(*parts).nbytes < sum(parts).nbytes and fused(*parts).flops == sum(parts).flops


def test_works_that_form_no_chain_are_refused():
    for parts in ((elementwise(1000, 0), elementwise(1, 1)), (elementwise(1000, 1), elementwise(8, 1))):
        with pytest.raises(ValueError, match="do not form a chain"):
            fused(*parts)


def test_a_chain_works_in_place_only_where_its_first_part_does():
    relu = elementwise(4096, 1, in_place=True)
    assert fused(gemm(64, 64, 64), relu).rewritten == 0 and fused(relu, relu).rewritten == relu.written


def test_the_flops_of_both_units_are_kept_apart():
    total = gemm(8, 8, 8) + elementwise(10) + elementwise(10)
    assert (total.unit, total.on("matrix"), total.on("vector"), total.flops) == ("matrix", 1024, 20, 1044)


@pytest.mark.parametrize("field", ["flops", "nbytes", "written", "launches"])
@pytest.mark.parametrize("bad", [-1, float("nan"), float("inf"), "many", None])
def test_a_count_that_cannot_be_is_refused_by_name(field, bad):
    with pytest.raises(ValueError, match=f"{field} is"):
        Work(**{"flops": 1, "nbytes": 1, field: bad})


def test_more_written_than_moved_is_refused():
    with pytest.raises(ValueError, match="written must lie between"):
        Work(1, nbytes=8, written=16)


def test_unknown_unit_and_dtype_are_refused():
    with pytest.raises(ValueError, match="unit is 'tensor'"):
        Work(1, 1, unit="tensor")
    with pytest.raises(ValueError, match="did you mean 'float32'"):
        Work(1, 1, dtype="float23")


def test_work_is_frozen_and_reads_in_one_line():
    work = gemm(1024, 2048, 512, "bfloat16")
    assert repr(work) == "gemm: 2.15 GFLOP, 7.34 MB, 293 FLOP/B"
    with pytest.raises(dataclasses.FrozenInstanceError):
        work.flops = 0
