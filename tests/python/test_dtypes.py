"""Narrow types of NumPy and JAX, and those that are refused."""

import threading

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from helpers import SHAPE, arrays

import fovea
import fovea.jax

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def narrow(rng, count=3):
    return [x.astype(BFLOAT16) for x in arrays(rng, dtype=np.float32, count=count)]


def test_numpy_s_bfloat16_goes_in_and_out(rng):
    q, k, v = narrow(rng)
    out, lse = fovea.attention(q, k, v, causal=True, return_lse=True)
    assert isinstance(out, np.ndarray) and out.dtype == BFLOAT16 and lse.dtype == np.float32
    wide = [x.astype(np.float32) for x in (q, k, v)]
    expected, expected_lse = fovea.attention(*wide, causal=True, return_lse=True)
    np.testing.assert_allclose(out.astype(np.float32), expected, atol=2e-2)
    np.testing.assert_allclose(lse, expected_lse, atol=1e-3)


def test_numpy_s_bfloat16_has_gradients(rng):
    q, k, v, grad = narrow(rng, 4)
    found = fovea.attention_backward(grad, q, k, v, "norm", causal=True)
    expected = fovea.attention_backward(*(x.astype(np.float32) for x in (grad, q, k, v)), "norm", causal=True)
    for a, b in zip(found[:3], expected[:3]):
        assert a.dtype == BFLOAT16
        np.testing.assert_allclose(a.astype(np.float32), b, atol=0.03 * np.abs(b).max())


def test_strides_of_bfloat16_are_honoured(rng):
    q, k, v = narrow(rng)
    turned = [np.ascontiguousarray(x.transpose(0, 2, 1, 3)).transpose(0, 2, 1, 3) for x in (q, k, v)]
    assert (fovea.attention(*turned) == fovea.attention(q, k, v)).all()
    assert (fovea.attention(q[:, ::2], k, v) == fovea.attention(q[:, ::2].copy(), k, v)).all()


def test_jax_s_bfloat16(rng):
    """fovea.jax computes it in single precision and rounds."""
    narrowed = narrow(rng)
    wide = [x.astype(np.float32) for x in narrowed]
    q, k, v = (jnp.asarray(x) for x in narrowed)
    out, back = jax.vjp(fovea.jax.attention, q, k, v)
    assert out.dtype == jnp.bfloat16
    np.testing.assert_array_equal(np.asarray(out), fovea.attention(*wide).astype(BFLOAT16))
    expected = fovea.attention_backward(np.ones(SHAPE, np.float32), *wide)
    for a, b in zip(back(jnp.ones(SHAPE, jnp.bfloat16)), expected[:3]):
        assert a.dtype == jnp.bfloat16
        np.testing.assert_array_equal(np.asarray(a), b.astype(BFLOAT16))


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2", "float6_e2m3fn", "int4"])
def test_other_types_of_ml_dtypes_are_refused(dtype, rng):
    q, k, v = (x.astype(getattr(ml_dtypes, dtype)) for x in arrays(rng, dtype=np.float32))
    with pytest.raises(TypeError, match=f"q has the dtype {dtype}, which fovea does not know; it computes in float32"):
        fovea.attention(q, k, v)


@pytest.mark.parametrize("dtype", [np.longdouble, ">f4", np.uint16, np.object_, "U3"])
def test_other_types_of_numpy_are_refused(dtype, rng):
    q, k, v = (np.ones((1, 3, 1, 2), dtype) for _ in range(3))
    with pytest.raises(TypeError, match="does not know"):
        fovea.attention(q, k, v)


@pytest.mark.parametrize("dtype", [np.float32, BFLOAT16])
def test_arrays_may_be_let_go_while_in_use(dtype, rng):
    q, k, v = (rng.standard_normal((1, 1024, 4, 32)).astype(dtype) for _ in range(3))
    expected = fovea.attention(q, k, v)
    given, found = [[x.copy() for x in (q, k, v)] for _ in range(2)], []

    def work(mine):
        found.append(fovea.attention(mine.pop(0), mine.pop(0), mine.pop(0)))  # nobody else holds them from here on

    threads = [threading.Thread(target=work, args=(mine,)) for mine in given]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        np.full(1 << 16, np.nan)  # takes what was given back too early
    assert len(found) == 2 and all((out == expected).all() for out in found)
