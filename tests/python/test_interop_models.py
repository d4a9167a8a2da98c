"""Layers and whole models of Hugging Face transformers: the same weights and inputs, forward and gradients."""

import pytest
import torch
import transformers
from helpers import in_double, layer_input, qkv

import fovea.torch

HEADS = 4


@pytest.mark.checked("nystrom", "NystromformerSelfAttention", within=1e-9)
@pytest.mark.parametrize("taps", [0, 5])
def test_nystromformer(taps, agree):
    from transformers.models.nystromformer.modeling_nystromformer import NystromformerSelfAttention

    config = transformers.NystromformerConfig(hidden_size=32, num_attention_heads=HEADS, num_landmarks=8, conv_kernel_size=5,
                                              segment_means_seq_len=64, attention_probs_dropout_prob=0.0)
    x, theirs = layer_input(), in_double(NystromformerSelfAttention, config)
    theirs.conv_kernel_size = taps or None
    theirs.init_option = "exact"  # each item for itself: the default mixes the batch
    weights = [theirs.conv.weight.reshape(HEADS, taps)] if taps else []
    ours = fovea.torch.attention(*qkv(theirs, x, HEADS), "nystrom", landmarks=8, steps=6, conv=taps, weights=weights)
    inputs = [x, theirs.query.weight, theirs.value.weight, *([theirs.conv.weight] if taps else [])]
    agree(ours.flatten(2), theirs(x)[0], inputs)


@pytest.mark.checked("lightning", "MiniMaxLightningAttention", within=1e-7)  # our rates are single numbers
def test_minimax(agree):
    from transformers.models.minimax.modeling_minimax import MiniMaxLightningAttention

    config = transformers.MiniMaxConfig(hidden_size=32, num_attention_heads=HEADS, num_key_value_heads=HEADS, head_dim=8,
                                        num_hidden_layers=3, block_size=8, layer_types=["linear_attention"] * 3)
    x, theirs = layer_input(37), in_double(MiniMaxLightningAttention, config, layer_idx=0)
    theirs.norm = torch.nn.RMSNorm(32, eps=1e-6, dtype=torch.float64)  # theirs is made in single precision
    expected, state = theirs(x, None, None)
    q, k, v = torch.nn.functional.silu(theirs.qkv_proj(x)).unflatten(-1, (HEADS, 24)).split(8, -1)
    ours, final = fovea.torch.attention(q, k, v, "lightning", causal=True, layer=0, layers=3, final_state=True)
    torch.testing.assert_close(final.reshape(state.shape), state)
    ours = theirs.out_proj(torch.sigmoid(theirs.output_gate(x)) * ours.flatten(2))
    agree(ours, expected, [x, theirs.qkv_proj.weight])


SIZES = {
    "gpt2": dict(n_embd=32, n_layer=2, n_head=HEADS, n_positions=64, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0),
    "llama": dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=HEADS, num_key_value_heads=2),
    "mistral": dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=HEADS,
                    num_key_value_heads=2, sliding_window=6),
    "gpt_neox": dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=HEADS,
                     attention_dropout=0.0, hidden_dropout=0.0),
    "bert": dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=HEADS, is_decoder=False,
                 attention_probs_dropout_prob=0.0, hidden_dropout_prob=0.0),
}


@pytest.mark.checked("softmax", "whole GPT-2, Llama, Mistral, GPT-NeoX, BERT", within=1e-6)  # some have a single softmax
@pytest.mark.parametrize("kind", SIZES)
def test_whole_models(kind, agree):
    fovea.torch.register_transformers("softmax")
    config = transformers.AutoConfig.for_model(kind, vocab_size=40, **SIZES[kind])
    auto = transformers.AutoModelForMaskedLM if kind == "bert" else transformers.AutoModelForCausalLM
    model = auto.from_config(config, attn_implementation="eager").double()
    ids = torch.randint(0, 40, (2, 19))
    theirs = model(ids).logits
    model.set_attn_implementation("fovea")
    assert model.config._attn_implementation == "fovea"
    agree(model(ids).logits, theirs, list(model.parameters()))
