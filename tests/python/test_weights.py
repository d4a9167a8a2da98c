"""Mechanism objects and the weights they hold."""

import numpy as np
import pytest
import torch
from helpers import arrays

import fovea
import fovea.torch


def test_settings():
    mechanism = fovea.Mechanism("diag", block=32)
    assert (mechanism.name, mechanism.text, mechanism.parameters["block"]) == ("diag", "diag:block=32", 32)
    assert repr(mechanism).startswith("Mechanism('diag', block=32")
    assert fovea.Mechanism("diag:block=16", weights="rela").text == "diag:block=16,weights=rela"
    assert mechanism.supports("causal") and len(mechanism.weights) == 0
    with pytest.raises(ValueError, match="unknown feature"):
        mechanism.supports("casual")
    with pytest.raises(ValueError, match="a whole number"):
        fovea.Mechanism("diag", block=0.5)
    with pytest.raises(TypeError, match="bool, a number or a str"):
        fovea.Mechanism("diag", block=[1])


def test_the_list():
    infos = fovea.list_mechanisms()
    assert len(infos) >= 48 and infos[0].name == "softmax"
    causal = fovea.list_mechanisms("causal", "state")
    assert {"norm", "linear"} <= {i.name for i in causal} < {i.name for i in infos}
    assert str(infos[0]).startswith("softmax: ")
    block = next(p for p in next(i for i in infos if i.name == "diag").parameters if p["name"] == "block")
    assert block["default"] == 64 and block["range"][0] == 1
    with pytest.raises(ValueError, match="unknown feature"):
        fovea.list_mechanisms("fast")


def test_weights_can_be_read_and_set(rng):
    q, k, v = arrays(rng)
    mechanism = fovea.Mechanism("performer", features=16)
    with pytest.raises(ValueError, match="no weights yet"):
        mechanism.weights
    mechanism.init(heads=4, d_k=8, dtype=np.float64)
    drawn = {name: array.copy() for name, array in mechanism.weights.items()}
    first = fovea.attention(q, k, v, mechanism)
    name = next(iter(drawn))
    mechanism.weights[name] = drawn[name][::-1]
    np.testing.assert_allclose(fovea.attention(q, k, v, mechanism), first, atol=1e-9)  # features in another order
    mechanism.weights[name] = 2 * drawn[name]
    assert np.abs(fovea.attention(q, k, v, mechanism) - first).max() > 1e-3
    with pytest.raises(ValueError, match="shape"):
        mechanism.weights[name] = np.ones(3)
    with pytest.raises(KeyError):
        mechanism.weights["other"] = drawn[name]


