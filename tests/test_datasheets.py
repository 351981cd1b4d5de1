"""The table of chips: the article's rows, and every known trap in such tables."""

import pytest

from roofline_kit.datasheets import chips, datasheet, table
from roofline_kit.ops import gemm
from roofline_kit.roofline import Roofline

ARTICLE = gemm(1024, 2048, 512, "bfloat16")
TENSOR_CHIPS = [name for name, row in table().items() if row["bf16"] and row["int8"] and row["fp32"]]


@pytest.mark.parametrize("chip, bound", [("H100 SXM", "memory"), ("A100 80GB SXM", "compute"),
                                         ("A100 40GB SXM", "compute"), ("H200", "compute"), ("B200", "compute")])
def test_the_articles_product_flips_between_chips(chip, bound):
    assert datasheet(chip, "bfloat16").bound(ARTICLE) == bound


def test_the_articles_ridge_points():
    assert datasheet("H100 SXM").ridge == pytest.approx(295, abs=0.5)
    assert datasheet("B200").ridge == pytest.approx(281, abs=0.5)
    assert datasheet("H200").ridge == pytest.approx(206, abs=0.5)


def test_from_a100_to_h100_compute_grows_more_than_bandwidth():
    a100, h100 = datasheet("A100 80GB SXM"), datasheet("H100 SXM")
    assert h100.peak / a100.peak == pytest.approx(3.2, abs=0.05)
    assert h100.bandwidth / 2.0e12 == pytest.approx(1.7, abs=0.05)          # the article's 2.0 TB/s


def test_the_ridge_does_not_always_grow_in_bfloat16_but_does_in_float4():
    assert datasheet("B200").ridge < datasheet("H100 SXM").ridge
    assert datasheet("B200", "float4").ridge == pytest.approx(1125)


def test_rates_are_dense_not_sparse():
    assert len(TENSOR_CHIPS) >= 10
    assert datasheet("H100 SXM").peak == 989.4e12 and datasheet("B200").peak == 2250e12


@pytest.mark.parametrize("chip", TENSOR_CHIPS)
def test_int8_is_twice_16_bit_and_tensor_to_vector_stays_within_its_generation(chip):
    int8, half, vector = (float(table()[chip][key]) for key in ("int8", "bf16", "fp32"))
    assert 1.99 <= int8 / half <= 4.01 and 1.9 <= half / vector <= 30.1
    if not chip.startswith("RTX"):                     # GeForce halves 16-bit rates that accumulate in float32
        assert int8 / half == pytest.approx(2, rel=0.03)


def test_geforce_rates_are_those_that_accumulate_in_float32():
    rates = {chip: datasheet(chip, "float16").peak for chip in ("RTX 3090", "RTX 4090", "RTX 5090")}
    assert rates == {"RTX 3090": 71e12, "RTX 4090": 165.2e12, "RTX 5090": 209.5e12}


def test_h100_has_its_final_figures_not_the_preliminary_ones():
    h100 = datasheet("H100 SXM", "float32")
    assert (datasheet("H100 SXM").peak, h100.peak, h100.bandwidth) == (989.4e12, 67e12, 3350e9)


def test_three_chips_called_a100_have_three_ridge_points():
    ridges = [datasheet(name).ridge for name in ("A100 40GB SXM", "A100 80GB SXM", "A100 80GB PCIe")]
    assert ridges == [pytest.approx(201, abs=0.5), pytest.approx(153, abs=0.5), pytest.approx(161, abs=0.5)]
    with pytest.raises(ValueError, match="'A100' fits several chips.*'A100 40GB SXM' or 'A100 80GB SXM'"):
        datasheet("A100")


def test_links_count_both_directions():
    assert datasheet("H100 SXM").link == 2 * 450e9


def test_h200_has_h100s_arithmetic_and_its_own_bandwidth():
    assert datasheet("H200").peak == datasheet("H100 SXM").peak and datasheet("H200").bandwidth == 4.8e12


@pytest.mark.parametrize("chip, dtype", [("A100 80GB SXM", "float8"), ("V100 SXM2 32GB", "bfloat16"),
                                         ("T4", "bfloat16")])
def test_a_dtype_that_the_chip_lacks_is_refused(chip, dtype):
    with pytest.raises(ValueError, match=f"{chip} has no unit for {dtype}.*it has"):
        datasheet(chip, dtype)


def test_memory_is_in_decimal_gigabytes():
    assert float(table()["A100 80GB SXM"]["memory"]) * 1e9 / 2**30 == pytest.approx(74.5, abs=0.05)


def test_counting_multiply_accumulates_halves_a_ridge():
    operations, pairs = Roofline(92e12, 34e9), Roofline(46e12, 34e9)       # TPU v1: Jouppi et al. 2017
    assert operations.ridge == pytest.approx(2706, abs=1) and pairs.ridge == pytest.approx(1353, abs=1)


def test_every_row_names_its_source_and_marks_what_is_unsourced():
    assert len(chips()) >= 15 and all(row["source"] and row["bandwidth"] and row["year"] for row in table().values())
    assert "fp32" in datasheet("B200").note and datasheet("H100 SXM").note == ""
    for row in table().values():
        assert all(row[cell] for cell in row["unsourced"].split())


def test_every_figure_is_a_positive_number():
    for row in table().values():
        for key, cell in row.items():
            assert key in ("name", "source", "unsourced") or not cell or float(cell) > 0


@pytest.mark.parametrize("wrong, offered", [("H1OO SXM", "H100 SXM"), ("b2000", "B200"), ("", "V100")])
def test_an_unknown_chip_offers_names(wrong, offered):
    with pytest.raises(ValueError, match=f"unknown chip.*{offered}"):
        datasheet(wrong)


def test_an_unknown_dtype_is_refused_before_the_chip():
    with pytest.raises(ValueError, match="did you mean 'bfloat16'"):
        datasheet("H100 SXM", "bf16")
