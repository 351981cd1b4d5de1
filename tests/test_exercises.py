import importlib
import time
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from conftest import CPU

from roofline_kit import exercises
from roofline_kit.exercises import draw, find
from roofline_kit.ops import dot, gemm
from roofline_kit.work import Work

checks = importlib.import_module("roofline_kit.check")  # rk.check is the function


def told(name, answer, **known):
    """The state and the text of the verdict on an answer."""
    return checks.judge(find(name), answer, 1, known)


def moved(m, n, k, itemsize):
    return itemsize * (m * k + k * n + m * n)


def never(m, n, k, itemsize):
    while True:
        pass


# every sensible form of a right answer


@pytest.mark.parametrize(
    "answer",
    [
        292.571,
        292.57,
        np.float32(292.571),
        np.array(292.571),
        np.array([292.571]),
        Fraction(292571, 1000),
        gemm(1024, 2048, 512, "bfloat16"),
        lambda: 292.571,
    ],
)
def test_a_number_is_accepted_in_any_sensible_form(answer):
    assert told("99.2", answer).state == "right"


@pytest.mark.parametrize(
    "answer",
    [
        moved,
        lambda m, n, k, b: np.int64(moved(m, n, k, b)),
        lambda *sizes: moved(*sizes),
        lambda m, n, k, b=2: Work(0, moved(m, n, k, b)),
        lambda itemsize, k, n, m: float(moved(m, n, k, itemsize)),
    ],
)
def test_a_function_is_accepted_in_any_sensible_form(answer):
    assert told("99.1", answer).state == "right"


def test_a_work_is_compared_by_its_flops_and_bytes():
    assert told("99.7", lambda n: dot(n, "float32")).state == "right"
    assert told("99.7", lambda n: [2 * n, 8 * n]).state == "right"
    assert told("99.7", lambda n: (2 * n, 16 * n)).text.startswith(
        "flops right; nbytes: twice the right value"
    )


# nothing yet


@pytest.mark.parametrize("answer", [None, ..., lambda m, n, k, b: None, lambda m, n, k, b: ..., (..., 3)])
def test_a_stub_is_not_answered_yet(answer):
    name = "99.7" if isinstance(answer, tuple) else "99.1"
    assert told(name, answer if callable(answer) or name == "99.1" else lambda n: answer).state == "blank"


def test_a_function_that_raises_not_implemented_is_not_answered_yet():
    def later(m, n, k, itemsize):
        raise NotImplementedError

    assert told("99.1", later).state == "blank"


# the wrong form


@pytest.mark.parametrize(
    ("answer", "part"),
    [
        (8, "a function of (m, n, k, itemsize) is asked, not 8"),
        (moved(1, 2, 3, 4), "without parentheses"),
        (lambda m, n: m * n, "takes (m, n), but it is called with (m, n, k, itemsize)"),
        (lambda m, n, k, b: m / 0, "raised ZeroDivisionError: division by zero for m="),
        (lambda m, n, k, b: float("nan"), "NaN"),
        (lambda m, n, k, b: "12", "not the text '12'"),
        (lambda m, n, k, b: np.ones(3), "an array of shape (3,)"),
        (lambda m, n, k, b: [1], "a list"),
        (lambda m, n, k, b: True, "not True"),
        (lambda m, n, k, b: 1j, "not 1j"),
        (lambda m, n, k, b: float("inf"), "infinite"),
        (lambda m, n, k, b: 10**400, "infinite"),
    ],
)
def test_a_wrong_form_is_told_what_came_instead(answer, part):
    verdict = told("99.1", answer)
    assert verdict.state == "wrong"
    assert part in verdict.text


def test_a_function_where_a_value_is_asked_is_told_to_be_called():
    assert "call it" in told("99.2", moved).text


@pytest.mark.parametrize("function", [never, lambda m, n, k, itemsize: time.sleep(100)])
def test_an_endless_function_is_stopped(monkeypatch, function):
    monkeypatch.setattr(exercises, "PATIENCE", 0.2)
    assert "does your function ever end" in told("99.1", function).text


def test_the_interrupt_of_the_learner_is_their_own():
    def stopped(m, n, k, itemsize):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        told("99.1", stopped)


# what is off


