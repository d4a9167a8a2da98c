"""Arrays on a card: where results lie, what is refused and in which words, memory."""

import numpy as np
import pytest
import torch
from card import near, on_cpu, tensors

import fovea
import fovea.torch


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