def test_the_seed_draws_them(rng):
    q, k, v = arrays(rng)
    one, same, other = (fovea.attention(q, k, v, fovea.Mechanism("performer", seed=s)) for s in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert np.abs(one - other).max() > 1e-6


@pytest.mark.parametrize("name", ["performer", "linformer", "sinkhorn", "shaw", "softmax"])
def test_files(name, rng, tmp_path):
    q, k, v = arrays(rng)
    info = next(i for i in fovea.list_mechanisms() if i.name == name)
    options = {"input": rng.standard_normal((2, 13, 6))} if info.needs_input else {}
    mechanism = fovea.Mechanism(name, seed=5)
    mechanism.init(heads=4, d_k=8, width=6 if options else 0, max_length=13, dtype=np.float64)
    expected = fovea.attention(q, k, v, mechanism, **options)
    path = tmp_path / "mechanism.safetensors"
    mechanism.save(path)
    loaded = fovea.Mechanism.load(path)
    assert loaded.text == mechanism.text and loaded.seed == 5 and loaded.weights.trained == mechanism.weights.trained
    np.testing.assert_array_equal(fovea.attention(q, k, v, loaded, **options), expected)


def linformer(dtype=np.float64):
    return fovea.Mechanism("linformer", slots=5).init(heads=4, d_k=8, max_length=13, dtype=dtype)


def test_weights_go_by_their_names(rng):
    q, k, v = arrays(rng)
    mechanism = linformer()
    names = list(mechanism.weights)
    assert len(names) >= 2
    expected = fovea.attention(q, k, v, mechanism)
    turned = {name: mechanism.weights[name] for name in reversed(names)}
    plain = fovea.Mechanism("linformer", slots=5)
    np.testing.assert_array_equal(fovea.attention(q, k, v, plain, weights=turned), expected)
    np.testing.assert_array_equal(fovea.attention(q, k, v, plain, weights=mechanism.weights), expected)
    np.testing.assert_array_equal(fovea.attention(q, k, v, plain, weights=list(mechanism.weights.values())), expected)
    swapped = dict(zip(names, (mechanism.weights[name] for name in reversed(names))))
    assert np.abs(fovea.attention(q, k, v, plain, weights=swapped) - expected).max() > 1e-3


def test_weights_of_other_names_are_refused(rng):
    q, k, v = arrays(rng)
    weights = dict(linformer().weights)
    name = next(iter(weights))
    for arrays_of in (lambda x: x, torch.from_numpy):
        given = [arrays_of(x) for x in (q, k, v)]
        wrong = {"x" + n: arrays_of(w) for n, w in weights.items()}
        with pytest.raises(ValueError, match=f'no weight "x{name}"\\n  try     {name}'):
            fovea.attention(*given, "linformer", slots=5, weights=wrong)
        with pytest.raises(ValueError, match=f'also needs the weight "{name}"'):
            fovea.attention(*given, "linformer", slots=5, weights={n: arrays_of(w) for n, w in weights.items() if n != name})
        with pytest.raises(ValueError, match='"softmax" has no weight "gain"'):
            fovea.attention(*given, weights={"gain": arrays_of(q)})


def test_weights_by_name_have_gradients(rng):
    q, k, v = (torch.from_numpy(x) for x in arrays(rng))
    mechanism = linformer()
    given = {name: torch.from_numpy(w).requires_grad_() for name, w in reversed(list(mechanism.weights.items()))}
    out = fovea.attention(q, k, v, "linformer", slots=5, weights=given)
    out.sum().backward()
    expected = fovea.attention_backward(np.ones(q.shape), q.numpy(), k.numpy(), v.numpy(), mechanism)
    for name, weight in given.items():
        np.testing.assert_allclose(weight.grad.numpy(), expected.weights[name], atol=1e-12)
    compiled = torch.compile(lambda q: fovea.torch.attention(q, k, v, "linformer", slots=5, weights=given), backend="aot_eager")
    torch.testing.assert_close(compiled(q), out)


def test_the_seed_of_a_parameter(rng):
    q, k, v = arrays(rng, shape=(1, 96, 2, 8))
    settings = {"block": 8, "random": 1}
    seeded = fovea.Mechanism("bigbird", seed=3, **settings)
    assert seeded.parameters["seed"] == 3 and "seed=3" in seeded.text
    others = [fovea.attention(q, k, v, fovea.Mechanism("bigbird", seed=s, **settings)) for s in (0, 3)]
    assert np.abs(others[0] - others[1]).max() > 1e-3
    with pytest.raises(TypeError, match="seed cannot be 1.5"):
        fovea.Mechanism("performer", seed=1.5)


def test_sizes_that_are_missing():
    with pytest.raises(ValueError, match=r"depends on the longest sequence\n  try     max_length"):
        fovea.Mechanism("linformer").init(heads=2, d_k=8)
    with pytest.raises(ValueError, match=r"depends on the longest sequence\n  try     max_length"):
        fovea.torch.Attention("linformer", heads=2, head_dim=8)
    with pytest.raises(ValueError, match=r"depends on the width of the layer's input[\s\S]*input_dim"):
        fovea.torch.Attention("gla", heads=2, head_dim=8)
