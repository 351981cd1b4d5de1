"""The six workloads: each does what its Work says, both of its fixes do the same task, and the names tell nothing."""

import random

import numpy as np
import pytest

from roofline_kit import mysteries
from roofline_kit.device import device
from roofline_kit.mysteries import KINDS, MAKERS, RIGHT, Mystery, bound_of, dial, mystery
from roofline_kit.referee import passes
from roofline_kit.work import Work

CPU = device("cpu")
every_number = pytest.mark.parametrize("number", range(1, 7))


@pytest.fixture(autouse=True)
def short_arrays(monkeypatch):
    monkeypatch.setattr(mysteries, "past_the_caches", lambda device: 2**16)


@every_number
def test_the_right_fix_is_one_of_two_and_the_list_is_in_no_telling_order(number):
    found = mystery(number, device=CPU)
    assert len(found.fixes) == 2 and list(found.fixes) == sorted(found.fixes)
    assert RIGHT[bound_of(number)] in found.fixes


@every_number
def test_it_does_not_tell_what_it_is_before_it_is_asked(number):
    found = mystery(number, device=CPU)
    assert f"{bound_of(number)}-bound" not in repr(found) and f"{bound_of(number)}-bound" in found.reveal()
    assert repr(found).startswith(f"mystery {number}: ")


@every_number
def test_it_and_its_fixes_run(number):
    found = mystery(number, seed=3, device=CPU)
    for call in (found.call, *found.fixes.values()):
        call()


@pytest.mark.parametrize("seed", range(5))
def test_each_of_the_four_bounds_is_there_at_any_seed(seed):
    assert sorted(bound_of(number, seed) for number in range(1, 7)) == sorted(KINDS)


def test_a_seed_gives_the_same_six_again_and_another_one_another_order():
    orders = [[bound_of(number, seed) for number in range(1, 7)] for seed in (1, 1, 2, 3, 4)]
    assert orders[0] == orders[1] and len(set(map(tuple, orders))) > 1
    assert mystery(2, seed=5, device=CPU).work == mystery(2, seed=5, device=CPU).work


@pytest.mark.parametrize("number", [0, 7, 1.0, "1", [1], True, None])
def test_there_are_six(number):
    with pytest.raises(ValueError, match="choose 1 to 6"):
        mystery(number)


@pytest.mark.parametrize("seed", [None, "a", 1.5, True, [1]])
def test_a_seed_is_a_whole_number(seed):
    with pytest.raises(ValueError, match="seed is .* a whole number"):
        mystery(1, seed=seed)


def test_numbers_of_numpy_will_do():
    assert mystery(np.int64(2), np.int32(5), CPU).work == mystery(2, 5, CPU).work


@pytest.mark.parametrize("fix", ["magic", None, ["fewer bytes"]])
def test_a_fix_that_is_not_there_is_named_with_those_that_are(fix):
    with pytest.raises(ValueError, match="has no fix .*: choose 'fewer"):
        mystery(1, device=CPU).gain(fix)


@pytest.mark.parametrize("turns", [2, 4, 6, 8])
@pytest.mark.parametrize("n", [1, 255, 257, 1000])
def test_the_dial_does_so_many_multiply_adds_with_every_number(turns, n):
    x = CPU.random(n, dtype="float64", seed=1)
    before = x.copy()
    dial(CPU)(x, turns)
    for _ in range(turns):
        before = -before + 0.1
    np.testing.assert_allclose(x, before, rtol=1e-12)


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__.strip("_"))
def test_a_place_left_or_right_of_any_cpu_s_ridge_goes_with_its_kind(make):
    work = make(CPU, random.Random(1))[1]
    kind = KINDS[MAKERS.index(make)]
    assert work.intensity > 30 if kind == "compute" else work.intensity <= 1


def test_the_many_calls_are_counted_as_the_referee_counts_them():
    work = MAKERS[2](CPU, random.Random(1))[1]
    rows = [CPU.random(work.flops // work.launches) for _ in range(3)]
    seen = passes(lambda a, b, out: np.add(a, b, out=out), *rows)
    assert (work.nbytes, work.flops) == (work.launches * seen.nbytes, work.launches * seen.flops)


def test_a_gain_is_the_ratio_of_the_shortest_times(monkeypatch):
    took = {"old": iter([4.0, 9.0] * 50), "new": iter([1.0, 2.0] * 50)}
    monkeypatch.setattr(mysteries, "_seconds", lambda call, count: next(took[call]))
    monkeypatch.setattr(mysteries, "_repeats", lambda call: 1)
    assert Mystery(1, "old", Work(1, 1), {"fewer bytes": "new"}, "memory", "").gain("fewer bytes") == 4.0


@pytest.mark.parametrize("index", [2, 3], ids=["latency", "host"])
def test_the_right_fix_gains_and_the_wrong_one_hardly_does(index):
    call, work, fixes, what = MAKERS[index](CPU, random.Random(1))
    found = Mystery(1, call, work, fixes, KINDS[index], what)
    right = found.gain(RIGHT[KINDS[index]])
    wrong = found.gain(next(name for name in fixes if name != RIGHT[KINDS[index]]))
    assert right > 2 * wrong


def test_the_tiny_model_and_its_fused_form_give_the_same_numbers():
    call, _, fixes, _ = MAKERS[4](CPU, random.Random(1))
    fused = fixes["fewer calls"]
    fused()
    out = next(cell.cell_contents for name, cell in zip(fused.__code__.co_freevars, fused.__closure__) if name == "out")
    np.testing.assert_allclose(out, call(), rtol=1e-4, atol=1e-4)


def test_the_loop_of_python_and_its_array_form_give_the_same_number():
    call, _, fixes, _ = MAKERS[3](CPU, random.Random(1))
    assert fixes["less Python"]() == pytest.approx(call())
    assert fixes["fewer bytes"]() == pytest.approx(call(), rel=1e-5)
