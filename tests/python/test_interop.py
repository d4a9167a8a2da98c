"""The same weights and inputs in other people's code: forward and gradients must agree."""

import pytest
import torch
import transformers

import fovea.torch


def agree(ours, theirs, inputs, tolerance=1e-9):
    """Both outputs, and the gradients of a random functional of them."""
    torch.testing.assert_close(ours, theirs, atol=tolerance, rtol=tolerance)
    grad = torch.randn_like(ours)
    for a, b in zip(torch.autograd.grad(ours, inputs, grad), torch.autograd.grad(theirs, inputs, grad)):
        torch.testing.assert_close(a, b, atol=10 * tolerance, rtol=10 * tolerance)


def heads_of(linear, x, heads):
    return linear(x).unflatten(-1, (heads, -1))


@pytest.fixture
def x():
    torch.manual_seed(3)
    return torch.randn(2, 64, 32, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("taps", [0, 5])
def test_nystromformer(x, taps):
    from transformers.models.nystromformer.modeling_nystromformer import NystromformerSelfAttention

    config = transformers.NystromformerConfig(hidden_size=32, num_attention_heads=4, num_landmarks=8, conv_kernel_size=5,
                                              segment_means_seq_len=64, attention_probs_dropout_prob=0.0)
    theirs = NystromformerSelfAttention(config).double()
    theirs.conv_kernel_size = taps or None
    theirs.init_option = "exact"  # each item for itself: the default mixes the batch
    q, k, v = (heads_of(linear, x, 4) for linear in (theirs.query, theirs.key, theirs.value))
    weights = [theirs.conv.weight.reshape(4, taps)] if taps else []
    ours = fovea.torch.attention(q, k, v, "nystrom", landmarks=8, steps=6, conv=taps, weights=weights)
    inputs = [x, theirs.query.weight, theirs.value.weight, *([theirs.conv.weight] if taps else [])]
    agree(ours.flatten(2), theirs(x)[0], inputs)


def test_longformer_s_window(x):
    from transformers.models.longformer.modeling_longformer import LongformerSelfAttention

    config = transformers.LongformerConfig(hidden_size=32, num_attention_heads=4, attention_window=[8],
                                           attention_probs_dropout_prob=0.0)
    theirs = LongformerSelfAttention(config, layer_id=0).double()
    nothing = torch.zeros(2, 64, dtype=torch.bool)
    expected = theirs(x, attention_mask=torch.zeros(2, 64, dtype=torch.float64), is_index_masked=nothing,
                      is_index_global_attn=nothing, is_global_attn=False)[0]
    q, k, v = (heads_of(linear, x, 4) for linear in (theirs.query, theirs.key, theirs.value))
    ours = fovea.torch.attention(q, k, v, "window", left=4, right=4).flatten(2)
    agree(ours, expected, [x, theirs.key.weight], tolerance=1e-5)  # their softmax is made in single precision


def test_t5_s_bias(x):
    from transformers.models.t5.modeling_t5 import T5Attention

    config = transformers.T5Config(d_model=32, d_kv=8, num_heads=4, dropout_rate=0.0, relative_attention_num_buckets=8,
                                   relative_attention_max_distance=20)
    theirs = T5Attention(config, has_relative_attention_bias=True, layer_idx=0).double()
    q, k, v = (heads_of(linear, x, 4) for linear in (theirs.q, theirs.k, theirs.v))
    bias = theirs.compute_bias(64, 64)
    ours = theirs.o(fovea.torch.attention(q, k, v, bias=bias, scale=1.0).flatten(2))
    agree(ours, theirs(x)[0], [x, theirs.q.weight, theirs.relative_attention_bias.weight])


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_whole_models(kind):
    fovea.torch.register_transformers("softmax")
    sizes = {"gpt2": dict(n_embd=32, n_layer=2, n_head=4, n_positions=64, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0),
             "llama": dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                           num_key_value_heads=2)}[kind]
    config = transformers.AutoConfig.for_model(kind, vocab_size=40, **sizes)
    models = []
    for implementation in ("fovea", "eager"):
        torch.manual_seed(1)
        models.append(transformers.AutoModelForCausalLM.from_config(config, attn_implementation=implementation).double())
    ids = torch.randint(0, 40, (2, 19))
    losses = [model(ids, labels=ids).loss for model in models]
    torch.testing.assert_close(*losses, atol=1e-10, rtol=1e-9)
    for loss in losses:
        loss.backward()
    for a, b in zip(models[0].parameters(), models[1].parameters()):
        torch.testing.assert_close(a.grad, b.grad, atol=1e-8, rtol=1e-6)
