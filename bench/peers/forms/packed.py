"""Sequences of different lengths, and documents inside one sequence."""

import torch
import torch.nn.functional as F
from torch.nn.attention.flex_attention import create_block_mask, flex_attention


def padded_sdpa(lengths):
    """(sequences, heads, longest, dim), the padding hidden."""
    real = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    mask = real[:, None, None, :]
    return lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def sequence_loop_sdpa(lengths):
    """One call for each sequence."""

    def form(q, k, v):
        parts = zip(*(x.split(lengths, 2) for x in (q, k, v)))
        return torch.cat([F.scaled_dot_product_attention(*part) for part in parts], 2)

    return form


def document_of(lengths):
    return torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))


def document_masked_sdpa(lengths, window):
    document, place = document_of(lengths), torch.arange(sum(lengths))
    distance = place[:, None] - place[None, :]
    mask = (document[:, None] == document[None, :]) & (distance >= 0) & (distance <= window)
    return lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def document_flex(lengths, window):
    document, n = document_of(lengths), sum(lengths)
    keep = lambda b, h, i, j: (document[i] == document[j]) & (i >= j) & (i - j <= window)  # noqa: E731
    blocks = create_block_mask(keep, None, None, n, n, device="cpu")
    return lambda q, k, v: flex_attention(q, k, v, block_mask=blocks)
