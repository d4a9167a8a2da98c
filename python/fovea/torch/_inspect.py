"""inspect() for tensors of PyTorch."""

from __future__ import annotations

from typing import Any

import torch

from fovea._inspect import Inspection, inspect_attention
from fovea._mechanism import Mechanism


def inspect(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mechanism: str | Mechanism = "softmax", **options: Any) -> Inspection:
    """What attention of q, k and v (batch, n, heads, dim) reads: entropy, sinks, distances, classes and maps of each head.

    Nothing n x n is made. Tensors may lie anywhere and need no gradient; options are those of fovea.torch.attention() and of
    fovea.inspect(). ``inspect(q, k, v, causal=True).save("page.html")`` writes a page to look at.
    """
    def plain(x: Any) -> Any:
        if isinstance(x, torch.Tensor):
            x = x.detach().cpu()
            return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x
        return x

    return inspect_attention(plain(q), plain(k), plain(v), mechanism, **{name: plain(value) for name, value in options.items()})
