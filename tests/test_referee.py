"""The referees themselves: what they count, what they see, what they refuse to guess."""

import math

import numpy as np
import pytest

from roofline_kit.referee import count, passes

X = np.arange(12, dtype="float32").reshape(3, 4)


def test_each_operation_counts_one_flop():
    assert count(lambda a: (a[0] + a[1]) * a[2] / a[0] - 1, a=3).flops == 4


def test_functions_and_comparisons_count_one_and_signs_none():
    assert count(lambda a: (-a[0]).exp().sqrt(), a=1).flops == 2
    assert count(lambda a: max(a[0], a[1]), a=2).flops == 1


def test_an_element_read_twice_is_moved_once_and_its_reuse_is_seen():
    seen = count(lambda a: a[0] * a[0], a=1)
    assert seen.nbytes == 4 and seen.accesses["a"] == (2, 0, 1)


def test_an_element_written_first_is_never_fetched():
    def chain(t):
        t[0] = 1.0
        t[0] = t[0] + 1
    assert (count(chain, t=1).nbytes, count(chain, t=1).work.written) == (4, 4)


def test_in_place_elements_are_moved_twice_and_known_as_rewritten():
    def double(y):
        y[0] = 2 * y[0]
    seen = count(double, y=1)
    assert (seen.nbytes, seen.work.rewritten) == (8, 4)


def test_reading_outside_the_array_names_place_and_shape():
    with pytest.raises(IndexError, match=r"\[3\] is outside an array of shape \(3,\)"):
        count(lambda a: a[3], a=3)


def test_math_functions_would_go_unseen_and_are_refused():
    with pytest.raises(TypeError, match="use x.exp"):
        count(lambda a: math.exp(a[0]), a=1)


def test_loops_run_with_the_values_of_ordinary_numbers():
    def check(a):
        a[0] = 3.0
        assert (a[0] * 2).value == 6.0 and a[0] > 2 and not a[0] < 2
    count(check, a=1)


def test_a_numpy_call_reads_its_inputs_and_writes_its_result():
    seen = passes(lambda a, b: a + b, X, X.copy())
    assert (seen.flops, seen.nbytes, seen.work.written) == (12, 144, 48)


def test_the_same_array_twice_is_read_once():
    assert passes(lambda a: a * a, X).nbytes == 96


def test_an_expression_of_three_calls_is_three_passes():
    seen = passes(lambda a: np.sqrt(a * 2 + 1), X)
    assert [step[0] for step in seen.steps] == ["multiply", "add", "sqrt"] and seen.nbytes == 3 * 96


def test_out_and_in_place_calls_are_known_as_rewritten():
    def double(a):
        np.multiply(a, 2, out=a)
        a += 1
    seen = passes(double, X.copy())
    assert (seen.nbytes, seen.work.rewritten) == (192, 96)


def test_views_and_slices_move_nothing_until_used():
    assert passes(lambda a: a.reshape(4, 3).T[1:], X).nbytes == 0
    assert passes(lambda a: a[:, 0] + 1, X).nbytes == 24


def test_a_product_counts_two_flops_a_pair():
    assert passes(lambda a, b: a @ b, X, X.T.copy()).flops == 2 * 3 * 3 * 4
    assert passes(np.matmul, X, X.T.copy()).flops == 2 * 3 * 3 * 4


def test_reductions_by_function_and_by_method_count_alike():
    for call in (lambda a: np.sum(a, axis=1), lambda a: a.sum(axis=1), lambda a: np.add.reduce(a, axis=1)):
        assert (passes(call, X).flops, passes(call, X).nbytes) == (12, 60)


G = np.ones((3, 4), dtype="float32")


@pytest.mark.parametrize(("code", "flops", "read", "written"), [
    (lambda a: a + G, 12, 96, 48),                           # an array from outside is read as well
    (lambda a: np.broadcast_to(a[0], (3, 4)) + a, 12, 16 + 48, 48),
    (lambda a: a[[0, 2]], 0, 32, 32),                        # fancy indexing copies
    (lambda a: a[a > 5], 12, 48 + 24 + 12, 12 + 24),         # 6 elements, and a mask of one byte each
    (lambda a: a.T.reshape(-1), 0, 48, 48),
    (lambda a: a.reshape(4, 3)[1:].T, 0, 0, 0),
    (lambda a: a == G, 12, 96, 12),
    (lambda a: np.modf(a)[0] * 2, 24 + 12, 96, 96 + 48),
    (lambda a: a[0] @ a[1], 8, 32, 4), (lambda a: np.dot(a, a.T), 72, 96, 36),
    (lambda a: np.where(a > 1, a, 0), 24, 48 + 60, 12 + 48),
    (lambda a: np.concatenate([a, a + 1]), 12, 48 + 96, 48 + 96),
    (lambda a: a[:0] + 1, 0, 0, 0),
])
def test_the_count_is_that_of_a_hand(code, flops, read, written):
    seen = passes(code, X)
    assert (seen.flops, seen.nbytes - seen.work.written, seen.work.written) == (flops, read, written)


def test_a_slice_changed_in_place_is_one_pass():
    def change(a):
        a[1:] += 1
    seen = passes(change, X.copy())
    assert (seen.nbytes, seen.work.rewritten, seen.work.launches) == (64, 32, 1)


def test_a_branch_on_a_traced_value_goes_the_true_way():
    def halve(a):
        while a.sum() > 1:                                   # 12, 6, 3, 1.5, 0.75
            a = a * 0.5
    assert [name for name, *_ in passes(halve, G).steps].count("multiply") == 4


def test_a_dtype_that_has_no_rate_is_refused_before_the_code_runs():
    with pytest.raises(ValueError, match="unknown dtype 'int64'"):
        passes(lambda a: 1 / 0, np.arange(3))


def test_iterating_over_a_vector_counts_and_over_rows_is_refused():
    assert count(lambda a: sum(a), a=3).flops == 3
    with pytest.raises(TypeError, match="index each element"):
        count(lambda A: [row for row in A], A=(2, 3))


@pytest.mark.parametrize("index", [0.5, True, "0"])
def test_an_index_that_is_no_whole_number_is_refused(index):
    with pytest.raises(IndexError, match="whole numbers"):
        count(lambda a: a[index], a=2)


def test_a_shape_may_be_a_list_and_not_be_empty():
    assert count(lambda A: A[1, 2], A=[2, 3]).nbytes == 4
    with pytest.raises(ValueError, match="at least one size"):
        count(lambda A: None, A=())


def test_numbers_compare_by_value():
    def ends(a):
        while a[0] != 0:
            a[0] = 0.0
    assert count(ends, a=1).flops == 2


def test_the_results_are_numpys_own():
    seen = {}
    passes(lambda a: seen.update(y=np.exp(a - a.max())._array), X)
    assert np.array_equal(seen["y"], np.exp(X - X.max()))


@pytest.mark.parametrize("call", [np.var, np.linalg.norm, np.array, lambda a: a.std(),
                                  lambda a: np.add.at(a, [0], 1)])
def test_calls_with_hidden_passes_are_refused(call):
    with pytest.raises((TypeError, AttributeError)):
        passes(call, X)


def test_the_count_reads_as_a_table():
    text = repr(passes(lambda a: a + 1, X))
    assert "add" in text and text.splitlines()[-1].split() == ["in", "all", "12", "48", "48"]
