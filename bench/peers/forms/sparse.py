"""Sparse patterns by gathering the blocks that are read: bigbird, longformer."""

import math

import torch
import torch.nn.functional as F


def attend(q, k, v, hidden=None):
    """Two products and a softmax; true in hidden leaves a pair out."""
    scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1)
    if hidden is not None:
        scores = scores.masked_fill(hidden, -math.inf)
    return scores.softmax(-1) @ v


def fused(q, k, v, hidden=None):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=None if hidden is None else ~hidden)


def blocks_read(mechanism, n, heads, block):
    """(heads, n / block, n / block) bool: the blocks of keys that each block of queries reads in fovea.

    With equal scores an output is the mean of the values read, and each value here is the name of its block.
    """
    import fovea.torch

    count = n // block
    zeros = torch.zeros(1, n, heads, 8)
    names = torch.eye(count).repeat_interleave(block, 0).view(1, n, 1, count).expand(1, n, heads, count)
    mean = fovea.torch.attention(zeros, zeros, names.contiguous(), mechanism)[0]
    return (mean[::block] > 0).transpose(0, 1)


def bigbird(n, heads, block, attention):
    """Rows of blocks that read equally many blocks are gathered and computed together; none needs a mask."""
    read = blocks_read("bigbird", n, heads, block)
    per_row = read.sum(-1)  # (heads, rows); the same in every head
    groups = []
    for size in per_row[0].unique().tolist():
        rows = (per_row[0] == size).nonzero().flatten()
        keys = read[:, rows].nonzero()[:, 2].view(heads, len(rows), size)
        groups.append((rows, None if size == n // block else keys))
    order = torch.cat([rows for rows, _ in groups]).argsort()
    head = torch.arange(heads)[:, None, None]

    def form(q, k, v):
        b, h, _, d = q.shape
        q_blocks, k_blocks, v_blocks = (x.view(h, -1, block, d) for x in (q, k, v))
        outs = []
        for rows, keys in groups:
            if keys is None:  # reads everything: all these rows as one long block of queries
                out = attention(q_blocks[:, rows].flatten(1, 2).unsqueeze(0), k, v)
                outs.append(out.view(h, -1, block, d))
            else:
                gathered = (x[head, keys].flatten(2, 3) for x in (k_blocks, v_blocks))
                outs.append(attention(q_blocks[:, rows], *gathered))
        return torch.cat(outs, 1)[:, order].reshape(b, h, n, d)

    return form


def bigbird_sdpa(n, heads, block):
    return bigbird(n, heads, block, fused)


def bigbird_plain(n, heads, block):
    return bigbird(n, heads, block, attend)


def longformer(n, window, block, attention):
    """One global token, the first, in front of each block's window of keys; its own row reads everything."""
    width = block + 2 * window
    query = torch.arange(n).view(-1, block, 1)
    key = query[:, :1] - window + torch.arange(width)
    hidden = F.pad(~((key > 0) & (key < n) & ((key - query).abs() <= window)), (1, 0))  # key 0 is the global one

    def form(q, k, v):
        b, h, _, d = q.shape

        def windows(x):
            near = F.pad(x, (0, 0, window, window)).unfold(2, width, block).transpose(-2, -1)
            first = x[:, :, None, :1].expand(b, h, n // block, 1, d)
            return torch.cat((first, near), 3).flatten(0, 1)

        out = attention(q.view(b * h, -1, block, d), windows(k), windows(v), hidden).view(b, h, n, d)
        return torch.cat((attention(q[:, :, :1], k, v), out[:, :, 1:]), 2)

    return form


def longformer_sdpa(n, window, block):
    return longformer(n, window, block, fused)


def longformer_plain(n, window, block):
    return longformer(n, window, block, attend)
