"""Arrays on a card: streams, memory, who refuses what, operators, layers."""

import threading

import numpy as np
import pytest
import torch

import fovea
import fovea.torch

SHAPE = (2, 128, 4, 64)


def tensors(count=3, dtype=torch.float32, grad=False, shape=SHAPE, device="cuda"):
    torch.manual_seed(5)
    return [torch.randn(shape, dtype=dtype, device=device, requires_grad=grad) for _ in range(count)]


def on_cpu(*tensors_of_card):
    return [x.detach().cpu() for x in tensors_of_card]


def near(a, b, tolerance=2e-5):
    torch.testing.assert_close(a.detach().cpu(), b.detach().cpu(), atol=tolerance, rtol=tolerance)


def test_devices():
    assert fovea.devices()[:2] == ["cpu", "cuda:0"]


def test_results_stay_on_the_card_of_their_arrays():
    q, k, v = tensors()
    out = fovea.attention(q, k, v, "norm", causal=True)
    assert out.device == q.device and out.dtype == q.dtype and out.is_contiguous()
    near(out, fovea.attention(*on_cpu(q, k, v), "norm", causal=True))


def test_nothing_is_copied():
    q, k, v = tensors(shape=(1, 4096, 16, 64), dtype=torch.bfloat16)
    fovea.attention(q, k, v, "norm")
    fovea.empty_cache()
    before = torch.cuda.memory_allocated()
    out = fovea.attention(q, k, v, "norm")
    assert torch.cuda.memory_allocated() == before  # neither arrays nor the result lie in PyTorch's pool
    turned = fovea.attention(*(x.transpose(1, 2) for x in (q, k, v)), "norm", layout="bhnd")
    assert torch.equal(turned.transpose(1, 2), out)


def test_strided_views_and_other_layouts():
    q, k, v = tensors(shape=(2, 4, 128, 64))
    out = fovea.attention(q, k, v, layout="bhnd", causal=True)
    assert out.shape == q.shape
    near(out, torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True), 1e-4)
    wide = torch.randn(2, 128, 3, 4, 64, device="cuda")
    near(fovea.attention(*wide.unbind(2)), fovea.attention(*(x.contiguous() for x in wide.unbind(2))), 0.0)


def test_log_sum_exp_and_states():
    q, k, v = tensors()
    out, lse = fovea.attention(q, k, v, causal=True, return_lse=True)
    there = fovea.attention(*on_cpu(q, k, v), causal=True, return_lse=True)
    near(out, there[0]), near(lse, there[1])
    first, state = fovea.attention(q[:, :50], k[:, :50], v[:, :50], "retnet", causal=True, final_state=True)
    assert state.device == q.device
    second = fovea.attention(q[:, 50:], k[:, 50:], v[:, 50:], "retnet", causal=True, initial_state=state)
    near(torch.cat([first, second], 1), fovea.attention(q, k, v, "retnet", causal=True), 1e-4)


def test_packed_and_padded():
    q, k, v = tensors(shape=(1, 300, 4, 64))
    offsets = [0, 100, 300]
    for lengths in (offsets, torch.tensor(offsets), torch.tensor(offsets, device="cuda")):
        out = fovea.attention(q, k, v, causal=True, cu_seqlens=lengths)
        near(out[:, 100:], fovea.attention(q[:, 100:], k[:, 100:], v[:, 100:], causal=True))


# ---- streams

LONG = 50_000_000  # cycles: about 30 ms


@pytest.mark.parametrize("own", [True, False], ids=["own stream", "default stream"])
@pytest.mark.parametrize("name", ["softmax", "norm", "performer", "reformer"])
def test_work_waits_for_what_is_on_the_caller_s_stream(own, name):
    q, k, v = tensors()
    expected = fovea.attention(q, k, v, name)
    stream = torch.cuda.Stream() if own else torch.cuda.default_stream()
    torch.cuda.synchronize()
    late = torch.full_like(q, float("nan"))
    with torch.cuda.stream(stream):
        torch.cuda._sleep(LONG)
        late.copy_(q)
        out = fovea.attention(late, k, v, name) * 1
        late.fill_(float("nan"))  # after the call has read it
    stream.synchronize()
    near(out, expected, 0.0)


def test_a_call_returns_before_its_work_is_done():
    q, k, v = tensors()
    fovea.attention(q, k, v)
    torch.cuda.synchronize()
    torch.cuda._sleep(20 * LONG)
    fovea.attention(q, k, v)
    reached = torch.cuda.Event()
    reached.record()
    assert not reached.query()


def test_backward_on_a_stream_of_its_own():
    q, k, v = tensors(grad=True)
    fovea.attention(q, k, v, "norm", causal=True).square().sum().backward()
    expected = [x.grad.clone() for x in (q, k, v)]
    for x in (q, k, v):
        x.grad = None
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(LONG)
        loss = fovea.attention(q, k, v, "norm", causal=True).square().sum()
    torch.cuda.current_stream().wait_stream(stream)
    loss.backward()
    for x, other in zip((q, k, v), expected):
        near(x.grad, other, 1e-5)


