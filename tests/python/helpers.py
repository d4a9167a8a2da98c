"""What the tests of the Python package share."""

import numpy as np
import pytest
import torch

import fovea

SHAPE = (2, 13, 4, 8)  # batch, length, heads, width
WIDTH = 6  # of a layer's input


def arrays(rng, shape=SHAPE, dtype=np.float64, count=3):
    return [rng.standard_normal(shape).astype(dtype) for _ in range(count)]


def usual_options(info, rng, dtype=np.float64):
    """Options with which a mechanism of the list runs: its causal form where it has no other, the input it reads."""
    options = {}
    if "bidirectional" not in info.features:
        options["causal"] = True
    if info.needs_input:
        options["input"] = rng.standard_normal((SHAPE[0], SHAPE[1], WIDTH)).astype(dtype)
    return options


def mechanism_cases():
    return [pytest.param(info, id=info.name) for info in fovea.list_mechanisms()]


def heads_of(linear, x, heads):
    return linear(x).unflatten(-1, (heads, -1))


def qkv(module, x, heads, names=("query", "key", "value")):
    """q, k and v (b, n, heads, d) by the projections of a module."""
    return [heads_of(getattr(module, name), x, heads) for name in names]


def layer_input(n=64, width=32, batch=2):
    torch.manual_seed(3)
    return torch.randn(batch, n, width, dtype=torch.float64, requires_grad=True)


def in_double(make, *args, **kwargs):
    """A module of which the constants, too, are made in double."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        torch.manual_seed(1)
        return make(*args, **kwargs).double()
    finally:
        torch.set_default_dtype(before)
