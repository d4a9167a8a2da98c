"""Feature maps and decays: performer, cosformer, retnet."""

import math

import torch

from forms.linear import divide

COSFORMER_PERIOD = 65536


def performer():
    """Directions (features, dim). Factors of a query cancel: it is divided by its largest feature."""

    def form(q, k, v, directions):
        scale = q.shape[-1] ** -0.25
        q_scores = (q * scale) @ directions.t()
        q = torch.exp(q_scores - q_scores.detach().amax(-1, keepdim=True))
        k = k * scale
        k = torch.exp(k @ directions.t() - 0.5 * k.square().sum(-1, keepdim=True))
        return divide(q @ (k.transpose(-2, -1) @ v), q @ k.sum(-2).unsqueeze(-1), eps=0.0)

    return form


def cosines(n):
    angle = torch.arange(n)[:, None] * (math.pi / (2 * COSFORMER_PERIOD))
    return angle.cos(), angle.sin()


def cosformer_joined(n):
    """Cosine and sine features side by side, one product of twice the width."""
    cos, sin = cosines(n)

    def form(q, k, v):
        q, k = (torch.cat((x.relu() * cos, x.relu() * sin), -1) for x in (q, k))
        total = (q @ k.sum(-2).unsqueeze(-1)).clamp(min=1e-6)
        return q @ (k.transpose(-2, -1) @ v) / total

    return form


def cosformer_apart(n):
    """Two products of the width."""
    cos, sin = cosines(n)

    def form(q, k, v):
        q, k = q.relu(), k.relu()
        y, total = 0.0, 0.0
        for wave in (cos, sin):
            a, b = q * wave, k * wave
            y = y + a @ (b.transpose(-2, -1) @ v)
            total = total + a @ b.sum(-2).unsqueeze(-1)
        return y / total.clamp(min=1e-6)

    return form


def retnet(n, chunk, heads):
    """States between chunks by one product with their decays, and a triangle of decayed scores inside each chunk."""
    rate = (1 - 2.0 ** (-5 - torch.arange(heads, dtype=torch.float64))).view(-1, 1, 1)
    place = torch.arange(chunk)
    distance = (place[:, None] - place[None, :]).clamp(min=0)
    inside = (rate**distance).tril().float().unsqueeze(1)  # (heads, 1, chunk, chunk)
    from_before = (rate ** (place[:, None] + 1)).float().unsqueeze(1)  # (heads, 1, chunk, 1)
    to_end = (rate ** (chunk - 1 - place[:, None])).float().unsqueeze(1)

    step = torch.arange(n // chunk)
    age = (step[:, None] - step[None, :] - 1).clamp(min=0)
    between = ((rate**chunk) ** age).tril(-1).float()  # (heads, chunks, chunks)

    def form(q, k, v):
        b, h, _, d = q.shape
        q, k, v = (x.view(b, h, -1, chunk, d) for x in (q, k, v))
        states = ((k * to_end).transpose(-2, -1) @ v).flatten(-2)
        before = (between @ states).view(b, h, -1, d, d)
        y = (q * from_before) @ before + ((q @ k.transpose(-2, -1)) * inside) @ v
        y = (y * d**-0.5).reshape(b, h, n, d)
        return y * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-6)

    return form
