"""Are the steps of small models and their weights right on all threads, in a full block, and by the byte?"""

import numpy as np
import pytest
from cases import TOLERANCE, Case
from cases import matvec as matvec_cases
from cases import steps as step_cases

from roofline_kit.cuda import cuda
from roofline_kit.device import device
from roofline_kit.kernels import Launcher, launched
from roofline_kit.kernels.steps import ALONE

CPU = device("cpu")
CASES = {(case.kernel, case.shape): case for case in step_cases.CASES + matvec_cases.CASES}
ODD = [("mlp", (61, 40, 7)), ("gru", (33, 20)), *((name, (5, 130)) for name, *_ in matvec_cases.KERNELS)]
AGAIN = {("mlp", (61, 40, 7)): 0, ("gru", (33, 20)): 4 * (20 * (33 + 20 + 1) - (33 + 20)),
         ("matvec", (16, 256)): 15 * 1024, ("matvec_bfloat16", (16, 256)): 15 * 1024,
         ("matvec_int8", (16, 256)): 15 * 1024, ("matvec_int4", (16, 256)): 15 * 1024 + 16 * 7 * 16}


@pytest.mark.parametrize("case", [Case("mlp", (511, 1030, 515), step_cases.mlp_arrays, step_cases.mlp),
                                  Case("gru", (301, 299), step_cases.gru_arrays, step_cases.gru)], ids=str)
def test_all_threads_give_the_numbers_of_one(case):
    arguments = case.arrays(np.random.default_rng(7), *case.shape)
    assert max(array.size for array in arguments) > ALONE
    assert case.error(CPU.kernel(case.kernel)) < TOLERANCE["float32"]


@pytest.mark.parametrize("far", [30, 300, 30_000])
def test_a_gate_far_from_zero_is_open_or_shut(far):
    one, none, out = np.ones(1, "float32"), np.zeros((3, 1), "float32"), np.full(1, np.nan, "float32")
    CPU.kernel("gru")(one, one, none, none, np.array([[far, -far, far], [0, 0, 0]], "float32"), out)
    assert out == 1                                      # z is 0 and n is 1


def test_an_mlp_too_wide_for_a_block_is_refused_with_what_to_do():
    arguments = step_cases.mlp_arrays(np.random.default_rng(7), 4, 12_290, 1)
    with pytest.raises(ValueError, match="launch `matvec` for each layer"):
        launched("mlp", Launcher(np, None))(*arguments)


def traced(case):
    """The arguments of a case and the Trace of its one launch."""
    arguments, traces = case.arrays(np.random.default_rng(7), *case.shape), []
    launcher = Launcher(np, lambda source, name: lambda *call: traces.append(cuda(source, name, "cpu").trace(*call)))
    launched(case.kernel, launcher)(*arguments)
    (trace,) = traces
    return arguments, trace


@pytest.mark.parametrize("kernel, shape", ODD)
def test_a_kernel_reads_every_byte_of_its_inputs_and_writes_its_output_once(kernel, shape):
    (*inputs, out), trace = traced(CASES[kernel, shape])
    assert trace.unique_loaded == sum(array.nbytes for array in inputs)
    assert trace.stored == trace.unique_stored == out.nbytes
    assert not trace.races


@pytest.mark.parametrize("kernel, shape", AGAIN)
def test_only_x_the_state_and_the_scale_of_a_group_are_read_again(kernel, shape):
    _, trace = traced(CASES[kernel, shape])
    assert trace.loaded - trace.unique_loaded == AGAIN[kernel, shape]
