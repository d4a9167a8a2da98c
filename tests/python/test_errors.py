"""Bad input: exceptions of the right type, with the engine's words."""

import numpy as np
import pytest
import torch
from helpers import arrays

import fovea
import fovea.torch


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


def test_lengths_are_whole_numbers(rng):
    q, k, v = arrays(rng)
    for bad in ([3.7, 2], [13.0, 2.0], np.array([3.7, 2.0]), [True, False], [[13, 2]], "ab", torch.tensor([3.7, 2.0])):
        refuse(TypeError, "lengths cannot be", q, k, v, lengths=bad)
    refuse(TypeError, "cu_seqlens cannot be", q[:1], k[:1], v[:1], cu_seqlens=[0.0, 13.0])
    refuse(ValueError, "lengths has numbers beyond 32 bits", q, k, v, lengths=np.array([2**32 + 3, 2]))
    tensors = [torch.from_numpy(x) for x in (q, k, v)]
    for bad in ([3.7, 2], torch.tensor([3.7, 2.0])):
        refuse(TypeError, "lengths cannot be", *tensors, lengths=bad)
        refuse(TypeError, "lengths cannot be", tensors[0].clone().requires_grad_(), *tensors[1:], lengths=bad)
    with pytest.raises(TypeError, match="lengths cannot be"):
        fovea.Model("norm", vocabulary=8, classes=2)(np.array([[1, 2, 3]]), lengths=[2.5])


def test_numbers_that_are_none(rng):
    q, k, v = arrays(rng)
    refuse(TypeError, "window cannot be 2.5", q, k, v, window=2.5)
    refuse(TypeError, "window cannot be True", q, k, v, window=True)
    refuse(TypeError, r"window cannot be \(1, 2, 3\)", q, k, v, window=(1, 2, 3))
    refuse(TypeError, "seed cannot be 1.5", q, k, v, dropout_p=0.1, seed=1.5)
    refuse(TypeError, "rotary cannot be 100", q, k, v, rotary=100)
    refuse(TypeError, "causal cannot be 'yes'", q, k, v, causal="yes")


def test_one_framework_in_a_call(rng):
    q, k, v = arrays(rng)
    refuse(TypeError, r"q is a torch.Tensor, k a numpy.ndarray[\s\S]*torch.as_tensor\(k\)", torch.from_numpy(q), k, v)
    refuse(TypeError, r"v is a torch.Tensor, q a numpy.ndarray[\s\S]*torch.as_tensor\(q\)", q, k, torch.from_numpy(v))
    refuse(TypeError, "bias is a torch.Tensor, q a numpy.ndarray", q, k, v, bias=torch.zeros(13, 13))
    drawn = fovea.Mechanism("performer").init(heads=4, d_k=8, dtype=np.float64).weights
    refuse(TypeError, "weights is a torch.Tensor, q a numpy.ndarray", q, k, v, "performer",
           weights=[torch.from_numpy(w) for w in drawn.values()])
    with pytest.raises(TypeError, match="k is a torch.Tensor, q a numpy.ndarray"):
        fovea.attention_backward(q, q, torch.from_numpy(k), v)
    keep = rng.random((13, 13)) < 0.8
    tensors = [torch.from_numpy(x).requires_grad_() for x in (q, k, v)]
    np.testing.assert_allclose(fovea.attention(*tensors, mask=keep).detach().numpy(), fovea.attention(q, k, v, mask=keep),
                               atol=1e-12)
    layer = fovea.torch.Attention("softmax")
    np.testing.assert_allclose(layer(*tensors, mask=keep).detach().numpy(), fovea.attention(q, k, v, mask=keep), atol=1e-12)
    with pytest.raises(TypeError, match="q must be a torch.Tensor, not a numpy.ndarray"):
        layer(q, k, v)
    bias = rng.standard_normal((13, 13))
    np.testing.assert_allclose(fovea.attention(*tensors, bias=bias).detach().numpy(), fovea.attention(q, k, v, bias=bias),
                               atol=1e-12)


def test_options_of_layers_are_known():
    for make in (lambda **o: fovea.torch.Attention("softmax", **o), lambda **o: fovea.torch.MultiheadAttention(16, 4, **o),
                 lambda **o: fovea.torch.TransNormerBlock(16, 4, **o)):
        with pytest.raises(TypeError, match=r'no option or parameter "casual"[\s\S]*causal'):
            make(casual=True)
    layer = fovea.torch.Attention("performer", heads=2, head_dim=8, features=16, causal=True)
    assert layer.directions.shape == (16, 8) and "features=16" in repr(layer)
    x = torch.randn(1, 6, 2, 8)
    assert layer(x, x, x).shape == x.shape
    mixed = fovea.torch.MultiheadAttention(16, 4, batch_first=True)
    x = torch.randn(1, 6, 16)
    with pytest.raises(NotImplementedError, match="need_weights=False"):
        mixed(x, x, x, need_weights=True)
