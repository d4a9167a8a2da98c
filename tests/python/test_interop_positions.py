"""Positions in models of Hugging Face transformers: rotations, slopes, tables and waves are ours, all else is theirs."""

import inspect

import pytest
import torch
import transformers
from helpers import in_double, layer_input, qkv

import fovea.torch

HEADS = 4


def inside(kind, path, **sizes):
    """A layer's attention within a model of that kind, with what goes in and what comes out of it."""
    config = transformers.AutoConfig.for_model(kind, vocab_size=40, attn_implementation="eager", **sizes)
    model = in_double(transformers.AutoModel.from_config, config)
    seen = {}

    def keep(module, args, kwargs, output):
        given = inspect.signature(module.forward).bind(*args, **kwargs).arguments
        seen["x"] = given["hidden_states"]
        seen["y"] = output[0] - given.get("residual", 0)  # Bloom adds it inside

    attention = model.get_submodule(path)
    attention.register_forward_hook(keep, with_kwargs=True)
    torch.manual_seed(2)
    model(torch.randint(0, 40, (2, 19)))
    return attention, seen["x"], seen["y"]


LLAMA = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=HEADS, num_key_value_heads=2)


@pytest.mark.checked("softmax", "LlamaAttention: rotary, grouped heads", within=1e-5)  # their angles are single
def test_llama_s_rotation(agree):
    theirs, x, expected = inside("llama", "layers.1.self_attn", **LLAMA)
    q, k, v = (getattr(theirs, name)(x).unflatten(-1, (-1, 8)) for name in ("q_proj", "k_proj", "v_proj"))
    ours = fovea.torch.attention(q, k, v, causal=True, rotary=(10000.0, True, 0))
    agree(theirs.o_proj(ours.flatten(2)), expected, [x, theirs.q_proj.weight, theirs.k_proj.weight, theirs.v_proj.weight])


@pytest.mark.checked("softmax", "MistralAttention: window, rotary", within=1e-5)
def test_mistral_s_window(agree):
    theirs, x, expected = inside("mistral", "layers.1.self_attn", sliding_window=6, **LLAMA)
    q, k, v = (getattr(theirs, name)(x).unflatten(-1, (-1, 8)) for name in ("q_proj", "k_proj", "v_proj"))
    # Their window of 6 counts the query itself.
    ours = fovea.torch.attention(q, k, v, causal=True, window=(5, 0), rotary=(10000.0, True, 0))
    agree(theirs.o_proj(ours.flatten(2)), expected, [x, theirs.q_proj.weight, theirs.k_proj.weight, theirs.v_proj.weight])


@pytest.mark.checked("softmax", "GPTNeoXAttention: rotary in a part of the channels", within=1e-5)
def test_gpt_neox_s_rotation(agree):
    theirs, x, expected = inside("gpt_neox", "layers.1.attention", hidden_size=64, intermediate_size=48, num_hidden_layers=2,
                                 num_attention_heads=HEADS, attention_dropout=0.0, hidden_dropout=0.0)
    assert theirs.rotary_ndims == 4  # a quarter of 16
    q, k, v = theirs.query_key_value(x).unflatten(-1, (HEADS, 3, 16)).unbind(-2)
    ours = fovea.torch.attention(q, k, v, causal=True, rotary=(10000.0, True, 4))
    agree(theirs.dense(ours.flatten(2)), expected, [x, theirs.query_key_value.weight])


@pytest.mark.checked("softmax", "GPTJAttention: rotary in pairs of neighbours", within=1e-5)
def test_gpt_j_s_rotation(agree):
    theirs, x, expected = inside("gptj", "h.1.attn", n_embd=64, n_layer=2, n_head=HEADS, rotary_dim=8, n_positions=64,
                                 attn_pdrop=0.0, resid_pdrop=0.0, embd_pdrop=0.0)
    q, k, v = qkv(theirs, x, HEADS, ("q_proj", "k_proj", "v_proj"))
    ours = fovea.torch.attention(q, k, v, causal=True, rotary=(10000.0, False, 8))
    agree(theirs.out_proj(ours.flatten(2)), expected, [x, theirs.q_proj.weight, theirs.k_proj.weight, theirs.v_proj.weight])


