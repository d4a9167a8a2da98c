"""fovea for PyTorch: every mechanism with autograd, as operators that torch.compile and torch.export accept.

>>> import torch, fovea.torch
>>> q = torch.ones(1, 6, 2, 8, requires_grad=True)
>>> fovea.torch.attention(q, q, q, "norm", causal=True).sum().backward()
>>> q.grad.shape
torch.Size([1, 6, 2, 8])
"""

from fovea.torch._attention import attention
from fovea.torch._inspect import inspect
from fovea.torch._modules import Attention, MultiheadAttention, TransNormerBlock
from fovea.torch._transformers import register_transformers

__all__ = ["Attention", "MultiheadAttention", "TransNormerBlock", "attention", "inspect", "register_transformers"]
