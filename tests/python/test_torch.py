"""fovea.torch: gradients of every mechanism, PyTorch's own checks of operators, compile, modules."""

import gc
import weakref

import numpy as np
import pytest
import torch
from helpers import SHAPE, WIDTH, mechanism_cases
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

import fovea
import fovea.torch
from fovea import _fovea


def tensors(shape=SHAPE, dtype=torch.float64, count=3, grad=True):
    torch.manual_seed(5)
    return [torch.randn(shape, dtype=dtype, requires_grad=grad) for _ in range(count)]


def usual(info, dtype=torch.float64):
    options = {} if "bidirectional" in info.features else {"causal": True}
    if info.needs_input:
        options["input"] = torch.randn(SHAPE[0], SHAPE[1], WIDTH, dtype=dtype, requires_grad=True)
    return options


def weights_of(info, dtype=torch.float64):
    mechanism = fovea.Mechanism(info.name)
    mechanism.init(heads=SHAPE[2], d_k=SHAPE[3], width=WIDTH if info.needs_input else 0, max_length=SHAPE[1],
                   dtype=np.float64 if dtype == torch.float64 else np.float32)
    return [torch.from_numpy(w.copy()).requires_grad_(name in mechanism.weights.trained)
            for name, w in mechanism.weights.items()]


@pytest.mark.parametrize("info", mechanism_cases())
def test_gradients_are_the_engine_s(info):
    q, k, v = tensors()
    options, weights = usual(info), weights_of(info)
    out = fovea.torch.attention(q, k, v, info.name, weights=weights, **options)
    grad = torch.randn_like(out)
    out.backward(grad)
    arrays = {name: x.detach().numpy() if isinstance(x, torch.Tensor) else x for name, x in options.items()}
    plain = [x.detach().numpy() for x in (q, k, v)]
    given = [w.detach().numpy() for w in weights]
    np.testing.assert_array_equal(out.detach().numpy(), fovea.attention(*plain, info.name, weights=given, **arrays))
    expected = fovea.attention_backward(grad.numpy(), *plain, info.name, weights=given, **arrays)
    for x, other in zip((q, k, v), expected[:3]):
        np.testing.assert_allclose(x.grad.numpy(), other, rtol=1e-12, atol=1e-12)
    if info.needs_input:
        np.testing.assert_allclose(options["input"].grad.numpy(), expected.input, rtol=1e-12, atol=1e-12)
    for w, other in zip(weights, (expected.weights or {}).values()):
        if w.requires_grad:
            np.testing.assert_allclose(w.grad.numpy(), other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["softmax", "norm", "rela", "performer"])
def test_gradcheck(name):
    q, k, v = tensors(shape=(1, 6, 2, 4))
    assert torch.autograd.gradcheck(lambda *x: fovea.torch.attention(*x, name, causal=True), (q, k, v))


def test_softmax_is_torch_s():
    q, k, v = tensors()
    bias = torch.randn(SHAPE[0], 1, SHAPE[1], SHAPE[1], dtype=torch.float64, requires_grad=True)
    ours = fovea.attention(q, k, v, bias=bias)
    turned = [x.transpose(1, 2) for x in (q, k, v)]
    theirs = torch.nn.functional.scaled_dot_product_attention(*turned, attn_mask=bias).transpose(1, 2)
    torch.testing.assert_close(ours, theirs)
    grad = torch.randn_like(ours)
    for a, b in zip(torch.autograd.grad(ours, (q, k, v, bias), grad), torch.autograd.grad(theirs, (q, k, v, bias), grad)):
        torch.testing.assert_close(a, b)
    first = fovea.attention(*turned, layout="bhnd", causal=True)
    second = torch.nn.functional.scaled_dot_product_attention(*turned, is_causal=True)
    torch.testing.assert_close(first, second)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_types(dtype):
    q, k, v = tensors(dtype=dtype)
    out = fovea.attention(q, k, v, bias=torch.zeros(13, 13, dtype=dtype, requires_grad=True))
    out.sum().backward()
    assert out.dtype == q.grad.dtype == dtype
    wide = fovea.attention(*(x.detach().double() for x in (q, k, v)))
    assert (out - wide).abs().max() < {torch.float32: 1e-5, torch.float16: 2e-2, torch.bfloat16: 5e-2}[dtype]


def call_text(mechanism, names=(), records=True, **options):
    text, _ = fovea.torch._attention.split(mechanism, options, torch.device("cpu"))
    return text + "\t" + ",".join(names) + "\t" + ("records" if records else "")


