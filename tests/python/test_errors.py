"""Bad input: exceptions of the right type, with the engine's words."""

import numpy as np
import pytest
from helpers import arrays

import fovea


def refuse(exception, words, *args, **kwargs):
    with pytest.raises(exception, match=words):
        fovea.attention(*args, **kwargs)


def test_wrong_types(rng):
    q, k, v = arrays(rng)
    refuse(TypeError, "q must be an array .* not list", [[1.0]], k, v)
    refuse(TypeError, "v must be an array .* not str", q, k, "v")
    refuse(ValueError, "k is f32, q is f64", q, k.astype(np.float32), v)
    refuse(TypeError, "a dtype that fovea does not know", q.astype(np.complex128), k, v)
    refuse(ValueError, "floating dtype", q.astype(np.int64), k.astype(np.int64), v.astype(np.int64))
    refuse(TypeError, "mechanism must be a name", q, k, v, 3)
    refuse(TypeError, "window cannot be", q, k, v, window=("a", "b"))
    refuse(TypeError, "scale cannot be 'large'", q, k, v, scale="large")
    refuse(ValueError, "mask must be u8", q, k, v, mask=np.ones((13, 13)))


def test_wrong_shapes(rng):
    q, k, v = arrays(rng)
    refuse(ValueError, "q must have 4 axes", q[0], k, v)
    refuse(ValueError, "k has width 7, q has 8", q, k[..., :7], v)
    refuse(ValueError, "v has length 12", q, k, v[:, :12])
    refuse(ValueError, "batch", q, k[:1], v[:1])
    refuse(ValueError, "axes", np.ones((1,) * 9), k, v)
    refuse(ValueError, "bias has shape", q, k, v, bias=np.ones((5, 5)))
    refuse(ValueError, "layout", q, k, v, layout="nbhd")
    refuse(ValueError, "cu_seqlens|offsets|sequence", q[:1], k[:1], v[:1], cu_seqlens=[0, 99])


def test_wrong_names(rng):
    q, k, v = arrays(rng)
    refuse(ValueError, r'unknown attention "sofmax"[\s\S]*softmax', q, k, v, "sofmax")
    refuse(TypeError, r'has no option or parameter "blok"[\s\S]*block', q, k, v, "diag", blok=3)
    refuse(TypeError, r'has no option or parameter "casual"[\s\S]*causal', q, k, v, casual=True)
    refuse(TypeError, 'has no option or parameter "xyz"$', q, k, v, xyz=True)
    refuse(ValueError, "must be between", q, k, v, "diag", block=-3)
    refuse(TypeError, "has no option or parameter", q, k, v, fovea.Mechanism("diag"), blok=3)
    refuse(TypeError, "given when it is made", q, k, v, fovea.Mechanism("diag"), block=3)


def test_empty_cells_of_the_support_matrix(rng):
    q, k, v = arrays(rng)
    refuse(NotImplementedError, r'"nystrom" has no causal form[\s\S]*fovea list --with causal', q, k, v, "nystrom", causal=True)
    refuse(NotImplementedError, "no log-sum-exp", q, k, v, "linear", return_lse=True)


def test_gradients_must_fit(rng):
    q, k, v = arrays(rng)
    with pytest.raises(ValueError, match="grad is f64"):
        fovea.attention_backward(q[:, :3], q, k, v)
    with pytest.raises(ValueError, match="grad is f32"):
        fovea.attention_backward(q.astype(np.float32), q, k, v)


def test_too_much_memory():
    huge = np.broadcast_to(np.zeros((1, 1, 1, 8), np.float32), (1 << 20, 1 << 20, 1, 8))
    with pytest.raises((MemoryError, ValueError)):
        fovea.attention(huge, huge, huge, "linear")


def test_broken_files(tmp_path):
    path = tmp_path / "weights.safetensors"
    with pytest.raises(OSError):
        fovea.Mechanism.load(path)
    for content in (b"", b"\xff" * 100, b"\x10\0\0\0\0\0\0\0{\"a\": 1"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="weights.safetensors"):
            fovea.Mechanism.load(path)
