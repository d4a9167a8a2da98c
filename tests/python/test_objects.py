"""Mechanisms, patterns, models, tokenisers and data sets as Python objects: copies, pickles, equality."""

import copy
import pickle

import numpy as np
import pytest
from helpers import arrays

import fovea
from fovea import Pattern

WAYS = [lambda x: pickle.loads(pickle.dumps(x)), copy.deepcopy, copy.copy]
TINY = {"width": 16, "heads": 2, "inner": 16, "dropout": 0.0}


def later_is_seen(query, key):
    return key >= query


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "input.txt"
    path.write_text("the cat sat on the mat.\n" * 60)
    return path


@pytest.mark.parametrize("way", WAYS)
def test_mechanisms(way, rng):
    q, k, v = arrays(rng)
    drawn = fovea.Mechanism("performer", features=16, seed=5).init(heads=4, d_k=8, dtype=np.float64)
    for mechanism in (fovea.Mechanism("diag", block=4), fovea.Mechanism("bigbird", seed=3), drawn):
        other = way(mechanism)
        assert other == mechanism and hash(other) == hash(mechanism) and other.text == mechanism.text
        np.testing.assert_array_equal(fovea.attention(q, k, v, other), fovea.attention(q, k, v, mechanism))
    other = copy.deepcopy(drawn)
    other.weights["directions"] = 2 * other.weights["directions"]
    assert other != drawn


def test_mechanisms_that_differ():
    assert fovea.Mechanism("diag") == fovea.Mechanism("diag", block=64) != fovea.Mechanism("diag", block=32)
    assert fovea.Mechanism("performer", seed=1) != fovea.Mechanism("performer", seed=2)
    assert fovea.Mechanism("diag") != "diag"
    assert len({fovea.Mechanism("norm"), fovea.Mechanism("norm"), fovea.Mechanism("linear")}) == 2


@pytest.mark.parametrize("way", WAYS)
def test_patterns(way):
    matrix = Pattern(np.random.default_rng(0).random((9, 9)) < 0.5)
    made = [Pattern.full(), Pattern.causal(), Pattern.window(2, np.int64(1)), Pattern.block_diagonal(4), Pattern.comb(4, 0, 2),
            Pattern.distances([0, 3]), Pattern.blocks(4, [[0], [1, 2], [0]]), Pattern.box((1, 3), (2, 5)), matrix,
            Pattern(later_is_seen), (matrix & ~Pattern.causal()) | Pattern.window(1, 0)]
    for pattern in made:
        other = way(pattern)
        assert other == pattern and hash(other) == hash(pattern)
        np.testing.assert_array_equal(other.matrix(9), pattern.matrix(9))
    assert len(set(made)) == len(made)


def test_patterns_that_cannot_be_pickled():
    secret = Pattern(lambda query, key: key <= query)
    with pytest.raises((AttributeError, pickle.PicklingError)):
        pickle.dumps(secret)
    assert copy.deepcopy(secret) == secret != Pattern(lambda query, key: key <= query)
    assert Pattern.causal() != 3


@pytest.mark.parametrize("way", WAYS)
def test_tokenizers(way):
    texts = ["the cat sat on the mat", "né, too", "the hat"]
    makers = (fovea.Tokenizer.bytes, lambda: fovea.Tokenizer.characters(texts), lambda: fovea.Tokenizer.words(texts),
              lambda: fovea.Tokenizer.train(texts * 5, 270, special_tokens=["<s>"]))
    for make in makers:
        tokenizer = make()
        other = way(tokenizer)
        assert other == tokenizer == make() and hash(other) == hash(tokenizer)
        assert other.encode("the hat né").ids == tokenizer.encode("the hat né").ids
    assert fovea.Tokenizer.bytes() != fovea.Tokenizer.words(texts)


