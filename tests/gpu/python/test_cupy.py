"""CuPy's arrays, on its current stream."""

import gc

import cupy
import numpy as np
import pytest

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


@pytest.mark.parametrize("name", ["softmax", "performer", "norm", "reformer"])
def test_results_outlive_their_streams(name):
    rng = np.random.default_rng(1)
    host = [rng.standard_normal((1, 100, 4, 32)).astype(np.float32) for _ in range(3)]
    expected = fovea.attention(*map(cupy.asarray, host), name).get()
    kept = []
    for _ in range(20):
        with cupy.cuda.Stream(non_blocking=True):
            q, k, v = (cupy.asarray(x) for x in host)
            kept.append(fovea.attention(q, k, v, name))
            kept.extend(fovea.attention_backward(cupy.ones_like(q), q, k, v, name)[:3])
        gc.collect()
    cupy.cuda.Device().synchronize()
    for out in kept[::4]:
        np.testing.assert_allclose(out.get(), expected, atol=1e-6)
    del out
    kept.clear()
    gc.collect()
    fovea.empty_cache()
    np.testing.assert_allclose(fovea.attention(*map(cupy.asarray, host), name).get(), expected, atol=1e-6)


def test_memory_of_results_is_used_again_only_when_nobody_reads_them():
    rng = np.random.default_rng(1)
    q, k, v = (cupy.asarray(rng.standard_normal((1, 1024, 8, 64)).astype(np.float32)) for _ in range(3))
    expected = float(fovea.attention(q, k, v).sum())
    busy = cupy.ones((4096, 4096), cupy.float32)
    sums = []
    for _ in range(20):
        stream = cupy.cuda.Stream(non_blocking=True)
        stream.wait_event(cupy.cuda.get_current_stream().record())
        with stream:
            out = fovea.attention(q, k, v)
            cupy.matmul(busy, busy)
            sums.append(out.sum())  # reads it late; the block is let go at once
            del out
    cupy.cuda.Device().synchronize()
    np.testing.assert_allclose([float(x) for x in sums], expected, atol=1e-3)
