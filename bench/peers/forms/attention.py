"""Softmax attention over everything, with a bias, and inside blocks."""

import math

import torch
import torch.nn.functional as F


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
