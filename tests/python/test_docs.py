"""The Python of the documents runs as it is written: less training, files that the pages take for granted, the CPU for a card."""

import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import fovea

ROOT = Path(__file__).resolve().parents[2]
ENCODER = ROOT / "tests/fixtures/pretrained/tiny-encoder"
PAGES = [page for page in ("README.md", *sorted(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md")))
         if "```python" in (ROOT / page).read_text("utf-8") and page != "docs/coming-from.md"]  # which has a test of its own
SMALLER = [(r"minutes=\d+", "steps=2"), (r'device="cuda", ', ""), (r"train=8000", "train=40, validation=8, test=8"),
           (r"max_tokens=200", "max_tokens=5"), (r"max_length=4096", "max_length=1024"), (r"\[256, 1024, 4096\]", "[64, 128]")]


def blocks(page):
    """The first of its line, and the code."""
    text = (ROOT / page).read_text("utf-8")
    return [(text[:found.start()].count("\n") + 2, found[1]) for found in re.finditer(r"^```python\n(.*?)^```", text, re.M | re.S)]


@pytest.fixture
def world(tmp_path, monkeypatch):
    """What the pages take for granted."""
    monkeypatch.chdir(tmp_path)
    Path("input.txt").write_text("Once upon a time there was a cat. The cat sat. " * 60)
    words = ("the", "cat", "sat")
    Path("text.conllu").write_text("".join(f"{i}\t{w}\t_\tNOUN\t_\t_\t{i - 1}\tdep\t_\t_\n" for i, w in enumerate(words, 1)) + "\n")
    data = fovea.load_data("input.txt", length=64)
    small = {"width": 16, "heads": 4, "inner": 16}
    model = fovea.Model(model="gpt", data=data, max_length=1024, **small)
    fovea.train(model, data, steps=2, out="runs/first", progress=False)
    shutil.copytree(ENCODER, "all-MiniLM-L6-v2")
    (tmp_path / "gpt2").mkdir()
    shutil.copy("runs/first/best/tokenizer.json", "gpt2")
    return {"fovea": fovea, "np": np, "torch": torch, "n": 3, "text": "To be, or not to be", "model": model,
            "ids": [[4, 5, 6, 7, 8, 9, 10], [4, 5, 6, 7, 8, 0, 0]], "targets": [1, 0], "lines": ["Once", "upon"]}


def of_this_task(page, code):
    """Gradients of an encoder, as the page says, need one with a task."""
    if page == "docs/pretrained.md":
        code = code.replace("loss, gradients = model", 'loss, gradients = fovea.Model("norm", vocabulary=16, classes=2)')
        assert code.count("fovea.Model(") == 1
    return code


def test_pages_with_python_are_found():
    assert {"README.md", "docs/python.md", "docs/pretrained.md", "docs/generate.md", "docs/tokenizers.md", "docs/inspect.md"} == set(PAGES)


@pytest.mark.parametrize("page", PAGES)
def test_python_of_a_page_runs(page, world):
    for line, code in blocks(page):
        for before, now in SMALLER:
            code = re.sub(before, now, code)
        for out in re.findall(r'out="(runs/\w+)"', code):  # that of another block
            shutil.rmtree(out, ignore_errors=True)
        arrays = dict(zip("qkv", np.random.default_rng(1).standard_normal((3, 1, 1024, 8, 64)).astype(np.float32)))
        world.update(arrays)  # those of another block may be tensors
        exec(compile("\n" * (line - 1) + of_this_task(page, code), page, "exec"), world)  # noqa: S102  (our own pages)
