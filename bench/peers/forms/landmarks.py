"""Keys and values compressed to a few: linformer, nystrom."""

import torch
import torch.nn.functional as F


def linformer_sdpa():
    """Weights (slots, n), for keys and for values."""
    return lambda q, k, v, e, f: F.scaled_dot_product_attention(q, e @ k, f @ v)


def linformer_plain():
    return lambda q, k, v, e, f: soft(q, e @ k) @ (f @ v)


def soft(q, k):
    return ((q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1)).softmax(-1)


def means(x, landmarks=64):
    """The means of equal segments."""
    b, h, n, d = x.shape
    return x.view(b, h, landmarks, n // landmarks, d).mean(3)


def inverse(a, steps=6):
    """Iterations towards the pseudo-inverse of a (.., landmarks, landmarks)."""
    eye = torch.eye(a.shape[-1])
    z = a.transpose(-2, -1) / a.sum(-2, keepdim=True).amax(-1, keepdim=True)
    for _ in range(steps):
        az = a @ z
        z = 0.25 * z @ (13 * eye - az @ (15 * eye - az @ (7 * eye - az)))
    return z


def nystrom_sdpa():
    """Neither of the two tall factors is stored."""

    def form(q, k, v):
        q_means, k_means = means(q), means(k)
        middle = inverse(soft(q_means, k_means)) @ F.scaled_dot_product_attention(q_means, k, v)
        return F.scaled_dot_product_attention(q, k_means, middle)

    return form


def nystrom_plain():
    def form(q, k, v):
        q_means, k_means = means(q), means(k)
        middle = inverse(soft(q_means, k_means)) @ (soft(q_means, k) @ v)
        return soft(q, k_means) @ middle

    return form
