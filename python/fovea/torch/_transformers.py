"""fovea as an attention implementation of Hugging Face transformers."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from fovea._attention import read_options
from fovea._mechanism import Mechanism
from fovea.torch._attention import attention


def register_transformers(mechanism: str | Mechanism = "softmax", name: str = "fovea", **options: Any) -> None:
    """Makes ``attn_implementation=name`` known to transformers: models loaded with it, or switched by
    ``model.set_attn_implementation(name)``, attend with this mechanism."""
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

    chosen, _ = read_options(mechanism, options)
    takes_masks = chosen.supports("bias")

    def forward(module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None,
                scaling: float | None = None, dropout: float = 0.0, **_: Any) -> tuple[Tensor, None]:
        """q, k and v (b, h, n, d); the output (b, n, h, d)."""
        call: dict[str, Any] = {"training": module.training, **options}
        if attention_mask is None:
            is_causal = bool(getattr(module, "is_causal", False)) and query.shape[2] > 1
            call["causal"] = is_causal
        elif takes_masks:
            call["mask" if attention_mask.dtype.is_floating_point is False else "bias"] = attention_mask
        else:
            raise NotImplementedError(f'mechanism "{chosen.name}" takes no mask of pairs: use batches without padding')
        if scaling is not None and chosen.supports("scale"):
            call["scale"] = scaling
        if dropout > 0.0:
            call["dropout_p"] = dropout
        out = attention(query, key, value, mechanism, layout="bhnd", **call)
        return out.transpose(1, 2).contiguous(), None

    AttentionInterface.register(name, forward)
    AttentionMaskInterface.register(name, sdpa_mask)