@pytest.mark.checked("softmax", "BloomAttention: ALiBi", within=1e-5)  # their softmax is single
@pytest.mark.parametrize("heads", [4, 6])  # a power of 2, and none
def test_bloom_s_slopes(heads, agree):
    theirs, x, expected = inside("bloom", "h.0.self_attention", hidden_size=8 * heads, n_layer=1, n_head=heads,
                                 hidden_dropout=0.0, attention_dropout=0.0)
    q, k, v = theirs.query_key_value(x).unflatten(-1, (heads, 3, 8)).unbind(-2)
    ours = fovea.torch.attention(q, k, v, causal=True, alibi=True)
    agree(theirs.dense(ours.flatten(2)), expected, [x, theirs.query_key_value.weight])


@pytest.mark.checked("softmax", "MptAttention: ALiBi", within=1e-5)
def test_mpt_s_slopes(agree):
    theirs, x, expected = inside("mpt", "blocks.1.attn", d_model=32, n_layers=2, n_heads=HEADS, max_seq_len=64,
                                 expansion_ratio=2)
    q, k, v = (part.unflatten(-1, (HEADS, 8)) for part in theirs.Wqkv(x).chunk(3, -1))
    ours = fovea.torch.attention(q, k, v, causal=True, alibi=True)
    agree(theirs.out_proj(ours.flatten(2)), expected, [x, theirs.Wqkv.weight])


@pytest.mark.checked("softmax", "T5Attention: a table of biases", within=1e-9)
def test_t5_s_bias(agree):
    from transformers.models.t5.modeling_t5 import T5Attention

    config = transformers.T5Config(d_model=32, d_kv=8, num_heads=HEADS, dropout_rate=0.0, relative_attention_num_buckets=8,
                                   relative_attention_max_distance=20)
    x, theirs = layer_input(), in_double(T5Attention, config, has_relative_attention_bias=True, layer_idx=0)
    bias = theirs.compute_bias(64, 64)
    ours = fovea.torch.attention(*qkv(theirs, x, HEADS, ("q", "k", "v")), bias=bias, scale=1.0)
    agree(theirs.o(ours.flatten(2)), theirs(x)[0], [x, theirs.q.weight, theirs.relative_attention_bias.weight])


@pytest.mark.checked("xl", "XLNetRelativeAttention (Transformer-XL)", within=1e-5)  # their waves are single
@pytest.mark.parametrize("causal", [False, True])
def test_xlnet(causal, agree):
    config = transformers.XLNetConfig(vocab_size=40, d_model=32, n_layer=1, n_head=HEADS, d_inner=16, dropout=0.0)
    model, n = in_double(transformers.XLNetModel, config), 21
    theirs, x = model.layer[0].rel_attn, layer_input(n)
    for bias in (theirs.r_w_bias, theirs.r_r_bias):
        torch.nn.init.normal_(bias)
    waves = model.relative_positional_encoding(n, n, bsz=2).double()
    h = x.transpose(0, 1)  # (n, b, width)
    later = torch.ones(n, n, dtype=torch.float64).triu(1)[:, :, None, None] if causal else None
    expected = theirs(h, None, later, None, waves, None)[0]
    q, k, v = (torch.einsum("ibh,hnd->bind", h, w) for w in (theirs.q, theirs.k, theirs.v))
    weights = [theirs.r_w_bias, theirs.r_r_bias, theirs.r.permute(1, 2, 0)]
    ours = fovea.torch.attention(q, k, v, "xl", causal=causal, weights=weights)
    agree(theirs.post_attention(h, ours.transpose(0, 1)), expected,
          [x, theirs.q, theirs.k, theirs.v, theirs.r, theirs.r_w_bias, theirs.r_r_bias])