@pytest.mark.parametrize("way", WAYS)
def test_models(way, text):
    data = fovea.load_data(text, length=32)
    ids = np.array([[1, 2, 3, 4]])
    for model in (fovea.Model("norm", vocabulary=8, classes=2, seed=3, **TINY), fovea.Model(model="gpt", data=data, **TINY),
                  fovea.Model(model="seq2seq", vocabulary=9, decoder=TINY, **TINY)):
        for array in model.parameters.values():
            array += 0.01
        other = way(model)
        assert other == model and other.tokenizer == model.tokenizer
        given = {"second_ids": ids} if "decoder" in model.config and model.config["decoder"] else {}
        np.testing.assert_array_equal(other(ids, **given), model(ids, **given))
        next(iter(other.parameters.values()))[...] = 0.5
        assert other != model
    with pytest.raises(TypeError, match="unhashable"):
        hash(model)


@pytest.mark.parametrize("way", WAYS)
def test_data_sets(way, text):
    labelled = fovea.Dataset(train=[([1, 2, 3], 0), ([3, 2], 1)], test=[([1], 1)], vocabulary=4, classes=2)
    for data in (labelled, fovea.listops(train=20, validation=2, test=2, seed=1), fovea.load_data(text, length=32),
                 fovea.load_data(text, length=32, tokenizer=fovea.Tokenizer.bytes())):
        other = way(data)
        assert other == data and hash(other) == hash(data) and repr(other) == repr(data)
        assert other.tokenizer == data.tokenizer
    same = fovea.Dataset(train=[([1, 2, 3], 0), ([3, 2], 1)], test=[([1], 1)], vocabulary=4, classes=2)
    assert labelled == same != fovea.Dataset(train=[([1, 2, 3], 1), ([3, 2], 1)], test=[([1], 1)], vocabulary=4, classes=2)


def test_files_that_changed_are_noticed(text, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    kept = pickle.dumps(fovea.load_data("input.txt", length=32))
    monkeypatch.chdir("/")
    assert pickle.loads(kept) == fovea.load_data(text, length=32)
    text.write_text("a dog lay on the bed.\n" * 60)
    with pytest.raises(ValueError, match="no longer what was pickled"):
        pickle.loads(kept)


def test_a_trained_model_knows_its_tokenizer(text, tmp_path):
    data = fovea.load_data(text, length=16)
    assert data.tokenizer is not None and len(data.tokenizer) < 30
    for model in (fovea.Model(model="gpt", data=data, **TINY), fovea.Model(model="gpt", vocabulary=data.vocabulary, **TINY)):
        fovea.train(model, data, steps=30, lr=1e-2, warmup=0, batch=4, schedule="constant", progress=False,
                    out=tmp_path / f"run{model.tokenizer is None}")
        assert model.tokenizer == data.tokenizer
        made = model.generate("the cat", max_tokens=12)
        assert made.text == data.tokenizer.decode(made.ids) and set(made.text) <= set("the cat sat on the mat.\n")
    loaded = fovea.load(tmp_path / "runTrue")
    assert loaded == fovea.load(tmp_path / "runTrue" / "best") and loaded.tokenizer == data.tokenizer
    assert loaded.generate("the cat", max_tokens=12).text


def test_another_vocabulary_is_refused(text, tmp_path):
    data = fovea.load_data(text, length=16)
    model = fovea.Model(model="gpt", data=data, **TINY)
    run = {"steps": 30, "lr": 1e-2, "warmup": 0, "batch": 4, "schedule": "constant", "progress": False}
    fovea.train(model, data, **run)
    other = tmp_path / "other.txt"
    other.write_text("the hat sat on the mat.\n" * 60)
    with pytest.raises(ValueError, match=r'has another tokeniser[\s\S]*tokenizer=model.tokenizer'):
        fovea.train(model, fovea.load_data(other, length=16), **run)
    with pytest.raises(ValueError, match="has another tokeniser"):
        model.evaluate(fovea.load_data(other, length=16))
    fitting = fovea.load_data(other, length=16, tokenizer=model.tokenizer)
    before = model.evaluate(fitting)["loss"]
    assert before < 6 and fitting.tokenizer == model.tokenizer  # ids of another tokeniser cost more than twice that
    first = []
    fovea.train(model, fitting, **run, callbacks=[lambda kind, numbers: kind == "step" and first.append(numbers["loss"])])
    assert first[0] < 6 and model.evaluate(fitting)["loss"] < before
