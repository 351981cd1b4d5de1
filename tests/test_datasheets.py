"""The table of chips: the article's rows, and every known trap in such tables."""

from pathlib import Path

import pytest

from roofline_kit import datasheets
from roofline_kit.datasheets import chips, datasheet, sourced, table
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


def test_bandwidth_read_in_binary_terabytes_would_turn_a_verdict():
    h100 = datasheet("H100 SXM")
    binary = Roofline(h100.peak, 3.35 * 2**40)
    assert binary.ridge == pytest.approx(268.6, abs=0.05)
    assert (h100.bound(ARTICLE), binary.bound(ARTICLE)) == ("memory", "compute")


@pytest.mark.parametrize("chip, printed", [("H100 SXM", 1979), ("H200", 1979), ("B200", 4500), ("L40S", 733),
                                           ("H100 PCIe", 1513), ("L4", 242)])
def test_the_rate_that_is_printed_large_is_for_sparse_matrices_and_twice_the_tables(chip, printed):
    assert printed * 1e12 / datasheet(chip).peak == pytest.approx(2, rel=0.02)


def test_a_geforce_that_sums_in_float16_would_have_twice_the_ridge():
    assert 142e12 / datasheet("RTX 3090", "float16").bandwidth == pytest.approx(151.7, abs=0.05)
    assert datasheet("RTX 3090", "float16").ridge == pytest.approx(75.9, abs=0.05)


def test_narrower_numbers_raise_the_ridge_and_the_intensity_alike():
    chip = {dtype: datasheet("B200", dtype).ridge for dtype in ("bfloat16", "float8", "float4")}
    shares = [gemm(1024, 2048, 512, dtype).intensity / ridge for dtype, ridge in chip.items()]
    assert shares == pytest.approx([1.0402] * 3, abs=1e-4)


def test_the_table_says_what_its_rates_are():
    head = Path(datasheets.__file__).with_name("accelerators.csv").read_text().splitlines()[0]
    assert all(word in head for word in ("Dense", "TFLOP/s", "accumulated in FP32", "decimal"))


@pytest.mark.parametrize("cell", ["source", "year", "bandwidth"])
def test_a_rate_without_a_source_is_refused(cell):
    row = table()["H100 SXM"]
    assert sourced(row) is row
    with pytest.raises(ValueError, match=f"the row of H100 SXM has no {cell}"):
        sourced(row | {cell: ""})


def test_a_mark_on_a_figure_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="T4 has no bf16: such a rate is no fact"):
        sourced(table()["T4"] | {"unsourced": "bf16"})


@pytest.mark.parametrize("dtype", [None, "", "fp16", "sparse"])
def test_a_rate_without_a_number_format_is_refused(dtype):
    for ask in (lambda: datasheet("H100 SXM", dtype), lambda: chips(dtype)):
        with pytest.raises(ValueError, match="unknown dtype"):
            ask()


def test_chips_are_listed_by_year_and_only_where_they_have_a_rate():
    assert list(chips().years) == sorted(chips().years) and set(chips()) == set(table())
    assert chips("float4") == ("B200",) and "T4" not in chips("bfloat16", "float8")
    assert {"A100 80GB SXM", "H100 SXM"} <= set(chips("bfloat16", "float8"))


def test_one_dtype_is_shown_with_rates_and_source_and_several_with_ridge_points():
    one = {row[0]: row for row in chips("bfloat16").rows()}
    assert one["chip"] == ("chip", "year", "TB/s", "TFLOP/s", "FLOP/B", "source")
    assert one["H200 SXM"] == ("H200 SXM", "2024", "4.8", "989.4", "206", "NVIDIA H200 datasheet")
    several = {row[0]: row[3:-1] for row in chips().rows()}
    assert several["B200"] == ("4.6?", "9.4?", "141", "281", "281", "562", "562", "1125") and several["T4"][0] == ""


def test_each_line_of_the_table_ends_in_its_source_and_doubt_is_explained():
    lines = repr(chips("float32")).splitlines()
    assert all(line.endswith(table()[name]["source"]) for name, line in zip(chips("float32"), lines[1:]))
    assert lines[-1] == "float32: dense, sums in float32, integers' in int32. ? from secondary text."
    assert "?" not in repr(chips("bfloat16"))
    assert chips("bfloat16")._repr_html_().count("<tr>") == len(chips("bfloat16")) + 1


@pytest.mark.parametrize("driver, chip", [("NVIDIA H200", "H200 SXM"), ("NVIDIA A100-SXM4-40GB", "A100 40GB SXM"),
                                          ("Tesla T4", "T4"), ("NVIDIA GeForce RTX 4090", "RTX 4090")])
def test_a_chip_is_known_by_what_its_driver_calls_it(driver, chip):
    assert datasheet(driver, "float16") == datasheet(chip, "float16")
    named = [row["driver"] for row in table().values() if row["driver"]]
    assert len(named) == len(set(named))


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
            assert key in ("name", "source", "unsourced", "driver") or not cell or float(cell) > 0


@pytest.mark.parametrize("wrong, offered", [("H1OO SXM", "H100 SXM"), ("b2000", "B200"), ("", "V100")])
def test_an_unknown_chip_offers_names(wrong, offered):
    with pytest.raises(ValueError, match=f"unknown chip.*{offered}"):
        datasheet(wrong)


def test_an_unknown_dtype_is_refused_before_the_chip():
    with pytest.raises(ValueError, match="did you mean 'bfloat16'"):
        datasheet("H100 SXM", "bf16")