@pytest.mark.checked("transformer-xl", "XLNetRelativeAttention, with a memory", within=1e-5)
def test_segments_and_memory(agree):
    config = transformers.XLNetConfig(vocab_size=40, d_model=16, n_layer=1, n_head=1, d_inner=16, dropout=0.0, attn_type="uni")
    model, n, memory = in_double(transformers.XLNetModel, config), 9, 6
    theirs, x = model.layer[0].rel_attn, layer_input(2 * n, 16)
    for bias in (theirs.r_w_bias, theirs.r_r_bias):
        torch.nn.init.normal_(bias)
    h, pieces = x.transpose(0, 1), []
    for begin in (0, n):
        mems = h[max(0, begin - memory) : begin].detach()
        later = torch.ones(n, len(mems) + n, dtype=torch.float64).triu(1 + len(mems))[:, :, None, None]
        waves = model.relative_positional_encoding(n, len(mems) + n, bsz=2).double()
        pieces.append(theirs(h[begin : begin + n], None, later, None, waves, None, mems=mems)[0])
    q, k, v = (torch.einsum("ibh,hnd->bind", h, w) for w in (theirs.q, theirs.k, theirs.v))
    weights = [theirs.r_w_bias, theirs.r_r_bias, theirs.r.permute(1, 2, 0)]
    ours = fovea.torch.attention(q, k, v, "transformer-xl", causal=True, segment=n, memory=memory, weights=weights)
    # Their memory still trains the projections of k and v; ours stops at k and v.
    agree(theirs.post_attention(h, ours.transpose(0, 1)), torch.cat(pieces),
          [x, theirs.q, theirs.r, theirs.r_w_bias, theirs.r_r_bias])


@pytest.mark.checked("xl", "Wav2Vec2ConformerSelfAttention", within=1e-5)
def test_conformer(agree):
    from transformers.models.wav2vec2_conformer import modeling_wav2vec2_conformer as conformer

    config = transformers.Wav2Vec2ConformerConfig(hidden_size=32, num_attention_heads=HEADS, attention_dropout=0.0,
                                                  position_embeddings_type="relative", attn_implementation="eager")
    theirs, x = in_double(conformer.Wav2Vec2ConformerSelfAttention, config), layer_input(21)
    for bias in (theirs.pos_bias_u, theirs.pos_bias_v):
        torch.nn.init.normal_(bias)
    waves = conformer.Wav2Vec2ConformerRelPositionalEmbedding(config)(x)
    q, k, v = qkv(theirs, x, HEADS, ("linear_q", "linear_k", "linear_v"))
    # Their waves alternate between sine and cosine, ours are all sines, then all cosines.
    encoding = theirs.linear_pos.weight.unflatten(0, (HEADS, 8))
    encoding = torch.cat([encoding[..., 0::2], encoding[..., 1::2]], -1)
    ours = fovea.torch.attention(q, k, v, "xl", weights=[theirs.pos_bias_u, theirs.pos_bias_v, encoding])
    agree(theirs.linear_out(ours.flatten(2)), theirs(x, relative_position_embeddings=waves)[0],
          [x, theirs.linear_q.weight, theirs.linear_pos.weight, theirs.pos_bias_u, theirs.pos_bias_v])


@pytest.mark.checked("shaw", "VitsAttention", within=1e-9)
@pytest.mark.parametrize("n", [3, 7])
def test_vits(n, agree):
    from transformers.models.vits.modeling_vits import VitsAttention

    # Keys beyond the window have no vector there and that of the last distance here: no key is beyond 6.
    config = transformers.VitsConfig(hidden_size=32, num_attention_heads=HEADS, window_size=6, attention_dropout=0.0)
    theirs, x = in_double(VitsAttention, config), layer_input(n)
    ours = fovea.torch.attention(*qkv(theirs, x, HEADS, ("q_proj", "k_proj", "v_proj")), "shaw", clip=6,
                                 weights=[theirs.emb_rel_k[0], theirs.emb_rel_v[0]])
    agree(theirs.out_proj(ours.flatten(2)), theirs(x)[0], [x, theirs.q_proj.weight, theirs.emb_rel_k, theirs.emb_rel_v])