def test_a_call_is_told_in_one_line():
    """Inductor writes what operators are called with into comments, as it is."""
    text = call_text("performer", ["seed", "weights"], causal=True)
    assert text.count("\t") == 2 and text.replace("\t", "").isprintable()


@pytest.mark.parametrize("mechanism,options", [("softmax", {}), ("softmax", {"causal": True, "return_lse": True}),
                                               ("norm", {"causal": True, "final_state": True}),
                                               ("diag", {"block": 4, "layout": "bhnd"})])
def test_opcheck(mechanism, options):
    q, k, v = tensors(shape=(1, 8, 8, 4))
    torch.library.opcheck(torch.ops.fovea.attention, (q, k, v, [], call_text(mechanism, **options)))
    bias = torch.randn(8, 8, dtype=torch.float64, requires_grad=True)
    if mechanism == "softmax":
        torch.library.opcheck(torch.ops.fovea.attention, (q, k, v, [bias], call_text(mechanism, ["bias"], **options)))


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])  # the default one writes C++ and calls g++
def test_compile(backend):
    q, k, v = tensors(dtype=torch.float32)
    layer = fovea.torch.Attention("performer", heads=4, head_dim=8, causal=True)

    def work(q, k, v):
        return layer(q * 2, k, v).sin() + fovea.torch.attention(q, k, v, "norm", causal=True)

    compiled = torch.compile(work, fullgraph=True, backend=backend)
    torch.testing.assert_close(compiled(q, k, v), work(q, k, v))
    grad = torch.randn(SHAPE)
    for a, b in zip(torch.autograd.grad(compiled(q, k, v), (q, k, v), grad), torch.autograd.grad(work(q, k, v), (q, k, v), grad)):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("name", ["softmax", "norm", "linear"])
def test_writing_to_results_is_noticed(name):
    q, k, v = tensors()
    out = fovea.torch.attention(q, k, v, name, causal=True)
    out.mul_(3)  # backward reads it
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()
    bent = q * 1
    out = fovea.torch.attention(bent, k, v, name, causal=True)
    bent.mul_(3)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_export():
    layer = fovea.torch.Attention("diag", block=4)
    q, k, v = tensors(dtype=torch.float32, grad=False)
    program = torch.export.export(layer, (q, k, v))
    torch.testing.assert_close(program.module()(q, k, v), layer(q, k, v))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("layout", ["bnhd", "bhnd"])
def test_calls_without_gradient_are_those_of_the_operator(dtype, layout):
    q = torch.randn(2, 5, 3, 8).to(dtype)
    for mechanism in ("softmax", "norm", "performer"):
        with torch.no_grad():
            direct = fovea.torch.attention(q, q, q, mechanism, layout=layout)
        recorded = fovea.torch.attention(q.clone().requires_grad_(), q, q, mechanism, layout=layout)
        assert torch.equal(direct, recorded.detach())
        assert direct.stride() == recorded.stride()


def test_modes_and_transforms_see_the_operator():
    q = torch.randn(1, 6, 2, 8)
    with FakeTensorMode() as mode:
        fake = mode.from_tensor(q)
        assert isinstance(fovea.torch.attention(fake, fake, fake), FakeTensor)
    for tracing in ("real", "fake"):
        graph = make_fx(lambda x: fovea.torch.attention(x, x, x), tracing_mode=tracing)(q)
        assert any(node.target is torch.ops.fovea.attention.default for node in graph.graph.nodes)
        torch.testing.assert_close(graph(2 * q), fovea.torch.attention(2 * q, 2 * q, 2 * q))


def test_second_derivatives_are_refused():
    q, k, v = tensors()
    (first,) = torch.autograd.grad(fovea.attention(q, k, v).sum(), q, create_graph=True)
    with pytest.raises(NotImplementedError, match="no second derivatives"):
        first.sum().backward()


def test_a_graph_may_be_kept():
    q, k, v = tensors()
    out = fovea.attention(q, k, v).square().sum()
    first = torch.autograd.grad(out, q, retain_graph=True)[0]
    torch.testing.assert_close(torch.autograd.grad(out, q)[0], first)


def test_calls_are_forgotten_with_their_graph():
    q, k, v = tensors()
    out = fovea.attention(q, k, v)
    ticket = next(t for t in out.grad_fn.saved_tensors if t.dtype == torch.uint8)
    place = ticket.data_ptr()
    assert _fovea.find_ticket(place) is not None
    del ticket, out
    gc.collect()
    assert _fovea.find_ticket(place) is None


