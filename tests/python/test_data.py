"""Data sets from files, and models of every task trained on them."""

import math
import struct

import numpy as np
import pytest

import fovea

TINY = {"width": 16, "heads": 2, "inner": 16, "dropout": 0.0}
RUN = {"steps": 5, "batch": 4, "lr": 1e-2, "warmup": 0, "progress": False}


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "input.txt"
    path.write_text("the cat sat on the mat.\n" * 60)
    return path


@pytest.fixture
def pictures(tmp_path):
    folder = tmp_path / "halves"
    folder.mkdir()
    for name, count in [("train", 40), ("t10k", 10)]:
        rows = np.tile(np.where(np.arange(count)[:, None] % 2, [200] * 4 + [10] * 4, [10] * 4 + [200] * 4), (1, 8))
        head = struct.pack(">IIII", 2051, count, 8, 8)
        (folder / f"{name}-images-idx3-ubyte").write_bytes(head + rows.astype(np.uint8).tobytes())
        (folder / f"{name}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 2049, count) + bytes([0, 1] * (count // 2)))
    return folder


def test_language_model(text, tmp_path):
    data = fovea.load_data(text, length=32)
    assert data.task == "lm" and data.max_length == 32 and data.size("validation") > 0
    model = fovea.Model(model="gpt", attention="norm", data=data, **TINY)
    assert model.config["vocabulary"] == data.vocabulary and set(model.config["layers"]) == {"norm"}
    before = model.evaluate(data)
    fovea.train(model, data, **{**RUN, "steps": 30}, schedule="constant", out=tmp_path / "run")
    after = model.evaluate(data)
    assert after["loss"] < before["loss"] and after["perplexity"] == pytest.approx(math.exp(after["loss"]))
    tokenizer = fovea.Tokenizer(tmp_path / "run" / "last")
    assert len(tokenizer) == data.vocabulary
    assert "lm" in repr(data)


def test_masked_language_model(text):
    data = fovea.load_data(text, task="mlm", length=32)
    model = fovea.Model(model="roberta", data=data, **TINY)
    fovea.train(model, data, **RUN)
    assert model.config["task"] == "mlm" and math.isfinite(model.evaluate(data)["loss"])


def test_pictures(pictures):
    data = fovea.load_data(pictures)
    model = fovea.Model(model="vit", data=data, **TINY)
    fovea.train(model, data, **{**RUN, "steps": 100, "lr": 3e-3}, schedule="constant")
    assert model.evaluate(data)["accuracy"] == 1.0
    pixels = fovea.load_data(pictures, task="classify")
    model = fovea.Model("norm", data=pixels, **TINY)
    fovea.train(model, pixels, **RUN)
    assert pixels.max_length == 64 and 0 <= model.evaluate(pixels)["accuracy"] <= 1


def test_translation(tmp_path):
    for part in ("train", "val", "test_2016_flickr"):
        (tmp_path / f"{part}.de").write_text("ein Haus\nzwei Hunde\n" * 10)
        (tmp_path / f"{part}.en").write_text("a house\ntwo dogs\n" * 10)
    data = fovea.load_data(tmp_path, vocabulary=270)
    model = fovea.Model(model="seq2seq", data=data, decoder=TINY, **TINY)
    fovea.train(model, data, **RUN)
    assert model.evaluate(data)["perplexity"] > 1
    data.save_tokenizer(tmp_path / "tokenizer")
    assert (tmp_path / "tokenizer" / "tokenizer.json").exists()


def test_pairs(tmp_path):
    (tmp_path / "papers.tsv").write_text("A\tfirst\nB\tsecond\n")
    for part in ("train", "valid", "test"):
        (tmp_path / f"pairs.{part}.tsv").write_text("1\tA\tB\n0\tB\tA\n" * 4)
    data = fovea.load_data(tmp_path)
    model = fovea.Model("norm", data=data, **TINY)
    assert model.config["task"] == "match"
    fovea.train(model, data, **RUN)


def test_errors(text, pictures, tmp_path):
    with pytest.raises(ValueError, match="vision"):
        fovea.Model(model="gpt", data=fovea.load_data(pictures))
    with pytest.raises(ValueError, match="unknown task"):
        fovea.load_data(text, task="lmm")
    with pytest.raises(FileNotFoundError, match="no such file or folder"):
        fovea.load_data(tmp_path / "nowhere")
    with pytest.raises(TypeError, match="lenght"):
        fovea.load_data(text, lenght=3)
    with pytest.raises(ValueError, match="too"):
        path = tmp_path / "halves" / "train-labels-idx1-ubyte"
        path.write_bytes(b"")
        fovea.load_data(pictures)
