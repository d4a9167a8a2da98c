"""Bad input: exceptions of the right type, with the engine's words."""

import errno
import re

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
    refuse(ValueError, "^q is i64: it must be a floating dtype", q.astype(np.int64), k.astype(np.int64), v.astype(np.int64))
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
    refuse(NotImplementedError, r'"nystrom" has no causal form[\s\S]*fovea.list_mechanisms\("causal"\)', q, k, v, "nystrom", causal=True)
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


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_biases_that_are_no_numbers(value, rng):
    q, k, v = arrays(rng)
    bias = np.zeros((13, 13))
    bias[3, 4] = value
    refuse(ValueError, "bias holds NaN or", q, k, v, bias=bias)
    with pytest.raises(ValueError, match="bias holds NaN or"):
        fovea.attention(torch.from_numpy(q).requires_grad_(), torch.from_numpy(k), torch.from_numpy(v), bias=torch.from_numpy(bias))


@pytest.fixture(scope="module")
def model():
    return fovea.Model("norm", vocabulary=16, classes=10, width=16, heads=2, inner=16)


@pytest.fixture(scope="module")
def writer():
    return fovea.Model("gpt", vocabulary=256, width=16, heads=2, inner=16)


@pytest.fixture(scope="module")
def data():
    return fovea.listops(train=8, validation=2, test=2)


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "input.txt").write_text("to be or not to be\n" * 50)
    (tmp_path / "runs").mkdir()
    return tmp_path


def told(exception, call):
    """The lines of what a call says: at most three, without the words of the command line or of any library."""
    with pytest.raises(exception) as raised:
        call()
    text = str(raised.value)
    assert len(text.splitlines()) <= 3, text
    assert not re.search(r"--\w|incompatible function|serializ|_fovea|_engine|nanobind|nlohmann|json\.exception|has no attribute", text), text
    assert type(raised.value) is exception, text
    return text


def test_arguments_have_their_names_in_python(model, writer, data, files):
    assert told(TypeError, lambda: fovea.train(model, data, stps=3, progress=False)) == (
        'unknown argument "stps"\n  at      fovea.train(stps=...)\n  try     steps=3')
    assert told(ValueError, lambda: fovea.train(model, data, schedule="cosin", progress=False)) == (
        'unknown schedule "cosin"\n  at      fovea.train(schedule=...)\n  try     schedule="cosine"')
    assert told(ValueError, lambda: fovea.Model("norm", vocabulary=8, classes=2, width="wide")).endswith(
        "\n  at      fovea.Model(width=...)\n  try     width=64   (size of a token's vector)")
    assert "try     width=48" in told(TypeError, lambda: fovea.Model("norm", vocabulary=8, classes=2, wdth=48))
    assert "try     length=3" in told(TypeError, lambda: fovea.load_data("input.txt", lenght=3))
    assert "try     max_tokens=3" in told(TypeError, lambda: writer.generate("x", max_token=3))
    assert "at      fovea.generate(max_tokens=...)" in told(ValueError, lambda: writer.generate("x", max_tokens=0))
    assert 'try     tokenizer="bytes"' in told(FileNotFoundError, lambda: fovea.load_data("input.txt", tokenizer="byts"))
    assert 'text_column="NAME"' in told(ValueError, lambda: fovea.load_data("input.txt", kind="labels"))
    assert 'try     split="test"' in told(ValueError, lambda: model.evaluate(data, "tst"))
    assert "try     lengths=..." in told(TypeError, lambda: model(np.array([[1]]), lenghts=[1]))
    assert told(TypeError, lambda: fovea.Mechanism("diag", blok=4)) == (
        'attention "diag" has no parameter "blok"\n  at      attention\n  try     block=...')
    q = np.ones((1, 4, 2, 8), np.float32)
    assert '\n  try     score="dot"' in told(ValueError, lambda: fovea.attention(q, q, q, score="dto"))
    assert "\n  try     block=64" in told(ValueError, lambda: fovea.attention(q, q, q, "diag", block="x"))
    assert 'align="top-left"' in told(ValueError, lambda: fovea.attention(q, q, q, causal=True, align="top"))
    assert 'fovea.list_mechanisms("causal")' in told(NotImplementedError, lambda: fovea.attention(q, q, q, "nystrom", causal=True))


