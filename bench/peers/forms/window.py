"""Attention to a window of keys before the query."""

import math

import torch
import torch.nn.functional as F
from torch.nn.attention.flex_attention import create_block_mask, flex_attention


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
