"""JAX's arrays on a card."""

import jax
import numpy as np

import fovea


def test_in_and_out():
    rng = np.random.default_rng(1)
    host = [rng.standard_normal((1, 100, 4, 32)).astype(np.float32) for _ in range(3)]
    q, k, v = (jax.device_put(x, jax.devices("gpu")[0]) for x in host)
    for name in ("softmax", "performer"):
        out = fovea.attention(q, k, v, name)
        assert isinstance(out, jax.Array) and out.devices() == q.devices()
        np.testing.assert_allclose(np.asarray(out), fovea.attention(*host, name), atol=2e-5)
