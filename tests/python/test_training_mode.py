"""Training is an argument of its own: what differs while learning, and what does not."""

import numpy as np
import pytest
import torch
from helpers import SHAPE, WIDTH, arrays, mechanism_cases, usual_options

import fovea
import fovea.torch

LEARNERS = ["margin", "sinkhorn:block=4", "lara:landmarks=4", "performer:redraw=iid", "rfa:redraw=forward", "skyformer:landmarks=4",
            "informer:factor=1"]


def small(mechanism):
    """With settings under which 13 tokens show that it draws."""
    return next((text for text in LEARNERS if text.split(":")[0] == mechanism), mechanism)


@pytest.mark.parametrize("mechanism", ["margin", "sinkhorn:block=4", "lara", "performer:redraw=iid"])
def test_a_dropout_of_0_trains_nothing(mechanism, rng):
    q, k, v = arrays(rng)
    plain = fovea.attention(q, k, v, mechanism)
    np.testing.assert_array_equal(fovea.attention(q, k, v, mechanism, dropout_p=0.0), plain)
    np.testing.assert_array_equal(fovea.attention(q, k, v, mechanism, training=False), plain)
    learning = fovea.attention(q, k, v, mechanism, training=True, seed=1)
    assert np.abs(learning - plain).max() > 1e-3
    np.testing.assert_array_equal(fovea.attention(q, k, v, mechanism, training=np.True_, seed=1), learning)


def test_dropout_is_of_training(rng):
    q, k, v = arrays(rng)
    plain = fovea.attention(q, k, v)
    np.testing.assert_array_equal(fovea.attention(q, k, v, dropout_p=0.5, training=False), plain)
    np.testing.assert_array_equal(fovea.attention(q, k, v, training=True), plain)
    dropped = fovea.attention(q, k, v, dropout_p=0.5, training=True, seed=1)
    np.testing.assert_array_equal(fovea.attention(q, k, v, dropout_p=0.5, seed=1), dropped)
    assert np.abs(dropped - plain).max() > 0.01
    with pytest.raises(ValueError, match="dropout"):
        fovea.attention(q, k, v, dropout_p=-0.5)


@pytest.mark.parametrize("info", mechanism_cases())
def test_what_draws_says_so(info, rng):
    q, k, v = arrays(rng)
    options = usual_options(info, rng)
    for text in {info.name, small(info.name)}:
        mechanism = fovea.Mechanism(text, seed=0)
        one, other = (fovea.attention(q, k, v, mechanism, training=True, seed=seed, **options) for seed in (1, 2))
        if text == small(info.name) or not mechanism._engine.draws:
            assert mechanism._engine.draws == bool(np.abs(one - other).max() > 0)


@pytest.mark.parametrize("mechanism", LEARNERS)
def test_layers_know_train_and_eval(mechanism):
    torch.manual_seed(0)
    q, k, v = (torch.randn(SHAPE) for _ in range(3))
    layer = fovea.torch.Attention(mechanism, heads=SHAPE[2], head_dim=SHAPE[3])
    evaluated = layer.eval()(q, k, v)
    torch.testing.assert_close(layer(q, k, v), evaluated, rtol=0, atol=0)
    layer.train()
    torch.manual_seed(1)
    first, second = layer(q, k, v), layer(q, k, v)
    assert (first - evaluated).abs().max() > 1e-3
    assert torch.equal(first, second) == (mechanism == "margin")  # the only one that draws nothing
    torch.manual_seed(1)
    assert torch.equal(layer(q, k, v), first)


def test_a_layer_that_draws_nothing_leaves_the_generator_alone():
    layer = fovea.torch.Attention("softmax").train()
    q = torch.randn(SHAPE)
    before = torch.get_rng_state()
    layer(q, q, q)
    assert torch.equal(torch.get_rng_state(), before)


def test_multihead_attention_trains():
    x = torch.randn(2, 9, 16)
    layer = fovea.torch.MultiheadAttention(16, 4, batch_first=True, mechanism="margin")
    assert (layer.train()(x, x, x)[0] - layer.eval()(x, x, x)[0]).abs().max() > 1e-3
