"""Mechanism objects and the weights they hold."""

import numpy as np
import pytest
from helpers import arrays

import fovea


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
