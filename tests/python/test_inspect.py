"""inspect(): statistics against what NumPy makes of the same weights, pages, and what is refused."""

import json
import re

import numpy as np
import pytest
import torch

import fovea
import fovea.torch


def softmax_weights(q, k, causal):
    scores = np.einsum("bihd,bjhd->bhij", q, k) / np.sqrt(q.shape[-1])
    if causal:
        scores = np.where(np.tril(np.ones(scores.shape[-2:], bool)), scores, -np.inf)
    scores = np.exp(scores - scores.max(-1, keepdims=True))
    return scores / scores.sum(-1, keepdims=True)


@pytest.fixture
def qkv():
    rng = np.random.default_rng(3)
    return [rng.standard_normal((1, 20, 2, 8)).astype(np.float32) for _ in range(3)]


@pytest.mark.parametrize("causal", [False, True])
def test_statistics_are_those_of_the_weights(qkv, causal):
    found = fovea.inspect_attention(*qkv, causal=causal)
    weights = softmax_weights(qkv[0].astype(np.float64), qkv[1].astype(np.float64), causal)[0]
    np.testing.assert_allclose(found.weights[0], weights, atol=2e-6)
    for head, w in zip(found.layers[0].heads, weights):
        entropy = -np.where(w > 0, w * np.log(np.where(w > 0, w, 1)), 0).sum(-1)
        np.testing.assert_allclose(head.entropy, entropy, atol=1e-4)
        np.testing.assert_allclose(head.received, w.sum(0), rtol=1e-4)
        np.testing.assert_array_equal(head.largest_key, w.argmax(-1))
        np.testing.assert_allclose(head.largest, w.max(-1), rtol=1e-4)
        np.testing.assert_allclose(head.received.sum(), 20, rtol=1e-5)
        assert head.top_keys.shape == (20, 8) and head["area"] == head.area


def test_torch_tensors_need_no_preparation(qkv):
    q, k, v = (torch.from_numpy(x).requires_grad_() for x in qkv)
    found = fovea.torch.inspect(q, k, v, "norm", causal=True)
    assert found.layers[0].causal and found.layers[0].mechanism.startswith("norm")
    np.testing.assert_allclose(found.weights, fovea.inspect_attention(*qkv, "norm", causal=True).weights)
    half = fovea.torch.inspect(q.bfloat16(), k.bfloat16(), v.bfloat16(), causal=True)
    np.testing.assert_allclose(half.weights, fovea.inspect_attention(*qkv, causal=True).weights, atol=0.03)


def test_models_and_pages(tmp_path):
    model = fovea.Model("diag/norm", vocabulary=16, classes=3, width=16, heads=2)
    found = fovea.inspect(model, ids=[[5, 1, 7, 9, 2, 3]], out=tmp_path / "page.html")
    assert [layer.mechanism.split(":")[0] for layer in found.layers] == ["diag", "norm"]
    assert found.weights.shape == (2, 2, 6, 6)
    page = (tmp_path / "page.html").read_text()
    meta = json.loads(re.search(r'id="meta">(.*?)</script>', page, re.S)[1])
    assert len(meta["heads"]) == 4
    assert meta["texts"][0]["tokens"] == ["5 ", "1 ", "7 ", "9 ", "2 ", "3 "]
    assert "srcdoc" in found._repr_html_()
    beside = json.loads(re.search(r'id="meta">(.*?)</script>', found.html(beside=[found]), re.S)[1])
    assert len(beside["heads"]) == 8 and beside["models"][0] != beside["models"][1]
    with pytest.raises(FileExistsError):
        fovea.inspect(model, ids=[[1, 2]], out=tmp_path / "page.html")
    fovea.inspect(model, ids=[[1, 2]], out=tmp_path / "page.html", force=True)


def test_what_is_refused(qkv):
    model = fovea.Model("norm", vocabulary=16, classes=3, width=16)
    with pytest.raises(ValueError, match="tokeniser"):
        fovea.inspect(model, "a text")
    with pytest.raises(TypeError, match="what is to be read"):
        fovea.inspect(model)
    with pytest.raises(TypeError, match="nothing"):
        fovea.inspect(model, ids=[[1]], nothing=3)
    coarse = fovea.inspect_attention(*qkv, cells=4)
    with pytest.raises(ValueError, match="cells=n"):
        coarse.weights


def test_heads_are_weighed_and_other_mechanisms_tried():
    model = fovea.Model("softmax", vocabulary=64, classes=3, width=16)
    ids = np.arange(1, 25)[None]
    found = fovea.inspect(model, ids=ids, importance=True, prune=True, approximation=["softmax", "linear"])
    heads = [head for layer in found.layers for head in layer.heads]
    for layer in found.layers:
        np.testing.assert_allclose(sum(head.importance**2 for head in layer.heads), 1, atol=1e-6)
    assert [step.removed for step in found.pruning] == list(range(len(heads) - len(found.layers) + 1))
    least = min(head.loss_without for head in heads)
    np.testing.assert_allclose(found.pruning[1].loss - found.pruning[0].loss, least, atol=1e-5)
    exact = [row for row in found.approximation if row.mechanism == "softmax"]
    assert exact and all(row.output_error == 0 and row.layer in (0, 1) for row in exact)
    assert "What heads are worth" in found.html()
    assert "importance" not in fovea.inspect(model, ids=ids).layers[0].heads[0]


def test_tags_and_rollout(tmp_path):
    (tmp_path / "text.conllu").write_text("".join(
        f"{k}\t{word}\t_\t{tag}\t_\t_\t{k - 1}\tnext\t_\t_\n" for k, (word, tag) in enumerate([("ab", "X"), ("c", "Y")] * 12, 1)))
    model = fovea.Model("softmax", vocabulary=256, classes=3, width=16)
    model.tokenizer = fovea.Tokenizer.bytes() if model.tokenizer is None else model.tokenizer
    found = fovea.inspect(model, tags=tmp_path / "text.conllu", rollout=True)
    verdict = found.layers[0].heads[0]["verdict"]
    assert verdict["relation"][0] in ("next", "next back") and 0 <= verdict["relation"][1] <= 1 and verdict["relation"][2] == 1
    assert verdict["tag"][0] in ("X", "Y", "its own") and 0 < verdict["delimiters"][2] < 1
    np.testing.assert_allclose(found.rollout.weights, found.layers[-1].rollout, atol=1e-6)
    assert fovea.inspect(model, ids=[[1, 2]]).rollout is None
    with pytest.raises(TypeError, match="own text"):
        fovea.inspect(model, "a text", tags=tmp_path / "text.conllu")


def test_approximation_of_a_call(qkv):
    rows = fovea.approximation(*qkv, ["softmax", "linear", "gla"], [5, 20], causal=True)
    assert [(row.mechanism, row.length) for row in rows[:2]] == [("softmax", 5), ("linear", 5)]
    assert rows[0].output_error == 0 and rows[1].output_error > 0
    assert np.isnan(rows[2].output_error) and "input" in rows[2].reason
    with pytest.raises(ValueError, match="length 21"):
        fovea.approximation(*qkv, ["linear"], [21])
