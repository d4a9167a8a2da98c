"""Every mechanism on the card, forward and backward, beside the same call on the CPU, in every type."""

import numpy as np
import pytest
import torch
from helpers import SHAPE, WIDTH, mechanism_cases

import fovea
import fovea.torch

WIDE = (2, 70, 4, 64)  # more than a tile; a width of the tensor cores
SMALL = SHAPE


def case(info, shape, dtype):
    """q, k, v, input and weights on the CPU in double, rounded to the type."""
    torch.manual_seed(5)
    options = {} if "bidirectional" in info.features else {"causal": True}
    given = {name: torch.randn(shape, dtype=torch.float64) for name in "qkv"}
    if info.needs_input:
        given["input"] = torch.randn(shape[0], shape[1], WIDTH, dtype=torch.float64)
    mechanism = fovea.Mechanism(info.name).init(heads=shape[2], d_k=shape[3], width=WIDTH if info.needs_input else 0,
                                                max_length=shape[1], dtype=np.float64)
    weights = [torch.from_numpy(w.copy()) for w in mechanism.weights.values()]
    return options, {name: x.to(dtype) for name, x in given.items()}, weights


def work(info, options, given, weights, device, dtype):
    """Output and gradients, in double on the CPU."""
    x = {name: a.detach().clone().to(device, dtype).requires_grad_() for name, a in given.items()}
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    w = [a.detach().clone().to(device, wide).requires_grad_() for a in weights]
    rest = {"input": x["input"]} if "input" in x else {}
    out = fovea.attention(x["q"], x["k"], x["v"], info.name, weights=w, **rest, **options)
    assert out.device == x["q"].device and out.dtype == dtype
    torch.manual_seed(6)
    out.backward(torch.randn(out.shape, dtype=torch.float64).to(device, dtype))
    leaves = [*x.values(), *w]
    return [out.detach().cpu().double()] + [torch.zeros(1) if a.grad is None else a.grad.cpu().double() for a in leaves]


def distance(a, b):
    return float((a - b).norm() / (b.norm() + 1e-30)) if b.norm() > 1e-12 else float(a.norm())


@pytest.mark.parametrize("shape", [SMALL, WIDE], ids=["small", "wide"])
@pytest.mark.parametrize("info", mechanism_cases())
def test_as_on_the_cpu_in_double(info, shape):
    options, given, weights = case(info, shape, torch.float64)
    here = work(info, options, given, weights, "cuda", torch.float64)
    there = work(info, options, given, weights, "cpu", torch.float64)
    for a, b in zip(here, there):
        assert distance(a, b) < 1e-9


# Relative errors of whole tensors against the double result on the same, rounded, inputs; gradients within ten times.
BOUNDS = {torch.float32: 2e-5, torch.bfloat16: 2e-2, torch.float16: 4e-3}


@pytest.mark.parametrize("dtype", list(BOUNDS), ids=["f32", "bf16", "f16"])
@pytest.mark.parametrize("info", mechanism_cases())
def test_narrower_types(info, dtype):
    options, given, weights = case(info, WIDE, dtype)
    here = work(info, options, given, weights, "cuda", dtype)
    there = work(info, options, given, weights, "cpu", dtype)
    exact = work(info, options, given, weights, "cpu", torch.float64)
    for i, (a, b, c) in enumerate(zip(here, there, exact)):
        # What the CPU loses in this type, the card may lose too: choices of keys may differ by rounding.
        assert distance(a, c) < max(BOUNDS[dtype] * (1 if i == 0 else 10), 3 * distance(b, c)), i


@pytest.mark.parametrize("info", mechanism_cases())
def test_the_same_bits_again(info):
    options, given, weights = case(info, WIDE, torch.bfloat16)
    first = work(info, options, given, weights, "cuda", torch.bfloat16)
    again = work(info, options, given, weights, "cuda", torch.bfloat16)
    for a, b in zip(first, again):
        assert torch.equal(a, b) or (torch.isnan(a) == torch.isnan(b)).all()