def test_autocast():
    q, k, v = tensors(dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = fovea.attention(q, k, v)
    assert out.dtype == torch.bfloat16
    out.float().sum().backward()
    assert q.grad.dtype == torch.float32


def test_dropout_follows_torch_s_generator():
    q, k, v = tensors()
    torch.manual_seed(1)
    one = fovea.attention(q, k, v, dropout_p=0.5)
    other = fovea.attention(q, k, v, dropout_p=0.5)
    torch.manual_seed(1)
    torch.testing.assert_close(fovea.attention(q, k, v, dropout_p=0.5), one)
    assert (one - other).abs().max() > 0.01


def test_patterns():
    q, k, v = tensors()
    keep = torch.rand(13, 13) < 0.7
    pattern = fovea.Pattern(keep.numpy())
    torch.testing.assert_close(fovea.attention(q, k, v, mask=pattern), fovea.attention(q, k, v, mask=keep))
    fovea.attention(q, k, v, mask=pattern).sum().backward()
    alive = weakref.ref(pattern)
    assert alive() is pattern


def test_bad_input():
    q, k, v = tensors()
    with pytest.raises(TypeError, match="meta; this build"):
        fovea.attention(q.to("meta"), k, v)
    with pytest.raises(ValueError, match="k has width"):
        fovea.attention(q, k[..., :3], v)
    with pytest.raises(TypeError, match="no option or parameter"):
        fovea.attention(q, k, v, casual=True)


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("masks", ["none", "padding", "boolean", "additive", "both"])
def test_multihead_attention_is_torch_s(batch_first, masks):
    torch.manual_seed(2)
    theirs = torch.nn.MultiheadAttention(16, 4, batch_first=batch_first, dtype=torch.float64)
    ours = fovea.torch.MultiheadAttention(16, 4, batch_first=batch_first, dtype=torch.float64)
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(3, 7, 16, dtype=torch.float64, requires_grad=True)
    y = torch.randn(3, 5, 16, dtype=torch.float64)
    if not batch_first:
        x, y = (t.detach().transpose(0, 1).contiguous().requires_grad_() for t in (x, y))
    options = {}
    if masks in ("padding", "both"):
        options["key_padding_mask"] = torch.tensor([[0, 0, 0, 0, 0], [0, 0, 0, 1, 1], [0, 1, 0, 1, 0]], dtype=torch.bool)
    if masks in ("boolean", "both"):
        options["attn_mask"] = torch.rand(7, 5) < 0.3
        options["attn_mask"][:, 0] = False
    if masks == "additive":
        options["attn_mask"] = torch.randn(12, 7, 5, dtype=torch.float64)
    a, b = ours(x, y, y, **options)[0], theirs(x, y, y, need_weights=False, **options)[0]
    torch.testing.assert_close(a, b)
    grad = torch.randn_like(a)
    torch.testing.assert_close(torch.autograd.grad(a, x, grad), torch.autograd.grad(b, x, grad))


def test_multihead_attention_with_other_mechanisms():
    x = torch.randn(2, 9, 16)
    padding = torch.tensor([[False] * 9, [False] * 6 + [True] * 3])
    layer = fovea.torch.MultiheadAttention(16, 4, batch_first=True, mechanism="norm")
    out, nothing = layer(x, x, x, key_padding_mask=padding)
    assert nothing is None and out.shape == x.shape
    torch.testing.assert_close(out[1:, :6], layer(x[1:, :6], x[1:, :6], x[1:, :6])[0])
    with pytest.raises(NotImplementedError, match="at the end"):
        layer(x, x, x, key_padding_mask=padding.flip(1))
    with pytest.raises(NotImplementedError, match="adds no keys"):
        fovea.torch.MultiheadAttention(16, 4, add_bias_kv=True)


def test_modules_train():
    torch.manual_seed(0)
    model = torch.nn.Sequential(fovea.torch.TransNormerBlock(16, 2, "diag", block=4), fovea.torch.TransNormerBlock(16, 2))
    x, y = torch.randn(4, 12, 16), torch.randn(4, 12, 16)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = (model(x) - y).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
    assert fovea.torch.TransNormerBlock(16, 2, "linformer", max_length=12).attend.weight_names
    layer = fovea.torch.Attention("linformer", heads=2, head_dim=8, max_length=12)
    assert {name for name, _ in layer.named_parameters()} == set(layer.weight_names)
    assert "linformer" in repr(layer)
