"""Sparse attention of Hugging Face transformers: the same weights, inputs and choices in both, forward and gradients."""

import functools

import numpy as np
import pytest
import torch
import transformers
from helpers import in_double, layer_input, qkv

import fovea.torch

HEADS, BLOCK, BLOCKS = 4, 4, 8


def longformer(**settings):
    from transformers.models.longformer.modeling_longformer import LongformerSelfAttention

    config = transformers.LongformerConfig(hidden_size=32, num_attention_heads=HEADS, attention_window=[8],
                                           attention_probs_dropout_prob=0.0, **settings)
    return in_double(LongformerSelfAttention, config, layer_id=0)


@pytest.mark.checked("window", "LongformerSelfAttention", within=1e-5)
def test_longformer_s_window(agree):
    x, theirs = layer_input(), longformer()
    nothing = torch.zeros(2, 64, dtype=torch.bool)
    expected = theirs(x, attention_mask=torch.zeros(2, 64, dtype=torch.float64), is_index_masked=nothing,
                      is_index_global_attn=nothing, is_global_attn=False)[0]
    ours = fovea.torch.attention(*qkv(theirs, x, HEADS), "window", left=4, right=4).flatten(2)
    agree(ours, expected, [x, theirs.key.weight])  # their softmax is made in single precision


@pytest.mark.checked("longformer", "LongformerSelfAttention, global tokens", within=1e-5)
@pytest.mark.parametrize("globals_", [1, 3, 9])  # 9: more than d_k, where the engine projects keys as such
def test_longformer_s_global_tokens(globals_, agree):
    x, theirs = layer_input(), longformer()
    is_global = (torch.arange(64) < globals_).expand(2, 64)
    expected = theirs(x, attention_mask=10000.0 * is_global.double(), is_index_masked=torch.zeros(2, 64, dtype=torch.bool),
                      is_index_global_attn=is_global, is_global_attn=True)[0]
    # Their global projections have biases, ours have none: an input channel that is always 1 carries them.
    ones = torch.ones(2, 64, 1, dtype=torch.float64)
    weights = [torch.cat([linear.weight.T, linear.bias[None]])
               for linear in (theirs.query_global, theirs.key_global, theirs.value_global)]
    ours = fovea.torch.attention(*qkv(theirs, x, HEADS),
                                 fovea.Mechanism("longformer", window=4, globals=globals_), weights=weights,
                                 input=torch.cat([x, ones], -1)).flatten(2)
    inputs = [x, theirs.key.weight, theirs.query_global.weight, theirs.key_global.weight, theirs.value_global.weight,
              theirs.value_global.bias]
    agree(ours, expected, inputs)  # single precision, as above


def random_blocks(mechanism):
    """The blocks that our random choice adds to the fixed ones, (heads, BLOCKS - 2, random): read from who reads whom."""
    n = BLOCK * BLOCKS
    zero = np.zeros((1, n, HEADS, 8))
    places = np.broadcast_to(np.eye(n)[None, :, None], (1, n, HEADS, n))
    weights = fovea.attention(zero, zero, places, mechanism)[0]  # (n, heads, n), even over what is read
    seen = (weights > 0).reshape(BLOCKS, BLOCK, HEADS, BLOCKS, BLOCK)
    assert (seen == seen[:, :1, :, :, :1]).all()  # whole blocks
    return [[[j for j in range(1, BLOCKS - 1) if seen[i, 0, h, j, 0] and abs(i - j) > 1] for i in range(1, BLOCKS - 1)]
            for h in range(HEADS)]


@pytest.mark.checked("bigbird", "BigBirdBlockSparseAttention", within=1e-9)
@pytest.mark.parametrize("seed", [0, 5])
def test_bigbird(seed, monkeypatch, agree):
    from transformers.models.big_bird.modeling_big_bird import BigBirdBlockSparseAttention, BigBirdModel

    config = transformers.BigBirdConfig(hidden_size=32, num_attention_heads=HEADS, num_random_blocks=2, block_size=BLOCK,
                                        attention_probs_dropout_prob=0.0)
    theirs = in_double(BigBirdBlockSparseAttention, config)
    x, mechanism = layer_input(BLOCK * BLOCKS), fovea.Mechanism(f"bigbird:block={BLOCK},random=2,seed={seed}")
    # Theirs may draw a block that is fixed already and count it twice; ours are drawn from the others. So they get ours.
    blocks = np.array(random_blocks(mechanism))
    assert blocks.shape == (HEADS, BLOCKS - 2, 2) and (blocks[0] != blocks[1]).any()
    monkeypatch.setattr(theirs, "_bigbird_block_rand_mask_with_head", lambda **_: list(blocks))
    masks = BigBirdModel.create_masks_for_block_sparse_attn(torch.ones(2, BLOCK * BLOCKS, dtype=torch.float64), BLOCK)
    blocked, band, rows, columns = masks
    expected = theirs(x, band_mask=band, from_mask=rows, to_mask=columns, from_blocked_mask=blocked, to_blocked_mask=blocked)[0]
    ours = fovea.torch.attention(*qkv(theirs, x, HEADS), mechanism).flatten(2)
    agree(ours, expected, [x, theirs.query.weight, theirs.key.weight, theirs.value.weight])


