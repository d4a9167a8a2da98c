"""CuPy's arrays, on its current stream."""

import cupy
import numpy as np

import fovea


def test_in_and_out():
    rng = np.random.default_rng(1)
    host = [rng.standard_normal((1, 100, 4, 32)).astype(np.float32) for _ in range(3)]
    for stream in (cupy.cuda.Stream.null, cupy.cuda.Stream(non_blocking=True)):
        with stream:
            q, k, v = (cupy.asarray(x) for x in host)
            for name in ("softmax", "performer"):
                out = fovea.attention(q, k, v, name)
                assert isinstance(out, cupy.ndarray)
                np.testing.assert_allclose(out.get(), fovea.attention(*host, name), atol=2e-5)
