"""Every mechanism of the registry through Python: the engine's own definition, and gradients by differences."""

import numpy as np
import pytest
from helpers import SHAPE, arrays, mechanism_cases, usual_options

import fovea
from fovea import _fovea


def ready(info, options):
    """A mechanism with weights, those that are learned moved away from where they start."""
    mechanism = fovea.Mechanism(info.name)
    width = options["input"].shape[-1] if "input" in options else 0
    mechanism.init(heads=SHAPE[2], d_k=SHAPE[3], width=width, max_length=SHAPE[1], dtype=np.float64)
    rng = np.random.default_rng(3)
    for name in mechanism.weights.trained:
        start = mechanism.weights[name]
        mechanism.weights[name] = start + 0.2 * rng.standard_normal(start.shape)
    return mechanism


@pytest.mark.parametrize("info", mechanism_cases())
def test_forward_is_the_definition(info, rng):
    q, k, v = arrays(rng)
    options = usual_options(info, rng)
    mechanism = ready(info, options)
    expected = _fovea.reference(q, k, v, mechanism._engine, {**options, "weights": list(mechanism.weights.values())})
    np.testing.assert_allclose(fovea.attention(q, k, v, mechanism, **options), expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("info", mechanism_cases())
def test_gradients_are_differences(info, rng):
    q, k, v, grad = arrays(rng, count=4)
    options = usual_options(info, rng)
    mechanism = ready(info, options)
    found = fovea.attention_backward(grad, q, k, v, mechanism, **options)
    named = {"q": q, "k": k, "v": v, **({"input": options["input"]} if "input" in options else {})}

    def value():
        return float(np.sum(grad * fovea.attention(q, k, v, mechanism, **options)))

    step = 1e-5
    pairs = [(array, getattr(found, name)) for name, array in named.items()]
    pairs += [(mechanism.weights[name], found.weights[name]) for name in sorted(mechanism.weights.trained)]
    if mechanism._engine.stops_gradient:
        pairs = [pairs[0]]  # the others leave out, by definition, what flows through a memory
    agreeing = checked = 0
    for array, gradient in pairs:
        assert gradient.shape == array.shape and gradient.dtype == array.dtype
        for place in rng.choice(array.size, size=min(4, array.size), replace=False):
            at = np.unravel_index(place, array.shape)
            before = array[at]
            array[at] = before + step
            above = value()
            array[at] = before - step
            below = value()
            array[at] = before
            checked += 1
            agreeing += abs((above - below) / (2 * step) - gradient[at]) < 1e-4 * (1 + abs(gradient[at]))
    # A mechanism that chooses keys by comparing numbers may jump inside one of the steps.
    assert agreeing >= checked - (1 if mechanism._engine.chooses else 0)


@pytest.mark.parametrize("info", mechanism_cases())
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_narrower_types_are_close(info, dtype, rng):
    q, k, v = arrays(rng)
    options = usual_options(info, rng)
    mechanism = ready(info, options)
    rounded = [x.astype(dtype) for x in (q, k, v)]
    if mechanism._engine.chooses:
        q, k, v = (x.astype(np.float64) for x in rounded)  # the same choices
    narrow = {**options, **({"input": options["input"].astype(dtype)} if "input" in options else {})}
    out = fovea.attention(*rounded, mechanism, **narrow)
    assert out.dtype == dtype and out.shape == SHAPE
    expected = fovea.attention(q, k, v, mechanism, **options)
    tolerance = {np.float32: 1e-3, np.float16: 5e-2}[dtype]
    assert np.abs(out - expected).max() <= tolerance * max(1.0, np.abs(expected).max())


@pytest.mark.parametrize("info", mechanism_cases())
def test_a_name_is_enough(info, rng):
    q, k, v = arrays(rng, dtype=np.float32)
    options = usual_options(info, rng, np.float32)
    out = fovea.attention(q, k, v, info.name, **options)
    assert out.shape == SHAPE and out.dtype == np.float32 and np.isfinite(out).all()
    np.testing.assert_array_equal(out, fovea.attention(q, k, v, info.name, **options))
