"""Linear attention: sums over the keys, or running sums in chunks."""

import torch
import torch.nn.functional as F


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
