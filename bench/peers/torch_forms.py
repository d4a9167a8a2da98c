"""Attention as one would write it in PyTorch: every form of every mechanism that the race times.

Each function here makes a form for the given sizes: a function of q, k, v (and a bias where the work has one). All
tensors are (batch, heads, n, dim) and contiguous, the layout PyTorch's kernels like best.
"""

import math

import torch
import torch.nn.functional as F
from torch.nn.attention.flex_attention import create_block_mask, flex_attention


def sdpa(causal=False):
    return lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal)


def softmax_plain(causal=False):
    def form(q, k, v):
        scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(q.shape[-1]))
        if causal:
            n = q.shape[-2]
            later = torch.ones(n, n, dtype=torch.bool).triu(1)
            scores = scores.masked_fill(later, -math.inf)
        return scores.softmax(-1) @ v

    return form


def biased_sdpa():
    return lambda q, k, v, bias: F.scaled_dot_product_attention(q, k, v, attn_mask=bias)


def biased_plain():
    def form(q, k, v, bias):
        scores = torch.matmul(q * (1.0 / math.sqrt(q.shape[-1])), k.transpose(-2, -1)) + bias
        return scores.softmax(-1) @ v

    return form


def window_masked_sdpa(n, window):
    """SDPA over all keys, query i masked to keys i - window .. i."""
    distance = torch.arange(n)[:, None] - torch.arange(n)[None, :]
    mask = (distance >= 0) & (distance <= window)
    return lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def window_flex(n, window):
    """FlexAttention, which skips the blocks of keys that no query sees. Only fast when compiled."""
    keep = lambda b, h, query, key: (query >= key) & (query - key <= window)  # noqa: E731
    blocks = create_block_mask(keep, None, None, n, n, device="cpu")
    return lambda q, k, v: flex_attention(q, k, v, block_mask=blocks)


def window_blocks(x, window, block):
    """(b, h, n, d) -> (b, h, n / block, window + block, d): the keys that each block of queries may see."""
    return F.pad(x, (0, 0, window, 0)).unfold(2, window + block, block).transpose(-2, -1)


def window_block_mask(n, window, block):
    """(n / block, block, window + block) bool; the first blocks also hide the padding in front of the sequence."""
    query = torch.arange(n).view(-1, block, 1)
    key = query[:, :1] - window + torch.arange(window + block)
    return (key >= 0) & (key <= query) & (key >= query - window)


def window_blocked_sdpa(n, window, block):
    """All blocks in one SDPA call, blocks as its batch."""
    mask = window_block_mask(n, window, block)[:, None]

    def form(q, k, v):
        b, h, _, d = q.shape
        fold = lambda x: x.transpose(1, 2).reshape(b * (n // block), h, x.shape[-2], d)  # noqa: E731
        out = F.scaled_dot_product_attention(
            fold(q.view(b, h, -1, block, d)),
            fold(window_blocks(k, window, block)),
            fold(window_blocks(v, window, block)),
            attn_mask=mask.repeat(b, 1, 1, 1) if b > 1 else mask,
        )
        return out.view(b, n // block, h, block, d).transpose(1, 2).reshape(b, h, n, d)

    return form


def window_blocked_plain(n, window, block):
    """Two batched products and a masked softmax."""
    hidden = ~window_block_mask(n, window, block)

    def form(q, k, v):
        b, h, _, d = q.shape
        scores = q.view(b, h, -1, block, d) @ window_blocks(k, window, block).transpose(-2, -1)
        weights = (scores * (1.0 / math.sqrt(d))).masked_fill(hidden, -math.inf).softmax(-1)
        return (weights @ window_blocks(v, window, block)).reshape(b, h, n, d)

    return form


def window_loop_sdpa(n, window, block):
    """One SDPA call for each block of queries: no key is copied more than the split needs."""
    masks = window_block_mask(n, window, block)

    def form(q, k, v):
        ahead = window // block
        queries, keys, values = q.split(block, 2), k.split(block, 2), v.split(block, 2)
        outs = []
        for i, query in enumerate(queries):
            first = max(0, i - ahead)
            key, value = (torch.cat(x[first : i + 1], 2) for x in (keys, values))
            outs.append(F.scaled_dot_product_attention(query, key, value, attn_mask=masks[i, :, -key.shape[2] :]))
        return torch.cat(outs, 2)

    return form


def diag_sdpa(block, causal=False):
    """Attention inside blocks: SDPA on a view, blocks as heads."""

    def form(q, k, v):
        b, h, n, d = q.shape
        fold = lambda x: x.view(b * h, n // block, block, d)  # noqa: E731
        return F.scaled_dot_product_attention(fold(q), fold(k), fold(v), is_causal=causal).view(b, h, n, d)

    return form


def diag_plain(block, causal=False):
    later = torch.ones(block, block, dtype=torch.bool).triu(1)

    def form(q, k, v):
        b, h, n, d = q.shape
        fold = lambda x: x.view(-1, block, d)  # noqa: E731
        scores = torch.bmm(fold(q), fold(k).transpose(1, 2)) * (1.0 / math.sqrt(d))
        if causal:
            scores = scores.masked_fill(later, -math.inf)
        return torch.bmm(scores.softmax(-1), fold(v)).view(b, h, n, d)

    return form


def elu_plus_one(x):
    return F.elu(x) + 1.0


def divide(numerator, denominator, eps=1e-6):
    return numerator / (denominator + eps)


def norm_over_heads(y, eps=1e-6):
    """RMSNorm without gain over all heads of a position; y (b, h, n, d)."""
    return y * torch.rsqrt(y.square().mean((1, 3), keepdim=True) + eps)


def norm_bidirectional():
    def form(q, k, v):
        q, k = elu_plus_one(q), elu_plus_one(k)
        return norm_over_heads(q @ (k.transpose(-2, -1) @ v))

    return form


def linear_bidirectional():
    def form(q, k, v):
        q, k = elu_plus_one(q), elu_plus_one(k)
        return divide(q @ (k.transpose(-2, -1) @ v), q @ k.sum(-2).unsqueeze(-1))

    return form


def chunked_causal(q, k, v, chunk):
    """sum over j <= i of (q_i . k_j) v_j: states between chunks, a triangle of scores inside each."""
    b, h, n, d = q.shape
    q, k, v = (x.reshape(b, h, n // chunk, chunk, -1) for x in (q, k, v))
    states = k.transpose(-2, -1) @ v
    before = states.cumsum(2) - states
    inside = (q @ k.transpose(-2, -1)).tril()
    return (q @ before + inside @ v).reshape(b, h, n, -1)


def norm_causal(chunk):
    return lambda q, k, v: norm_over_heads(chunked_causal(elu_plus_one(q), elu_plus_one(k), v, chunk))


def linear_causal(chunk):
    """The denominator from running sums of the keys."""

    def form(q, k, v):
        q, k = elu_plus_one(q), elu_plus_one(k)
        return divide(chunked_causal(q, k, v, chunk), (q * k.cumsum(2)).sum(-1, keepdim=True))

    return form


def linear_causal_ones(chunk):
    """The denominator as one more column of the values."""

    def form(q, k, v):
        y = chunked_causal(elu_plus_one(q), elu_plus_one(k), F.pad(v, (0, 1), value=1.0), chunk)
        return divide(y[..., :-1], y[..., -1:])

    return form
