"""Layers of PyTorch models."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fovea._attention import OPTIONS, read_options
from fovea._mechanism import Mechanism
from fovea.torch._attention import check_tensors, run, split


class Attention(nn.Module):
    """A mechanism as a layer: q, k, v (b, n, heads, width of a head) to an output like q, with its weights as parameters
    (those that are learned) and buffers (those that are drawn once), with _ for a dot in their names. Options are those of
    fovea.attention, for every call.
    Weights start as torch.manual_seed says, unless the mechanism has some or a seed of its own.

    >>> layer = Attention("linformer", heads=2, head_dim=8, max_length=16)
    >>> q = torch.randn(1, 16, 2, 8)
    >>> layer(q, q, q).shape
    torch.Size([1, 16, 2, 8])
    """

    def __init__(self, mechanism: str | Mechanism = "softmax", *, heads: int = 0, head_dim: int = 0,
                 kv_heads: int | None = None, input_dim: int = 0, max_length: int = -1, dropout: float = 0.0,
                 **options: Any) -> None:
        super().__init__()
        chosen, _ = read_options(mechanism, options)
        if chosen._weights is None and chosen.weight_names:
            if not heads or not head_dim:
                raise ValueError(f'mechanism "{chosen.name}" has weights: give heads and head_dim')
            seed = int(torch.randint(0, 2**62, ())) if chosen.seed is None else chosen.seed
            chosen = Mechanism(chosen.text).init(heads=heads, d_k=head_dim, kv_heads=kv_heads, width=input_dim,
                                                 max_length=max_length, seed=seed)
        self.dropout = dropout
        self.options = {name: value for name, value in options.items() if name in OPTIONS}
        self.mechanism = chosen.text
        self.weight_names = chosen.weight_names
        for name, array in chosen.weights.items():
            value = torch.from_numpy(np.array(array))
            if name in chosen.weights.trained:
                self.register_parameter(_attribute(name), nn.Parameter(value))
            else:
                self.register_buffer(_attribute(name), value)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Any:
        check_tensors(q, k, v)
        options = {"training": self.training, **self.options, **options}
        if self.training and self.dropout > 0.0:
            options["dropout_p"] = self.dropout
        weights = [getattr(self, _attribute(name)) for name in self.weight_names]
        return run(q, k, v, *split(self.mechanism, options, q.device), weights)

    def extra_repr(self) -> str:
        return ", ".join([self.mechanism, *(f"{name}={value!r}" for name, value in self.options.items())])


def _attribute(weight: str) -> str:
    """What a weight is called in a module, whose names have no dots."""
    return weight.replace(".", "_")


class MultiheadAttention(nn.MultiheadAttention):
    """torch.nn.MultiheadAttention with any mechanism: the same constructor, parameters and state_dict. The weights of
    pairs are never stored: need_weights=True is refused, and the second result is always None.

    >>> layer = MultiheadAttention(16, 2, batch_first=True, mechanism="norm")
    >>> x = torch.randn(3, 10, 16)
    >>> layer(x, x, x)[0].shape
    torch.Size([3, 10, 16])
    """

    def __init__(self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True, add_bias_kv: bool = False,
                 add_zero_attn: bool = False, kdim: int | None = None, vdim: int | None = None, *,
                 batch_first: bool = False, device: Any = None, dtype: Any = None,
                 mechanism: str | Mechanism = "softmax", max_length: int = -1, **options: Any) -> None:
        if add_bias_kv or add_zero_attn:
            raise NotImplementedError("fovea's MultiheadAttention adds no keys of its own (add_bias_kv, add_zero_attn)")
        super().__init__(embed_dim, num_heads, dropout, bias, kdim=kdim, vdim=vdim, batch_first=batch_first,
                         device=device, dtype=dtype)
        self.attend = Attention(mechanism, heads=num_heads, head_dim=embed_dim // num_heads, input_dim=kdim or embed_dim,
                                max_length=max_length, dropout=dropout, **options).to(device)
        chosen = Mechanism(self.attend.mechanism)
        self._needs_input, self._takes_masks = chosen.needs_input, chosen.supports("bias")

    def forward(self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None = None,
                need_weights: bool = False, attn_mask: Tensor | None = None, average_attn_weights: bool = True,
                is_causal: bool = False) -> tuple[Tensor, None]:
        """As torch's: in masks of booleans true is left out, others are added to the scores."""
        if need_weights:
            raise NotImplementedError("fovea's MultiheadAttention never stores the weights of pairs\n"
                                      "  try     need_weights=False")
        batched = query.dim() == 3
        given = [x if batched else x.unsqueeze(0) for x in (query, key, value)]
        if batched and not self.batch_first:
            given = [x.transpose(0, 1) for x in given]
        q, k, v = (x.unflatten(-1, (self.num_heads, -1)) for x in self._project(*given))
        options = self._options(q, k, key_padding_mask, None if is_causal else attn_mask)
        if is_causal:
            options["causal"] = True
        if self._needs_input:
            options["input"] = given[1]
        out = self.out_proj(self.attend(q, k, v, **options).flatten(-2))
        if not batched:
            return out.squeeze(0), None
        return out if self.batch_first else out.transpose(0, 1), None

    def _project(self, query: Tensor, key: Tensor, value: Tensor) -> list[Tensor]:
        if self._qkv_same_embed_dim:
            parts = list(self.in_proj_weight.chunk(3))
        else:
            parts = [self.q_proj_weight, self.k_proj_weight, self.v_proj_weight]
        biases = [None] * 3 if self.in_proj_bias is None else list(self.in_proj_bias.chunk(3))
        return [F.linear(x, w, b) for x, w, b in zip((query, key, value), parts, biases)]

    def _options(self, q: Tensor, k: Tensor, padding: Tensor | None, mask: Tensor | None) -> dict[str, Any]:
        options: dict[str, Any] = {}
        if padding is not None and padding.dim() == 1:
            padding = padding.unsqueeze(0)
        if padding is not None and not self._takes_masks:
            options["lengths_k" if q.shape[1] != k.shape[1] else "lengths"] = _lengths(padding)
        elif padding is not None:
            options = _with_mask(options, padding[:, None, None, :])
        if mask is not None:
            if mask.dim() == 3:
                mask = mask.unflatten(0, (-1, self.num_heads))
            options = _with_mask(options, mask)
        return options


