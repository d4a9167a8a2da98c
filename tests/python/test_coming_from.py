"""docs/coming-from.md: their call and ours give the same numbers and gradients. Of packages that are not here, their formula."""

import math
import re
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

PAGE = (Path(__file__).resolve().parents[2] / "docs/coming-from.md").read_text("utf-8")
SETUP, *SECTIONS = PAGE.split("\n## ")


def blocks(section):
    return re.findall(r"^```python\n(.*?)^```", section, re.M | re.S)


def softmax(q, k, v, keep):
    scores = torch.einsum("bihd,bjhd->bhij", q, k) / math.sqrt(q.shape[-1])
    return torch.einsum("bhij,bjhd->bihd", scores.masked_fill(~keep, -math.inf).softmax(-1), v)


def causal(n):
    return torch.ones(n, n, dtype=torch.bool).tril()


def xformers(q, k, v):
    packed = [x.flatten(0, 1)[None] for x in (q, k, v)]
    place = torch.repeat_interleave(torch.arange(3), torch.tensor([100, 30, 62]))
    return softmax(*packed, (place[:, None] == place) & causal(192))


def x_transformers(q, k, v):
    scores = torch.einsum("bihd,bjhd->bhij", q, k) / math.sqrt(q.shape[-1])
    least = scores.topk(8, dim=-1).values[..., -1:]
    return softmax(q, k, v, scores >= least)


def fla(q, k, v):
    decay = torch.log2(1 - 2.0 ** (-5 - torch.arange(8, dtype=torch.float64)))
    distance = (torch.arange(96)[:, None] - torch.arange(96)).to(torch.float64)
    weights = torch.where(distance >= 0, 2 ** (decay[:, None, None] * distance), 0.0)
    return torch.einsum("bhij,bjhd->bihd", torch.einsum("bihd,bjhd->bhij", q, k) * q.shape[-1] ** -0.5 * weights, v)


def fast_transformers(q, k, v):
    f, g = F.elu(q) + 1, F.elu(k) + 1
    weights = torch.einsum("bihd,bjhd->bhij", f, g) * causal(96)
    return torch.einsum("bhij,bjhd->bihd", weights / (weights.sum(-1, keepdim=True) + 1e-6), v)


def llm_c(qkv, heads):
    q, k, v = qkv.unflatten(-1, (3, heads, -1)).unbind(2)
    return softmax(q, k, v, causal(q.shape[1])).flatten(2)


FORMULAS = {"xFormers": xformers, "x-transformers": x_transformers, "fla (flash-linear-attention)": fla,
            "fast-transformers": fast_transformers}


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.partition("\n")[0])
def test_the_same_numbers(section):
    name = section.partition("\n")[0]
    theirs, ours = blocks(section)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        torch.manual_seed(1)
        space = {"attention_forward": llm_c}
        exec(compile(blocks(SETUP)[0], "setup", "exec"), space)
        inputs = [space[name] for name in "qkv"]
        if name in FORMULAS:
            compile(theirs, name, "exec")
            space["theirs"] = FORMULAS[name](*inputs)
        else:
            if "Flex" in name:  # it has no gradients on a CPU
                space |= {one: space[one].detach() for one in "qkv"}
            exec(compile(theirs, name, "exec"), space)
        exec(compile(ours, name, "exec"), space)
        torch.testing.assert_close(space["ours"], space["theirs"], atol=1e-9, rtol=1e-9)
        assert space["ours"].shape == space["theirs"].shape
        if space["theirs"].requires_grad and space["theirs"].grad_fn is not None and "x" not in space:
            grad = torch.randn_like(space["theirs"])
            expected = torch.autograd.grad(space["theirs"], inputs, grad, retain_graph=True)
            for one, other in zip(torch.autograd.grad(space["ours"], inputs, grad), expected):
                torch.testing.assert_close(one, other, atol=1e-8, rtol=1e-8)
    finally:
        torch.set_default_dtype(before)


def test_top_left_and_rows_that_read_nothing():
    """What the table says of scaled_dot_product_attention."""
    import fovea

    q, k, v = torch.randn(1, 5, 2, 8).double(), torch.randn(1, 9, 2, 8).double(), torch.randn(1, 9, 2, 8).double()
    theirs = F.scaled_dot_product_attention(*(x.transpose(1, 2) for x in (q, k, v)), is_causal=True).transpose(1, 2)
    torch.testing.assert_close(fovea.attention(q, k, v, causal=True, align="top-left"), theirs)
    mask = torch.ones(5, 9, dtype=torch.bool)
    mask[2] = False
    assert (fovea.attention(q, k, v, mask=mask)[0, 2] == 0).all()
    grouped = F.scaled_dot_product_attention(*(x.transpose(1, 2) for x in (q, k[:, :, :1], v[:, :, :1])), enable_gqa=True)
    torch.testing.assert_close(fovea.attention(q, k[:, :, :1], v[:, :, :1]), grouped.transpose(1, 2))


def test_every_origin_is_there():
    named = [section.partition("\n")[0] for section in SECTIONS]
    for origin in ("scaled_dot_product_attention", "MultiheadAttention", "FlexAttention", "xFormers", "x-transformers", "fla",
                   "fast-transformers", "llm.c"):
        assert any(origin in name for name in named), origin
