"""Does the page about a model on a chip say what the kit says, as text, as JSON and on the command line?"""

import json
from pathlib import Path

import pytest
from test_main import fails

from roofline_kit.__main__ import main
from roofline_kit.datasheets import datasheet
from roofline_kit.sheet import sheet
from roofline_kit.transformer import Model

LLAMA = str(Path(__file__).with_name("configs") / "llama-3-8b.json")
H100 = datasheet("H100 SXM")


def test_the_numbers_are_those_of_the_model():
    model, data = Model.from_config(LLAMA), sheet(LLAMA, "H100 SXM", context=4096, batch=8).data
    assert data["decode"]["seconds"] == model.breakdown(1, 4096, 8, roof=H100).seconds
    assert data["prefill"]["tokens_per_s"] == 4096 / model.breakdown(4096, roof=H100).seconds
    assert (data["weight_bytes"], data["kv_bytes"]) == (model.weight_bytes(), model.kv_bytes(4096, 8))
    assert (data["max_batch"], data["critical_batch"]) == (model.max_batch(80e9, 4096), model.critical_batch(H100))
    assert sum(row["flops"] for row in data["decode"]["operations"]) == data["decode"]["flops"]


def test_several_chips_share_the_work_and_their_memory_adds_up():
    one, four = (sheet(LLAMA, "H200", batch=8, chips=chips) for chips in (1, 4))
    assert one.data["decode"]["seconds"] == pytest.approx(4 * four.data["decode"]["seconds"])
    assert four.data["memory"] == 4 * 141e9 and four.roof.ridge == one.roof.ridge
    assert "4 x H200 SXM" in repr(four) and "links between chips" in repr(four)


def test_narrow_weights_and_cache_shorten_the_step():
    wide, narrow = (sheet(LLAMA, "H100 SXM", weights=w, kv=kv) for w, kv in (("bfloat16",) * 2, ("int4", "int8")))
    assert 2 < wide.data["decode"]["seconds"] / narrow.data["decode"]["seconds"] < 4      # the head stays in two bytes
    assert narrow.data["max_batch"] > 2 * wide.data["max_batch"]


@pytest.mark.parametrize("context, batch, says", [
    (8192, 16, "59 sequences fit\n"), (8192, 60, "59 sequences fit: fewer than the 60 asked for"),
    (2**20, 1, "the weights do not fit, or no sequence does")])
def test_the_page_says_what_fits(context, batch, says):
    assert says in repr(sheet(LLAMA, "H100 SXM", context, batch))


def test_the_command_prints_the_page(capsys):
    assert main(["sheet", LLAMA, "--chip", "H100 SXM", "--context", "8192", "--batch", "16"]) == 0
    assert capsys.readouterr().out == f"{sheet(LLAMA, 'H100 SXM', 8192, 16)!r}\n"


def test_the_command_prints_json(capsys):
    arguments = ["--chip", "B200", "--context", "512", "--weights", "int4", "--kv", "float8", "--chips", "2", "--json"]
    assert main(["sheet", LLAMA, *arguments]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data == sheet(LLAMA, "B200", 512, 1, "int4", "float8", chips=2).data
    assert data["decode"]["operations"][0]["name"] == "embedding"


@pytest.mark.parametrize("arguments, code, says", [
    ([], 1, "a model and a chip"), ([LLAMA], 1, "a model and a chip"), ([LLAMA, "--chip", "A100"], 1, "several chips"),
    ([LLAMA, "--chip", "H100 SXM", "--context", "0"], 1, "context is 0"), ([__file__, "--chip", "H200"], 1, "no JSON"),
    (["missing.json", "--chip", "H200"], 1, "No such file"),
    ([LLAMA, "--chip", "T4"], 1, "float16"), ([LLAMA, "--chip", "H200", "--chips", "0"], 1, "chips is 0"),
    ([LLAMA, "--chip", "H200", "--batch", "many"], 2, "--batch"), ([LLAMA, "--chip"], 2, "--chip")])
def test_what_cannot_be_answered_is_one_sentence(capsys, arguments, code, says):
    assert says in fails(capsys, code, "sheet", *arguments)


def test_an_unknown_dtype_is_one_sentence_that_offers_another(capsys):
    assert main(["sheet", LLAMA, "--chip", "H200", "--weights", "fp4"]) == 1
    assert capsys.readouterr().err == "roofline_kit: unknown dtype 'fp4': did you mean 'float4' or 'float64'?\n"


def test_a_file_is_for_the_sheet_alone(capsys):
    assert "doctor takes no file" in fails(capsys, 2, "doctor", LLAMA)


def test_a_chip_without_a_model_is_not_taken_for_this_machine(capsys):
    with pytest.raises(SystemExit) as end:
        main(["--chip", "H200"])
    assert end.value.code == 2 and "sheet config.json --chip 'H200'" in capsys.readouterr().err
