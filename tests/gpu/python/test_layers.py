"""Gradients, steps, operators, compile and layers on a card."""

import pytest
import torch
from card import SHAPE, near, on_cpu, tensors

import fovea
import fovea.torch


def test_softmax_is_torch_s():
    q, k, v = tensors(grad=True, dtype=torch.float64)
    bias = torch.randn(2, 1, 128, 128, dtype=torch.float64, device="cuda", requires_grad=True)
    ours = fovea.attention(q, k, v, bias=bias)
    turned = [x.transpose(1, 2) for x in (q, k, v)]
    theirs = torch.nn.functional.scaled_dot_product_attention(*turned, attn_mask=bias).transpose(1, 2)
    near(ours, theirs, 1e-10)
    grad = torch.randn_like(ours)
    for a, b in zip(torch.autograd.grad(ours, (q, k, v, bias), grad), torch.autograd.grad(theirs, (q, k, v, bias), grad)):
        near(a, b, 1e-9)


def test_dropout_is_that_of_the_cpu():
    q, k, v = tensors()
    for name in ("softmax", "sigmoid"):
        near(fovea.attention(q, k, v, name, dropout_p=0.3, seed=7),
             fovea.attention(*on_cpu(q, k, v), name, dropout_p=0.3, seed=7))


def test_steps():
    q, k, v = tensors(shape=(2, 12, 4, 64))
    for name in ("norm", "softmax", "retnet"):
        whole = fovea.attention(q, k, v, name, causal=True)
        state, parts = fovea.DecodeState(), []
        for t in range(12):
            with torch.cuda.stream(torch.cuda.Stream() if t % 3 == 2 else torch.cuda.current_stream()):
                torch.cuda.current_stream().wait_stream(torch.cuda.default_stream())
                part = fovea.attention_step(*(x[:, t:t + 1] for x in (q, k, v)), name, state=state)
                torch.cuda.default_stream().wait_stream(torch.cuda.current_stream())
                parts.append(part)
        near(torch.cat(parts, 1), whole, 1e-4)
        with pytest.raises(ValueError, match="the state is on cuda:0, the step on cpu"):
            fovea.attention_step(*(x[:, :1] for x in on_cpu(q, k, v)), name, state=state)


def test_autocast():
    q, k, v = tensors(grad=True)
    with torch.autocast("cuda", torch.bfloat16):
        out = fovea.attention(q, k, v, "norm")
    assert out.dtype == torch.bfloat16
    out.float().sum().backward()
    assert q.grad.dtype == torch.float32 and q.grad.device == q.device
    with torch.autocast("cpu", torch.bfloat16):
        assert fovea.attention(q, k, v, "norm").dtype == torch.float32


def test_opcheck():
    q, k, v = tensors(grad=True, shape=(1, 16, 2, 32))
    text, _ = fovea.torch._attention.split("softmax", {"causal": True, "return_lse": True}, q.device)
    torch.library.opcheck(torch.ops.fovea.attention, (q, k, v, [], text + "\t\trecords"))


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_compile(mode):
    q, k, v = tensors(grad=True)
    layer = fovea.torch.Attention("performer", heads=4, head_dim=64, causal=True).to("cuda")

    def work(q, k, v):
        return layer(q * 2, k, v).sin() + fovea.torch.attention(q, k, v, "norm", causal=True)

    compiled = torch.compile(work, fullgraph=True, mode=mode)
    grad = torch.randn(SHAPE, device="cuda")
    for _ in range(3):
        near(compiled(q, k, v), work(q, k, v), 1e-4)
        ours = torch.autograd.grad(compiled(q, k, v), (q, k, v), grad)
        for a, b in zip(ours, torch.autograd.grad(work(q, k, v), (q, k, v), grad)):
            near(a, b, 1e-4)


LAYERS = {
    "linformer": lambda **o: fovea.torch.Attention("linformer", heads=4, head_dim=16, max_length=64),
    "multihead": lambda **o: fovea.torch.MultiheadAttention(64, 4, batch_first=True, mechanism="cosformer", **o),
    "block": lambda **o: fovea.torch.TransNormerBlock(64, 4, mechanism="norm"),
}


@pytest.mark.parametrize("name", list(LAYERS))
def test_layers_move(name):
    torch.manual_seed(1)
    layer = LAYERS[name]().eval()
    x = torch.randn(2, 64, 64)

    def run(layer, x):
        x = x.clone().requires_grad_()
        heads = x.unflatten(-1, (4, 16))
        out = layer(x) if name == "block" else layer(x, x, x)[0] if name == "multihead" else layer(heads, heads, heads)
        out.square().sum().backward()
        return [out.detach().cpu(), x.grad.cpu(), *(p.grad.cpu() for p in layer.parameters() if p.grad is not None)]

    there = run(layer, x)
    layer.zero_grad()
    for a, b in zip(run(layer.to("cuda"), x.cuda()), there):
        near(a, b, 2e-3)
    if name == "multihead":
        made = LAYERS[name](device="cuda")
        assert {p.device.type for p in made.parameters()} == {"cuda"}


def test_the_chosen_card_stays_chosen():
    before = torch.cuda.current_device()
    q, k, v = tensors()
    fovea.attention(q, k, v)
    assert torch.cuda.current_device() == before


def test_transformers():
    transformers = pytest.importorskip("transformers")
    fovea.torch.register_transformers("softmax")
    config = transformers.GPT2Config(n_layer=2, n_embd=64, n_head=4, vocab_size=100, attn_pdrop=0.0, resid_pdrop=0.0, embd_pdrop=0.0)
    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel(config).to("cuda").eval()
    ids = torch.randint(0, 100, (2, 40), device="cuda")
    theirs = model(ids).logits
    model.set_attn_implementation("fovea")
    near(model(ids).logits, theirs, 1e-4)
