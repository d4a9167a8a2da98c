"""fovea.jax: jit, grad and vmap."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import arrays

import fovea
import fovea.jax


def plain(q, k, v, bias=0.0):
    scores = jnp.einsum("bihd,bjhd->bhij", q, k) * q.shape[-1] ** -0.5 + bias
    return jnp.einsum("bhij,bjhd->bihd", jax.nn.softmax(scores), v)


def test_softmax_is_jax_s(rng):
    q, k, v = (jnp.asarray(x) for x in arrays(rng, dtype=np.float32))
    bias = jnp.asarray(rng.standard_normal((13, 13)), jnp.float32)
    np.testing.assert_allclose(jax.jit(fovea.jax.attention)(q, k, v), plain(q, k, v), atol=1e-5)

    def ours(q, k, v, bias):
        return jnp.sin(fovea.jax.attention(q, k, v, bias=bias)).sum()

    def theirs(q, k, v, bias):
        return jnp.sin(plain(q, k, v, bias)).sum()

    for a, b in zip(jax.jit(jax.grad(ours, argnums=(0, 1, 2, 3)))(q, k, v, bias), jax.grad(theirs, argnums=(0, 1, 2, 3))(q, k, v, bias)):
        np.testing.assert_allclose(a, b, atol=1e-4)


def test_weights_and_masks(rng):
    q, k, v = (jnp.asarray(x) for x in arrays(rng, dtype=np.float32))
    mechanism = fovea.Mechanism("linformer").init(heads=4, d_k=8, max_length=13)
    weights = [jnp.asarray(w) for w in mechanism.weights.values()]
    grads = jax.grad(lambda w: fovea.jax.attention(q, k, v, mechanism, weights=w).sum())(weights)
    expected = fovea.attention_backward(np.ones(q.shape, np.float32), *(np.asarray(x) for x in (q, k, v)), mechanism)
    for a, b in zip(grads, expected.weights.values()):
        np.testing.assert_allclose(a, b, atol=1e-5)
    keep = np.tri(13, dtype=bool)
    np.testing.assert_allclose(fovea.jax.attention(q, k, v, mask=keep), fovea.jax.attention(q, k, v, causal=True), atol=1e-6)
    np.testing.assert_allclose(fovea.jax.attention(q, k, v, mask=fovea.Pattern(keep)),
                               fovea.jax.attention(q, k, v, causal=True), atol=1e-6)


def test_vmap_and_types(rng):
    q, k, v = (jnp.asarray(rng.standard_normal((3, 2, 5, 2, 4)), jnp.float32) for _ in range(3))
    mapped = jax.vmap(lambda *x: fovea.jax.attention(*x, "norm", causal=True))(q, k, v)
    for i in range(3):
        np.testing.assert_allclose(mapped[i], fovea.jax.attention(q[i], k[i], v[i], "norm", causal=True), atol=1e-6)
    narrow = fovea.jax.attention(*(x[0].astype(jnp.bfloat16) for x in (q, k, v)))
    assert narrow.dtype == jnp.bfloat16


def test_arrays_of_jax_go_in_and_out(rng):
    q, k, v = (jnp.asarray(x) for x in arrays(rng, dtype=np.float32))
    out = fovea.attention(q, k, v)
    assert isinstance(out, jax.Array)
    np.testing.assert_allclose(out, plain(q, k, v), atol=1e-5)


def test_refusals(rng):
    q, k, v = arrays(rng, dtype=np.float32)
    with pytest.raises(NotImplementedError, match="output only"):
        fovea.jax.attention(q, k, v, return_lse=True)


def test_names_are_checked_before_the_callback(rng):
    q, k, v = (jnp.asarray(x) for x in arrays(rng, dtype=np.float32))
    for call in (fovea.jax.attention, jax.jit(fovea.jax.attention, static_argnums=3)):
        with pytest.raises(ValueError, match=r'^unknown attention "sofmax"[\s\S]*softmax') as error:
            call(q, k, v, "sofmax")
        assert len(str(error.value).splitlines()) == 3
    with pytest.raises(TypeError, match='no option or parameter "casual"'):
        fovea.jax.attention(q, k, v, casual=True)


def test_weights_by_name(rng):
    q, k, v = (jnp.asarray(x) for x in arrays(rng, dtype=np.float32))
    mechanism = fovea.Mechanism("linformer").init(heads=4, d_k=8, max_length=13)
    given = {name: jnp.asarray(mechanism.weights[name]) for name in reversed(list(mechanism.weights))}
    np.testing.assert_allclose(fovea.jax.attention(q, k, v, "linformer", weights=given), fovea.jax.attention(q, k, v, mechanism),
                               atol=1e-6)
    with pytest.raises(ValueError, match='no weight "other"'):
        fovea.jax.attention(q, k, v, "linformer", weights={"other": q})
