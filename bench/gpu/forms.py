"""Attention as one would write it in PyTorch for a card: products in the type of the inputs, sums and maps in f32.

A form is made for the sizes of a work and is a function of its inputs by name: q, k, v (batch, heads, n, dim), bias, input, and
weights as "w." and their name.
"""

import math

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"  # on the CPU the tests look whether the forms are right


def by_name(function):
    """A form of q, k and v alone."""
    return lambda x: function(x["q"], x["k"], x["v"])


def sdpa(work, backend):
    def form(x):
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(x["q"], x["k"], x["v"], attn_mask=x.get("bias"), is_causal=work.causal)

    return form


def sdpa_flash(work):
    return sdpa(work, SDPBackend.FLASH_ATTENTION)


def sdpa_cudnn(work):
    return sdpa(work, SDPBackend.CUDNN_ATTENTION)


def sdpa_any(work):
    """Whatever takes a bias with a gradient."""
    return sdpa(work, [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH])


def diag_folded(work):
    """Blocks as heads of one SDPA call."""

    def form(q, k, v):
        b, h, n, d = q.shape
        fold = lambda x: x.reshape(b, h * (n // 64), 64, d)  # noqa: E731
        return F.scaled_dot_product_attention(fold(q), fold(k), fold(v), is_causal=work.causal).view(b, h, n, d)

    return by_name(form)


def dense(weigh):
    """Scores in f32, weights from them, products in the type of the inputs."""

    def make(work):
        def form(q, k, v):
            s = (q @ k.transpose(-2, -1)).float() * q.shape[-1] ** -0.5
            return weigh(s, q, k).to(v.dtype) @ v

        return by_name(form)

    return make


def normed(form):
    """The norm over all heads of a position."""

    def make(work):
        inner = form(work)
        return lambda x: over_heads(inner(x))

    return make


def over_heads(y, eps=1e-6):
    wide = y.float()
    return (wide * torch.rsqrt(wide.square().mean((1, 3), keepdim=True) + eps)).to(y.dtype)


def polynomial(s, q, k):
    f = 1 + s + s.square() / 2
    return f / f.sum(-1, keepdim=True)


def largest(s, q, k, keep=32):
    return s.masked_fill(s < s.topk(keep, -1).values[..., -1:], -math.inf).softmax(-1)


def sparsemax(s, q, k):
    z = s.sort(-1, descending=True).values
    count = torch.arange(1, s.shape[-1] + 1, device=s.device)
    total = z.cumsum(-1)
    last = (1 + count * z > total).sum(-1, keepdim=True)
    tau = (total.gather(-1, last - 1) - 1) / last
    return (s - tau).clamp(min=0)


def entmax15(s, q, k):
    s = s / 2
    z = s.sort(-1, descending=True).values
    count = torch.arange(1, s.shape[-1] + 1, device=s.device)
    mean, square = z.cumsum(-1) / count, z.square().cumsum(-1) / count
    tau = mean - ((1 - count * (square - mean.square())) / count).clamp(min=0).sqrt()
    last = (tau <= z).sum(-1, keepdim=True)
    return (s - tau.gather(-1, last - 1)).clamp(min=0).square()


def gaussian(s, q, k):
    """e^(-|q - k|^2 scale / 2), where s is scale q.k."""
    half = lambda x: x.float().square().sum(-1) * (0.5 * x.shape[-1] ** -0.5)  # noqa: E731
    return (s - half(q).unsqueeze(-1) - half(k).unsqueeze(-2)).exp()


def flex(work, keep):
    """FlexAttention of a predicate of positions."""
    mask = create_block_mask(keep, None, None, work.n, work.n, device=DEVICE)
    return by_name(lambda q, k, v: flex_attention(q, k, v, block_mask=mask))


def flex_of(predicate):
    """predicate(i, j); what is later is left out where the work is causal."""

    def make(work):
        if work.causal:
            return flex(work, lambda b, h, i, j: predicate(i, j) & (j <= i))
        return flex(work, lambda b, h, i, j: predicate(i, j))

    return make


def flex_bigbird(work, block=64):
    """The blocks that fovea draws for each head: with equal scores an output is the mean of the values read."""
    import fovea

    count = work.n // block
    zeros = torch.zeros(1, work.n, work.heads, 8)
    names = torch.eye(count).repeat_interleave(block, 0).view(1, work.n, 1, count).expand(1, -1, work.heads, -1)
    read = (fovea.attention(zeros, zeros, names, "bigbird", causal=work.causal)[0, block - 1 :: block] > 0).to(DEVICE)
    keep = lambda b, h, i, j: read[i // block, h, j // block] & ((j <= i) if work.causal else (j >= 0))  # noqa: E731
    mask = create_block_mask(keep, None, work.heads, work.n, work.n, device=DEVICE)
    return by_name(lambda q, k, v: flex_attention(q, k, v, block_mask=mask))


def flex_bias(work):
    """A dense bias (heads, n, n) with its gradient."""

    def form(x):
        bias = x["bias"]
        return flex_attention(x["q"], x["k"], x["v"], score_mod=lambda s, b, h, i, j: s + bias[0, h, i, j])

    return form


def flex_documents(work):
    document = torch.arange(work.n, device=DEVICE) // work.document
    return flex(work, lambda b, h, i, j: (document[i] == document[j]) & (j <= i) & (i - j <= work.window))


def phi(x):
    return (F.elu(x.float()) + 1).to(x.dtype)


def linear_full(work):
    def form(q, k, v):
        q, k = phi(q), phi(k)
        total = (q.float() * k.float().sum(-2, keepdim=True)).sum(-1, keepdim=True) + 1e-6
        return ((q @ (k.transpose(-2, -1) @ v)).float() / total).to(v.dtype)

    return by_name(form)


def norm_full(work):
    return by_name(lambda q, k, v: over_heads(phi(q) @ (phi(k).transpose(-2, -1) @ v)))


def chunks(q, k, v, chunk):
    """sum over j <= i of (q_i . k_j) v_j: states between chunks, a triangle of scores inside each."""
    b, h, n, d = q.shape
    q, k, v = (x.reshape(b, h, n // chunk, chunk, -1) for x in (q, k, v))
    states = (k.transpose(-2, -1) @ v).float()
    before = (states.cumsum(2) - states).to(v.dtype)
    return (q @ before + (q @ k.transpose(-2, -1)).tril() @ v).reshape(b, h, n, -1)


def norm_chunks(work, chunk=128):
    return by_name(lambda q, k, v: over_heads(chunks(phi(q), phi(k), v, chunk)))


def linear_chunks(work, chunk=128):
    def form(q, k, v):
        q, k = phi(q), phi(k)
        total = (q.float() * k.float().cumsum(2)).sum(-1, keepdim=True) + 1e-6
        return (chunks(q, k, v, chunk).float() / total).to(v.dtype)

    return by_name(form)


def decayed(rates, chunk, finish):
    """Decay by head: states between chunks by one product with their ages."""

    def make(work):
        rate = rates(work.heads).view(-1, 1, 1)
        place = torch.arange(chunk, device=DEVICE)
        inside = (rate ** (place[:, None] - place[None, :]).clamp(min=0)).tril().float().unsqueeze(1)
        from_before = (rate ** (place[:, None] + 1)).float().unsqueeze(1)
        to_end = (rate ** (chunk - 1 - place[:, None])).float().unsqueeze(1)
        step = torch.arange(work.n // chunk, device=DEVICE)
        between = ((rate**chunk) ** (step[:, None] - step[None, :] - 1).clamp(min=0)).tril(-1).float()

        def form(q, k, v):
            b, h, n, d = q.shape
            t = v.dtype
            q, k, v = (x.reshape(b, h, -1, chunk, d) for x in (q, k, v))
            states = ((k.float() * to_end).to(t).transpose(-2, -1) @ v).float().flatten(-2)
            before = (between @ states).to(t).view(b, h, -1, d, d)
            scores = ((q @ k.transpose(-2, -1)).float() * inside).to(t)
            return finish(((q.float() * from_before).to(t) @ before + scores @ v).reshape(b, h, n, d))

        return by_name(form)

    return make


def retnet_rates(heads):
    return 1 - 2.0 ** (-5 - torch.arange(heads, dtype=torch.float64, device=DEVICE))


def lightning_rates(heads):
    slopes = 2.0 ** (-8 * (torch.arange(heads, dtype=torch.float64, device=DEVICE) + 1) / heads)
    return torch.exp(-slopes * (1 + 1e-5))


def over_head(y, eps=1e-6):
    wide = y.float() * y.shape[-1] ** -0.5
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)).to(y.dtype)


def gla_chunks(work, chunk=64):
    """Gates of channels: queries and keys are moved to the start of their chunk and back."""

    def form(x):
        q, k, v, t = x["q"], x["k"], x["v"], x["q"].dtype
        b, h, n, d = q.shape
        gates = x["input"] @ x["w.decay.down"].to(t) @ x["w.decay.up"].to(t) + x["w.decay.bias"].to(t)
        log = F.logsigmoid(gates.float()).view(b, n, h, d).transpose(1, 2) / 16
        log = log.reshape(b, h, -1, chunk, d).cumsum(-2)
        q, k, v = (y.reshape(b, h, -1, chunk, d) for y in (q, k, v))
        q_in = (q.float() * log.exp()).to(t)
        k_in = (k.float() * (-log).exp()).to(t)
        total = log[..., -1:, :]
        k_out = (k.float() * (total - log).exp()).to(t)
        states = (k_out.transpose(-2, -1) @ v).float()
        before, state = [], torch.zeros_like(states[:, :, 0])
        for i in range(states.shape[2]):
            before.append(state)
            state = state * total[:, :, i].exp().transpose(-2, -1) + states[:, :, i]
        y = q_in @ torch.stack(before, 2).to(t) + (q_in @ k_in.transpose(-2, -1)).tril() @ v
        return (over_head(y.reshape(b, h, n, d), 1e-5).float() * x["w.norm.gain"]).to(t)

    return form


def performer(work):
    def form(x):
        q, k, v, directions = x["q"], x["k"], x["v"], x["w.directions"].to(x["q"].dtype)
        scale = q.shape[-1] ** -0.25
        q = ((q * scale) @ directions.t()).float()
        q = (q - q.detach().amax(-1, keepdim=True)).exp()
        k = k * scale
        k = ((k @ directions.t()).float() - 0.5 * k.float().square().sum(-1, keepdim=True)).exp()
        total = (q * k.sum(-2, keepdim=True)).sum(-1, keepdim=True)
        q, k = q.to(v.dtype), k.to(v.dtype)
        return ((q @ (k.transpose(-2, -1) @ v)).float() / total).to(v.dtype)

    return form


def cosformer(work, period=65536):
    angle = torch.arange(work.n, device=DEVICE)[:, None] * (math.pi / (2 * period))
    cos, sin = angle.cos(), angle.sin()

    def form(q, k, v):
        q, k = (torch.cat((x.relu() * cos, x.relu() * sin), -1) for x in (q, k))
        total = (q * k.sum(-2, keepdim=True)).sum(-1, keepdim=True).clamp(min=1e-6)
        q, k = q.to(v.dtype), k.to(v.dtype)
        return ((q @ (k.transpose(-2, -1) @ v)).float() / total).to(v.dtype)

    return by_name(form)


def linformer(work):
    def form(x):
        e, f = (x[name][:, : work.n].to(x["q"].dtype) for name in ("w.compress", "w.compress_values"))
        return F.scaled_dot_product_attention(x["q"], e @ x["k"], f @ x["v"])

    return form


def inverse(a, steps=6):
    eye = torch.eye(a.shape[-1], device=a.device)
    z = a.transpose(-2, -1) / a.sum(-2, keepdim=True).amax(-1, keepdim=True)
    for _ in range(steps):
        az = a @ z
        z = 0.25 * z @ (13 * eye - az @ (15 * eye - az @ (7 * eye - az)))
    return z


def nystrom(work, landmarks=64):
    def form(q, k, v):
        b, h, n, d = q.shape
        means = lambda x: x.reshape(b, h, landmarks, n // landmarks, d).float().mean(3)  # noqa: E731
        q_means, k_means = means(q), means(k)
        middle = inverse(((q_means @ k_means.transpose(-2, -1)) * d**-0.5).softmax(-1))
        read = F.scaled_dot_product_attention(q_means.to(q.dtype), k, v)
        return F.scaled_dot_product_attention(q, k_means.to(q.dtype), (middle @ read.float()).to(q.dtype))

    return by_name(form)
