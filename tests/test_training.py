"""A training step: its gradients against differences, its counts against formulas, its kernels swapped."""

import numpy as np
import pytest

from roofline_kit import TrainingStep, array_code, device

CPU = device("cpu")


@pytest.fixture(scope="module")
def step():
    made = TrainingStep(24, 128, heads=4, dtype="float32", device="cpu")
    made.run()
    return made


def loss(step):
    step.run(phase="forward")
    return float((step.y * step.pull).sum())


def slopes(step, flat, places):
    """How the loss changes with these numbers, by changing them."""
    for i in places:
        before, losses = flat[i], []
        for change in (1e-6, -1e-6):
            flat[i] = before + change
            losses.append(loss(step))
        flat[i] = before
        yield (losses[0] - losses[1]) / 2e-6


@pytest.mark.parametrize(("tokens", "hidden", "heads"), [(5, 12, 3), (1, 8, 1), (7, 8, 4)])
def test_the_gradients_are_those_of_small_changes(tokens, hidden, heads):
    step = TrainingStep(tokens, hidden, heads, dtype="float64", device="cpu")
    step.run(phase="forward")
    step.run(phase="backward")
    for flat, pulls in ((step.weights, step.gradients), (step.x.reshape(-1), step.x_pull.reshape(-1))):
        places = [*range(0, flat.size, 11), flat.size - 1]
        assert list(slopes(step, flat, places)) == pytest.approx(pulls[places].tolist(), rel=1e-5, abs=1e-6)


def test_the_products_have_the_flops_of_the_formula(step):
    T, D = step.x.shape
    assert step.work("products").flops == 6 * 12 * D * D * T * (1 + T / (6 * D))
    assert step.work("products", "backward").flops == 2 * step.work("products", "forward").flops


def test_the_rest_moves_58_numbers_a_token_and_width_and_five_a_score(step):
    T, D = step.x.shape
    rest = sum(step.work(kind).nbytes for kind in ("norms", "softmax", "others"))
    assert rest == 4 * (58 * T * D + 5 * step.heads * T * T + 10 * D)      # gains, shifts, their gradients
    assert step.work("softmax").flops == 9 * step.heads * T * T


def test_sixteen_numbers_a_token_and_width_are_kept_and_one_a_score(step):
    T, D = step.x.shape
    assert step.kept() == 4 * T * (16 * D + step.heads * T)


def test_the_update_moves_28_bytes_a_weight_in_mixed_precision_and_32_in_float32(step):
    half = TrainingStep(4, 8, dtype="float16", device="cpu")
    assert half.work("update").nbytes == 28 * half.weights.size
    assert step.work("update").nbytes == 32 * step.weights.size
    assert step.work("update").flops == 12 * step.weights.size


def test_kinds_and_phases_make_up_the_step(step):
    kinds = sum(step.work(kind).nbytes for kind in ("products", "norms", "softmax", "others", "update"))
    phases = sum(step.work(phase=phase).nbytes for phase in ("forward", "backward", "update"))
    assert kinds == phases == step.work().nbytes


def test_fused_kernels_can_take_the_place_of_array_code(step):
    fused = TrainingStep(24, 128, heads=4, dtype="float32", device="cpu", norm=CPU.kernel("layernorm"),
                         softmax=CPU.kernel("softmax"))
    for name in ("x", "weights", "pull"):
        getattr(fused, name)[...] = getattr(step, name)
    for one in (step, fused):
        one.run(phase="forward")
        one.run(phase="backward")
    assert np.allclose(fused.y, step.y, atol=1e-4)
    assert np.allclose(fused.gradients, step.gradients, atol=1e-3)


def test_many_steps_leave_the_numbers_of_order_one(step):
    before = step.weights.copy()
    for _ in range(50):
        step.run()
    assert np.isfinite(step.y).all() and np.isfinite(step.weights).all()
    assert abs(step.weights - before).max() < 1e-3 and (step.weights != before).any()


def test_adam_is_the_formula():
    g, w, m = (CPU.random(50, dtype="float64") for _ in range(3))
    v = CPU.random(50, dtype="float64") ** 2
    arrays = [a.copy() for a in (w, m, v)]
    array_code.adam(np, g, *arrays, np.empty(50), np.empty(50))
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    for found, right in zip(arrays, (w - array_code.RATE * m / (np.sqrt(v) + 1e-8), m, v)):
        assert np.allclose(found, right, rtol=1e-12)


@pytest.mark.parametrize(("wrong", "told"), [
    (lambda: TrainingStep(8, 10, heads=3, device="cpu"), "do not split into 3 heads"),
    (lambda: TrainingStep(0, 8, device="cpu"), "tokens is 0"),
    (lambda: TrainingStep(4, 8, device="cpu").work("norm"), "there is no 'norm' in a step"),
    (lambda: TrainingStep(4, 8, device="cpu").run(phase="back"), "choose one of forward, backward, update")])
def test_what_cannot_be_is_one_sentence(wrong, told):
    with pytest.raises(ValueError, match=told):
        wrong()