@pytest.mark.parametrize(
    ("answer", "part"),
    [
        (lambda *s: 2 * moved(*s), "twice the right value"),
        (lambda *s: moved(*s) / 2, "half the right value"),
        (lambda *s: 3 * moved(*s), "too large by a factor of 3"),
        (lambda *s: moved(*s) / 1000, "too small by a factor of 1,000: a unit prefix?"),
        (lambda *s: moved(*s) / 1.073741824, "a binary prefix"),
        (lambda *s: -moved(*s), "of the wrong sign"),
        (lambda *s: 0, "always zero"),
        (lambda m, n, k, b: n * moved(m, n, k, b), "yours is n times the right value"),
        (lambda m, n, k, b: moved(m, n, k, b) / k, "yours is 1/k times the right value"),
        (lambda m, n, k, b: 2 * n * moved(m, n, k, b) / b, "yours is 2*n/itemsize times"),
        (lambda m, n, k, b: moved(m, n, k, b) * m**0.5, "sqrt(m) times"),
        (
            lambda m, n, k, b: b * (m * k + k * n + 2 * m * n),
            "too large by a term that grows with m*n*itemsize",
        ),
        (lambda m, n, k, b: b * (k * n + m * n), "short by a term that grows with m*k*itemsize"),
        (lambda m, n, k, b: moved(m, n, k, b) + 512, "too large by 512, whatever the inputs"),
        (lambda m, n, k, b: moved(m, n, k, b) * (1 + 0.001 * (m % 7)), "right to within 0.6 %"),
        (lambda m, n, k, b: moved(m, n, k, b) * (2 + m % 2), "2 to 3 times the right value, depending on"),
    ],
)
def test_a_wrong_function_is_told_by_which_factor_or_term_it_is_off(answer, part):
    verdict = told("99.1", answer)
    assert verdict.state == "wrong"
    assert part in verdict.text


def test_a_wrong_answer_names_its_inputs_and_the_seed_that_brings_them_back():
    first, again = (told("99.1", lambda *s: 2 * moved(*s)).text for _ in range(2))
    assert "seed 1" in first and "m=" in first
    assert first == again
    assert first != checks.judge(find("99.1"), lambda *s: 2 * moved(*s), 2, {}).text


def test_a_wrong_value_is_told_the_factor_but_not_the_answer():
    text = told("99.2", 100).text
    assert "too small by a factor of 2.926" in text
    assert "292" not in text
    assert "right to within 0.9 %" in told("99.2", 290).text


def test_random_inputs_are_asymmetric_so_that_a_swapped_pair_shows():
    sizes = draw({"m": (3, 6), "n": (3, 6), "k": (3, 6)}, np.random.default_rng(0))
    assert len(set(sizes.values())) == 3


# predictions and labels


def test_a_prediction_is_right_within_its_factor_and_says_what_to_measure():
    right = 12 * 2**24 / CPU.bandwidth
    assert told("99.3", 1.9 * right, roof=CPU).text == "right. Bytes decide. Now time it."
    assert "too large by a factor of 3; within 2 times is right" in told("99.3", 3 * right, roof=CPU).text


def test_of_two_right_numbers_either_is_right_and_what_lies_off_both_is_held_against_the_nearer():
    either = replace(find("99.3"), reference=lambda roof: {10.0, 40.0}, factor=1.3, slips={})

    def judged(answer):
        return checks.judge(either, answer, 7, {"roof": CPU})

    assert [judged(answer).state for answer in (9, 12, 35, 50)] == ["right"] * 4
    assert [judged(answer).state for answer in (20.0, -1)] == ["wrong"] * 2
    assert "twice the right value" in judged(80.0).text


@pytest.mark.parametrize("answer", ["memory", "Memory-bound", " MEMORY bound "])
def test_a_label_is_read_whatever_its_spelling(answer):
    assert told("99.6", answer, roof=CPU).state == "right"


def test_an_unknown_label_is_offered_the_nearest_one():
    assert "did you mean 'memory'" in told("99.6", "memroy", roof=CPU).text
    assert "a label in quotes is asked, not 3" in told("99.6", 3, roof=CPU).text


def test_an_order_is_told_how_much_of_it_is_right():
    assert (
        "1 of 3 are right; the first that is not: 'gemm' in place 2"
        in told("99.8", ["axpy", "gemm", "dot"]).text
    )
    assert "3 labels in a row" in told("99.8", ["axpy"]).text