def test_memory_of_results_is_used_again_only_in_order():
    q, k, v = tensors(shape=(1, 1024, 8, 64))
    expected = fovea.attention(q, k, v).sum()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    sums = []
    with torch.cuda.stream(stream):
        for i in range(30):
            out = fovea.attention(q, k, v)
            torch.cuda._sleep(LONG // 100)
            sums.append(out.sum())  # reads it late; the block is let go at once
            del out
    stream.synchronize()
    for total in sums:
        near(total, expected, 1e-3)


def test_threads_with_streams_of_their_own():
    q, k, v = tensors(shape=(1, 512, 8, 64))
    expected = {name: fovea.attention(q, k, v, name, causal=True).cpu() for name in ("softmax", "norm", "retnet")}
    torch.cuda.synchronize()
    wrong = []

    def work(name):
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(25):
                out = fovea.attention(q, k, v, name, causal=True).cpu()
                if not torch.equal(out, expected[name]):
                    wrong.append(name)

    threads = [threading.Thread(target=work, args=(name,)) for name in expected for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


# ---- anything with __dlpack__


class Plain:
    """An array of some framework without streams that we know of."""

    def __init__(self, tensor):
        self.tensor, self.asked = tensor, []
        self.shape, self.dtype = tensor.shape, tensor.dtype

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()

    def __dlpack__(self, *, stream=None, **options):
        self.asked.append(stream)
        return self.tensor.__dlpack__(stream=stream, **options)


def test_other_frameworks_by_dlpack():
    q, k, v = tensors()
    plain = [Plain(x) for x in (q, k, v)]
    torch.cuda._sleep(LONG)
    q.mul_(2)
    result = fovea.attention(*plain, "norm", causal=True)
    assert all(len(x.asked) == 1 and x.asked[0] not in (None, 0) for x in plain)  # on our stream, not on any
    assert tuple(result.__dlpack_device__()) == (2, 0)
    out = torch.from_dlpack(result)
    near(out, fovea.attention(q, k, v, "norm", causal=True), 0.0)
    for stream in (None, -1, 1, 2, torch.cuda.Stream().cuda_stream):
        near(torch.utils.dlpack.from_dlpack(result.__dlpack__(stream=stream)), out, 0.0)
    with pytest.raises(ValueError, match="stream 0 has two meanings"):
        result.__dlpack__(stream=0)
    with pytest.raises(BufferError, match="no copy"):
        result.__dlpack__(copy=True)
    found = fovea.attention_backward(Plain(torch.ones_like(q)), *plain, "norm", causal=True)
    assert torch.from_dlpack(found.q).shape == q.shape


# ---- what is refused


def test_mixed_devices_are_refused_by_name():
    q, k, v = tensors()
    words = r'{} is on cpu, q on cuda:0: arrays of one call lie on one device\n  try     {}.to\("cuda:0"\)'
    for grad in (False, True):
        q.requires_grad_(grad)
        with pytest.raises(TypeError, match=words.format("k", "k")):
            fovea.attention(q, k.cpu(), v)
        with pytest.raises(TypeError, match=words.format("bias", "bias")):
            fovea.attention(q, k, v, bias=torch.zeros(128, 128))
        with pytest.raises(TypeError, match=r"k is on cuda:0, q on cpu"):
            fovea.attention(q.cpu(), k, v)
    layer = fovea.torch.Attention("performer", heads=4, head_dim=64)
    with pytest.raises(TypeError, match="weights is on cpu, q on cuda:0"):
        layer(q, k, v)
    with pytest.raises(TypeError, match="q is a torch.Tensor, k a numpy.ndarray"):
        fovea.attention(q, k.cpu().numpy(), v)


def test_constants_of_numpy_are_sent_along():
    q, k, v = tensors()
    keep = np.random.default_rng(1).random((128, 128)) < 0.7
    keep[:, 0] = True
    near(fovea.attention(q, k, v, mask=keep), fovea.attention(*on_cpu(q, k, v), mask=keep))
    near(fovea.attention(q.requires_grad_(), k, v, mask=keep), fovea.attention(*on_cpu(q, k, v), mask=keep))
    pattern = fovea.Pattern.window(9, 3)
    near(fovea.attention(q, k, v, mask=pattern), fovea.attention(*on_cpu(q, k, v), mask=pattern))


def test_too_much_memory_is_told_and_survived():
    x = torch.zeros(1, 1, 1, 64, device="cuda").expand(1 << 20, 1 << 16, 1, 64)
    with pytest.raises(MemoryError, match="allocate|out of memory"):
        fovea.attention(x, x, x, "linear")
    q, k, v = tensors()
    near(fovea.attention(q, k, v), fovea.attention(*on_cpu(q, k, v)))


def test_memory_is_given_back():
    q, k, v = tensors(shape=(8, 8192, 16, 64), dtype=torch.bfloat16)
    fovea.attention(q, k, v, "norm")
    torch.cuda.synchronize()
    before = torch.cuda.mem_get_info()[0]
    fovea.empty_cache()
    torch.cuda.synchronize()
    assert torch.cuda.mem_get_info()[0] >= before


# ---- gradients, operators, layers


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
    torch.library.opcheck(torch.ops.fovea.attention, (q, k, v, [], text + "\n\nrecords"))


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