def _with_mask(options: dict[str, Any], mask: Tensor) -> dict[str, Any]:
    """Adds a mask as torch.nn.MultiheadAttention has it to those there are."""
    if mask.dtype != torch.bool:
        return {**options, "bias": mask}
    return {**options, "mask": ~mask & options["mask"] if "mask" in options else ~mask}


def _lengths(padding: Tensor) -> Tensor:
    """Padding (b, n), true at the end of each row, as lengths: for mechanisms that know no pairs."""
    if padding.dtype != torch.bool:
        padding = padding != 0
    lengths = (~padding).sum(1)
    if not torch.compiler.is_compiling() and bool((padding[:, 1:] < padding[:, :-1]).any()):
        raise NotImplementedError("this mechanism takes padding only at the end of each sequence")
    return lengths


class TransNormerBlock(nn.Module):
    """A layer of TransNormer: attention and a gated feed-forward part, each behind a norm and beside a residual. Local
    layers have mechanism "diag", global ones "norm" (Qin et al. 2022).

    >>> block = TransNormerBlock(32, 4, mechanism="norm")
    >>> block(torch.randn(2, 12, 32)).shape
    torch.Size([2, 12, 32])
    """

    def __init__(self, width: int, heads: int, mechanism: str | Mechanism = "norm", *, inner: int | None = None,
                 dropout: float = 0.0, **options: Any) -> None:
        super().__init__()
        if width % heads != 0:
            raise ValueError(f"{heads} heads do not divide the width {width}")
        inner = inner or (4 * width) // 3
        self.heads = heads
        self.attention_norm, self.feed_forward_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.gate, self.down = nn.Linear(width, 2 * inner), nn.Linear(inner, width)
        self.dropout = nn.Dropout(dropout)
        self.attend = Attention(mechanism, heads=heads, head_dim=width // heads, input_dim=width, **options)

    def forward(self, x: Tensor, **options: Any) -> Tensor:
        q, k, v = self.qkv(self.attention_norm(x)).unflatten(-1, (3, self.heads, -1)).unbind(-3)
        x = x + self.dropout(self.out(self.attend(q, k, v, **options).flatten(-2)))
        gate, value = self.gate(self.feed_forward_norm(x)).chunk(2, dim=-1)
        return x + self.dropout(self.down(F.silu(gate) * value))
