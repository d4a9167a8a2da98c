"""The LRA presets of fovea as a PyTorch model: the same layers, parameter names and initial values."""

import fovea.torch
import torch
import torch.nn.functional as F
from torch import nn

from forms.attention import diag_plain
from forms.linear import norm_bidirectional

WIDTH, HEADS, DIAG_BLOCK, CLASSIFIER_HIDDEN = 64, 2, 64, 128


def diag_blocks(q, k, v, dropout):
    """forms.attention.diag_plain, with dropout of the weights."""
    if dropout == 0.0:
        return diag_plain(DIAG_BLOCK)(q, k, v)
    fold = lambda x: x.reshape(-1, DIAG_BLOCK, x.shape[-1])  # noqa: E731
    weights = (torch.bmm(fold(q), fold(k).transpose(1, 2)) * q.shape[-1] ** -0.5).softmax(-1)
    return torch.bmm(F.dropout(weights, dropout), fold(v)).view(q.shape)


MIXERS = {
    "softmax": lambda q, k, v, dropout: F.scaled_dot_product_attention(q, k, v, dropout_p=dropout),
    "diag": diag_blocks,
    "norm": lambda q, k, v, dropout: norm_bidirectional()(q, k, v),
}
PRESETS = {
    "transformer": {"layers": ("softmax", "softmax"), "gated": False, "inner": 128},
    "transnormer-t2": {"layers": ("diag", "norm"), "gated": True, "inner": 85},
    "norm": {"layers": ("norm", "norm"), "gated": True, "inner": 85},
    "diag": {"layers": ("diag", "diag"), "gated": True, "inner": 85},
}


class AttentionLayer(nn.Module):
    def __init__(self, mixer, attention_dropout):
        super().__init__()
        self.mix, self.dropout = MIXERS[mixer], attention_dropout
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        b, n, _ = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, HEADS, -1).permute(2, 0, 3, 1, 4).contiguous().unbind(0)
        mixed = self.mix(q, k, v, self.dropout)
        return self.out(mixed.transpose(1, 2).reshape(b, n, WIDTH))


class FoveaLayer(AttentionLayer):
    """The same layer with fovea's attention, which reads q, k and v where the projection left them."""

    def __init__(self, mixer, attention_dropout):
        super().__init__(mixer, attention_dropout)
        self.attend = fovea.torch.Attention(mixer, dropout=attention_dropout)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, HEADS, -1)).unbind(2)
        return self.out(self.attend(q, k, v).flatten(-2))


class FeedForward(nn.Module):
    def __init__(self, gated, inner, dropout):
        super().__init__()
        self.gated, self.dropout = gated, dropout
        setattr(self, "in", nn.Linear(WIDTH, 2 * inner if gated else inner))
        self.out = nn.Linear(inner, WIDTH)

    def forward(self, x):
        hidden = getattr(self, "in")(x)
        if self.gated:
            gate, value = hidden.chunk(2, -1)
            hidden = F.silu(gate) * value
        else:
            hidden = F.gelu(hidden)
        return self.out(F.dropout(hidden, self.dropout))


class EncoderLayer(nn.Module):
    def __init__(self, attention, preset, dropout):
        super().__init__()
        self.dropout = dropout
        self.attention_norm, self.feed_forward_norm = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = attention
        self.feed_forward = FeedForward(preset["gated"], preset["inner"], dropout)

    def forward(self, x):
        x = x + F.dropout(self.attention(self.attention_norm(x)), self.dropout)
        return x + F.dropout(self.feed_forward(self.feed_forward_norm(x)), self.dropout)


class Classifier(nn.Module):
    """Token and position embeddings, encoder, mean over positions, two-layer classifier."""

    def __init__(self, work, layer=AttentionLayer):
        super().__init__()
        preset = PRESETS[work.preset]
        self.dropout = work.dropout
        self.tokens = nn.Parameter(torch.empty(work.vocabulary, WIDTH))
        self.positions = nn.Parameter(torch.empty(work.n, WIDTH))
        self.layers = nn.ModuleList(
            EncoderLayer(layer(mixer, work.attention_dropout), preset, work.dropout) for mixer in preset["layers"]
        )
        self.final_norm = nn.LayerNorm(WIDTH)
        self.hidden = nn.Linear(WIDTH, CLASSIFIER_HIDDEN)
        self.out = nn.Linear(CLASSIFIER_HIDDEN, work.classes)

    def forward(self, ids, targets):
        x = F.dropout(F.embedding(ids, self.tokens) + self.positions, self.dropout)
        for layer in self.layers:
            x = layer(x)
        logits = self.out(F.relu(self.hidden(self.final_norm(x).mean(1))))
        return F.cross_entropy(logits, targets)


def fovea_name(name):
    """The name that fovea gives a parameter of Classifier."""
    if name in ("tokens", "positions"):
        return f"embedding.{name}"
    if name.split(".")[0] in ("hidden", "out"):
        name = f"classifier.{name}"
    return name.replace("norm.weight", "norm.gain")