def test_what_is_not_there_is_a_file_that_is_not_found(model, data, files):
    for call in (lambda: fovea.load("run"), lambda: fovea.load_data("inptu.txt"), lambda: fovea.Tokenizer("nowhere"),
                 lambda: fovea.import_model("nowhere"), lambda: fovea.Mechanism.load("nowhere"),
                 lambda: fovea.train(model, data, steps=1, progress=False, resume="nowhere"),
                 lambda: fovea.load_data("input.txt", tokenizer="nowhere/tok"), lambda: fovea.load("runs")):
        assert "no such f" in told(FileNotFoundError, call)
    assert told(FileNotFoundError, lambda: fovea.load_data("inptu.txt")).endswith('try     "input.txt"?')
    for call in (lambda: fovea.load_data("nothing/like/it"), lambda: fovea.import_model("nothing")):
        assert 'try     os.listdir("' in told(FileNotFoundError, call)
    assert told(FileNotFoundError, lambda: fovea.load("rusn")).endswith('try     fovea.load("runs")')
    with pytest.raises(OSError) as raised:
        fovea.load_data("inptu.txt")
    assert raised.value.errno == errno.ENOENT
    assert "found a file" in told(NotADirectoryError, lambda: fovea.load("input.txt"))


def test_no_text_of_a_library(model, writer, data, files):
    (files / "bad.json").write_text('{"version": ')
    assert told(ValueError, lambda: fovea.Tokenizer("bad.json")) == (
        "not JSON: it ends too early\n  at      bad.json, line 1, column 12")
    wrong = object()
    for call in (lambda: fovea.Model("norm", vocabulary=8, classes=2, width=wrong),
                 lambda: fovea.Model("norm", vocabulary=8, classes=2, seed="x"), lambda: fovea.Model(3), lambda: fovea.Model(data=3),
                 lambda: fovea.train(model, "data"), lambda: fovea.train("model", data), lambda: fovea.train(model, data, lr=wrong),
                 lambda: fovea.train(model, data, resume=3), lambda: model.evaluate("data"), lambda: model.evaluate(data, batch="x"),
                 lambda: model.embed([1]), lambda: writer.generate(None), lambda: fovea.listops(train="x"), lambda: fovea.load(3),
                 lambda: fovea.load_data(3), lambda: fovea.load_data("input.txt", max_length="x"), lambda: fovea.import_model(3),
                 lambda: fovea.export_model("model", "out"), lambda: fovea.export_model(model, 3), lambda: model.save(3),
                 lambda: fovea.set_num_threads("x"), lambda: model(np.array([[1.5]])), lambda: model("hello"),
                 lambda: model([[1, 2], [3]]), lambda: fovea.Tokenizer(3), lambda: fovea.Tokenizer.bytes().decode(["x"]),
                 lambda: fovea.Tokenizer.bytes().encode("x", max_length="y"), lambda: fovea.Tokenizer.words(["a"], "x"),
                 lambda: fovea.Dataset(train=[5], vocabulary=4, classes=2), lambda: fovea.inspect(model, 3), lambda: fovea.inspect("m", "t"),
                 lambda: fovea.Dataset(train=[([1], "x")], vocabulary=4, classes=2)):
        told(TypeError, call)
    for call in (lambda: fovea.Model("norm", vocabulary=8, classes=2, seed=-1), lambda: fovea.listops(train=-1),
                 lambda: model.evaluate(data, batch=0), lambda: fovea.set_num_threads(-1)):
        told(ValueError, call)
    numbers = fovea.Model("norm", vocabulary=np.int64(8), classes=2, width=np.int32(16), heads=2, dropout=np.float32(0.5))
    assert (numbers.config["width"], numbers.config["dropout"]) == (16, 0.5)