@pytest.mark.checked("softmax", "BigBirdSelfAttention", within=1e-9)
def test_bigbird_s_full_form(agree):
    from transformers.models.big_bird.modeling_big_bird import BigBirdSelfAttention

    config = transformers.BigBirdConfig(hidden_size=32, num_attention_heads=HEADS, attention_probs_dropout_prob=0.0)
    theirs, x = in_double(BigBirdSelfAttention, config), layer_input()
    ours = fovea.torch.attention(*qkv(theirs, x, HEADS)).flatten(2)
    agree(ours, theirs(x)[0], [x, theirs.query.weight, theirs.key.weight, theirs.value.weight])


@pytest.mark.checked("reformer", "LSHSelfAttention", within=1e-9)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_reformer(rounds, causal, monkeypatch, agree):
    from transformers.models.reformer.modeling_reformer import LSHSelfAttention

    n, chunk = 40, 8
    config = transformers.ReformerConfig(hidden_size=32, num_attention_heads=HEADS, attention_head_size=8, num_hashes=rounds,
                                         lsh_attn_chunk_length=chunk, num_buckets=2 * n // chunk, is_decoder=causal,
                                         lsh_attention_probs_dropout_prob=0.0)
    theirs = in_double(LSHSelfAttention, config)
    x = layer_input(n)
    # Their rounds are one list joined at its ends. A chunk of padding sorts behind every round and is read by nobody:
    # then the first chunk of a round has none before it, as here.
    padded = torch.cat([x, torch.ones(2, chunk, 32, dtype=torch.float64)], 1)
    real = (torch.arange(n + chunk) < n).expand(2, -1)
    rotations = torch.randn(rounds, 8, n // chunk, dtype=torch.float64)  # ours are the same for all heads
    monkeypatch.setattr(torch, "randn", lambda shape, **_: rotations.transpose(0, 1).expand(shape))
    monkeypatch.setattr(theirs, "_len_norm", functools.partial(theirs._len_norm, epsilon=1e-12))  # 1e-6: ours is smaller
    expected = theirs(padded, attention_mask=real).hidden_states[:, :n]
    monkeypatch.undo()
    q, v = qkv(theirs, x, HEADS, ("query_key", "value"))
    # Their code counts a pair in every round in which it meets.
    ours = fovea.torch.attention(q, q, v, "reformer", rounds=rounds, chunk=chunk, directions=n // chunk, causal=causal,
                                 duplicates="every", weights=[rotations]).flatten(2)
    agree(ours, expected, [x, theirs.query_key.weight, theirs.value.weight])


@pytest.mark.checked("softmax", "Reformer LocalSelfAttention, a pattern", within=1e-9)
def test_reformer_s_local_attention(agree):
    from transformers.models.reformer.modeling_reformer import LocalSelfAttention

    config = transformers.ReformerConfig(hidden_size=32, num_attention_heads=HEADS, attention_head_size=8, is_decoder=True,
                                         local_attn_chunk_length=8, local_attention_probs_dropout_prob=0.0)
    theirs, x = in_double(LocalSelfAttention, config), layer_input()
    pattern = fovea.Pattern(lambda query, key: (key <= query) & (query // 8 - key // 8 <= 1))
    ours = fovea.torch.attention(*qkv(theirs, x, HEADS), mask=pattern).flatten(2)
    agree(ours, theirs(x).hidden_states, [x, theirs.query.weight, theirs.key.weight, theirs.value.weight])


@pytest.mark.checked("informer", "InformerProbSparseAttention", within=1e-5)
@pytest.mark.parametrize("causal", [False, True])
def test_informer(causal, agree):
    from transformers.models.informer.modeling_informer import InformerProbSparseAttention

    n, kept = 40, 8  # 2 ceil(ln 40)
    theirs = in_double(InformerProbSparseAttention, 32, HEADS, sampling_factor=2, is_decoder=causal, bias=False)
    # Samples of keys differ; `kept` queries are so much larger that every sample finds them.
    x, keys = layer_input(n), layer_input(n) * 0.5 + 0.1
    active = 1 + torch.randperm(n - 1)[:kept]  # the first query reads what it would be filled with
    size = torch.full((n, 1), 1e-3, dtype=torch.float64)
    size[active] = 3.0
    mask = torch.full((n, n), -torch.inf, dtype=torch.float64).triu(1).expand(2, 1, n, n) if causal else None
    expected = theirs(x * size, key_value_states=keys, attention_mask=mask)[0]
    q = qkv(theirs, x * size, HEADS, ["q_proj"])[0]
    k, v = qkv(theirs, keys, HEADS, ["k_proj", "v_proj"])
    # Theirs divides the sampled sum by all keys; its causal form fills with running sums and looks ahead for its choice.
    published = dict(causal=True, choice="all", filler="sum") if causal else {}
    ours = fovea.torch.attention(q, k, v, "informer", factor=2, term="keys", **published)
    # Their running sum is made in single precision.
    means = v.cumsum(1) if causal else v.mean(1, keepdim=True).expand(v.shape)
    filled = (ours - means).abs().amax((0, 2, 3)) < 1e-9
    assert filled.sum() == n - kept and not filled[active].any()
    agree(theirs.out_proj(ours.flatten(2)), expected, [x, theirs.q_proj.weight, theirs.k_proj.weight, theirs.v_proj.weight])
