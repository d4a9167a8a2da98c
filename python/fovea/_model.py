"""Models, data sets and training: the same engine, settings and checkpoints as the command line."""

from __future__ import annotations

import errno
import json
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from os import PathLike
from typing import Any

import numpy as np

from fovea import _fovea
from fovea._arguments import engine_of, natural, path as path_text, settings_text
from fovea._arrays import int_list, whole
from fovea._errors import three_lines, unknown
from fovea._generate import generate
from fovea._progress import Progress
from fovea._tokenizer import Tokenizer

Split = Iterable[tuple[Any, int]]


class Model:
    """A Transformer. ``model`` is a preset ("gpt", "llama", "roberta", "seq2seq", "vit", ...) and ``attention`` the
    mechanism of its layers; without ``model``, ``attention`` may also be a preset ("transformer", "transnormer-t2") or a
    list of layers ("diag/norm*2"), of a classifier of token sequences. Settings are those of the command line's
    ``model.`` section; sizes that are not given are taken from ``data``.

    >>> model = Model("transnormer-t2", vocabulary=16, classes=10, width=32)
    >>> model(np.array([[1, 5, 9, 2]])).shape
    (1, 10)
    """

    def __init__(self, attention: str | None = None, *, model: str | None = None, data: Dataset | None = None,
                 seed: int = 0, **settings: Any) -> None:
        names = (model or "", attention or ("" if model else "transnormer-t2"))
        for name, value in zip(("model", "attention"), names):
            if not isinstance(value, (str, list, tuple)):
                raise TypeError(f"{name} cannot be {value!r}: it is a name")
        of_data = None if data is None else engine_of(data, Dataset, "data")
        self._engine = _fovea.make_model(names, settings_text(settings), natural(seed, "seed"), of_data)

    @property
    def config(self) -> dict[str, Any]:
        return dict(json.loads(self._engine.config()))

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        """The learned and drawn arrays by name; they are the model's own memory, so writing to one changes the model."""
        return {name: array for name, array, _ in self._engine.parameters()}

    @property
    def tokenizer(self) -> Tokenizer | None:
        """What turns text into the model's ids: it came with the model, or with the data that trained it."""
        engine = self._engine.tokenizer
        return None if engine is None else Tokenizer._of(engine)

    @tokenizer.setter
    def tokenizer(self, tokenizer: Tokenizer | None) -> None:
        self._engine.tokenizer = None if tokenizer is None else tokenizer._engine

    @property
    def parameter_count(self) -> int:
        return int(self._engine.parameter_count())

    def __call__(self, ids: Any = None, **inputs: Any) -> np.ndarray:
        """What the model's task asks for: logits of classes (sequences, classes) or of tokens (b, n, vocabulary), or the
        vectors of tokens (b, n, width).

        ids (b, n) are padded to ``lengths``, or (1, total) packed at the offsets ``cu_seqlens``. ``types`` are BERT's
        segments, like ids. What a decoder reads, or the document to compare with, is ``second_ids`` (``second_lengths``,
        ``second_cu_seqlens``). Pictures (b, height, width, channels) are ``pictures``.
        """
        return np.asarray(self._engine.forward(_batch(ids, inputs)))

    def features(self, ids: Any = None, **inputs: Any) -> np.ndarray:
        """One vector for each sequence or picture; inputs as for a call."""
        return np.asarray(self._engine.features(_batch(ids, inputs)))

    def gradients(self, targets: Any, ids: Any = None, **inputs: Any) -> tuple[float, dict[str, np.ndarray]]:
        """The loss, and its gradient for every learned array by name; without dropout. Targets are a class for each
        sequence, or a token for each place, -1 where nothing is asked."""
        loss, named = self._engine.gradients(_batch(ids, {**inputs, "targets": targets}))
        return float(loss), dict(named)

    def embed(self, texts: str | Sequence[str], *, normalize: bool = False, batch_tokens: int = 4096) -> np.ndarray:
        """Vectors (texts, features), or (features) of a single text; for models that came with a tokeniser."""
        one = isinstance(texts, str)
        given = [texts] if one else list(texts)
        for text in given:
            if not isinstance(text, str):
                raise TypeError(f"texts cannot hold {text!r}: they are of type str")
        most = natural(batch_tokens, "batch_tokens")
        vectors = np.asarray(_fovea.embed(self._engine, given, bool(normalize), most))
        return np.asarray(vectors[0]) if one else vectors

    def evaluate(self, data: Dataset, split: str = "test", *, batch: int = 32) -> dict[str, Any]:
        """What a split costs: loss (of numbers the mean squared error), accuracy where there are classes, perplexity
        where tokens are asked for, and deviation, the mean absolute error of numbers."""
        given = engine_of(data, Dataset, "data")
        report = dict(_fovea.evaluate(self._engine, given, _checked(split), _at_least_one(batch, "batch")))
        if data.task in ("lm", "mlm", "seq2seq"):
            report["perplexity"] = math.exp(min(report["loss"], 700.0))
        return report

    def generate(self, prompts: Any, **settings: Any) -> Any:
        """Continues or translates prompts; see fovea.generate."""
        return generate(self, prompts, **settings)

    def save(self, folder: str | PathLike[str]) -> None:
        """Writes model.safetensors and config.json, as training does, and the tokeniser if there is one."""
        self._engine.save(path_text(folder, "folder"))

    def __getstate__(self) -> dict[str, Any]:
        arrays = {name: array.copy() for name, array in self.parameters.items()}
        return {"config": self._engine.config(), "seed": self._engine.seed, "parameters": arrays,
                "tokenizer": self.tokenizer}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._engine = _fovea.remake_model(state["config"], state["seed"])
        for name, array in self.parameters.items():
            array[...] = state["parameters"][name]
        self.tokenizer = state["tokenizer"]

    def __eq__(self, other: object) -> bool:
        """Equal settings, parameters and tokenisers."""
        if not isinstance(other, Model):
            return NotImplemented
        theirs = other.parameters
        return (self.config == other.config and self.tokenizer == other.tokenizer
                and all(np.array_equal(array, theirs[name]) for name, array in self.parameters.items()))

    __hash__ = None  # type: ignore[assignment]  # training changes it

    def __repr__(self) -> str:
        return str(self._engine.text())


def load(folder: str | PathLike[str], *, seed: int = 0) -> Model:
    """The model in a folder that save() or a training run wrote; of a run ("runs/x") the best checkpoint, or the last."""
    model = Model.__new__(Model)
    place = path_text(folder, "folder")
    if not os.path.isdir(place):
        raise _no_folder(place, "fovea.load")
    model._engine = _fovea.load_model(_checkpoint(place), natural(seed, "seed"))
    return model


def _no_folder(folder: str, caller: str) -> OSError:
    """What to say of a folder that is not there, or is a file."""
    if os.path.exists(folder):
        return NotADirectoryError(three_lines("expected a folder, found a file", folder, f"{caller}({os.path.dirname(folder) or '.'!r})"))
    above = os.path.dirname(folder.rstrip("/")) or "."
    names = [name for name in sorted(os.listdir(above)) if os.path.isdir(os.path.join(above, name))] if os.path.isdir(above) else []
    near = get_close_matches(os.path.basename(folder.rstrip("/")), names, n=1)
    place = os.path.normpath(os.path.join(above, near[0])) if near else ""
    error = FileNotFoundError(three_lines("no such folder", folder, f'{caller}("{place}")' if near else f'os.listdir("{above}")'))
    error.errno = errno.ENOENT
    return error


def _checkpoint(folder: str) -> str:
    """The checkpoint that a folder of a run stands for, as on the command line."""
    inside = (os.path.join(folder, name) for name in ("best", "last"))
    return next((path for path in inside if os.path.isdir(path)), folder)


def import_model(path: str | PathLike[str], *, ignore: Sequence[str] = (), pooling: str = "", seed: int = 0) -> Model:
    """A model that others have trained: a Hugging Face folder (GPT-2, Llama, BERT, RoBERTa, T5, ViT, sentence-transformers)
    or a model file of llama2.c. ``ignore`` names fields of config.json that are not known and do not matter; ``pooling``
    ("mean", "first", "last") is how an encoder's vectors become one, in place of what the folder says."""
    model = Model.__new__(Model)
    fields = [ignore] if isinstance(ignore, str) else [str(name) for name in ignore]
    model._engine = _fovea.import_model(path_text(path, "path"), fields, str(pooling), natural(seed, "seed"))
    return model


def export_model(model: Model, folder: str | PathLike[str], *, format: str = "") -> None:
    """Writes the model as ``transformers`` reads it; ``format`` is "gpt2", "llama", "bert", "roberta", "t5" or "vit", by
    default the one that has such models."""
    _fovea.export_model(engine_of(model, Model, "model"), path_text(folder, "folder"), str(format))


_ARRAYS = {"ids": np.int32, "types": np.int32, "second_ids": np.int32, "second_types": np.int32, "targets": np.int32,
           "pictures": np.float32}
_LISTS = ("lengths", "cu_seqlens", "second_lengths", "second_cu_seqlens")


def _batch(ids: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    batch: dict[str, Any] = {}
    for name, value in {"ids": ids, **inputs}.items():
        if value is None:
            continue
        if name in _ARRAYS:
            batch[name] = _array(value, name)
        elif name in _LISTS:
            batch[name] = int_list(value, name)
        else:
            near = get_close_matches(name, [*_ARRAYS, *_LISTS], n=1) or [*_ARRAYS, *_LISTS]
            raise TypeError(three_lines(f'a model has no input "{name}"', hint=", ".join(f"{one}=..." for one in near)))
    return batch


def _array(value: Any, name: str) -> np.ndarray:
    """An input as the engine reads it: whole numbers are not rounded into being."""
    try:
        array = np.asarray(value)
    except ValueError:  # rows of several lengths
        raise TypeError(f"{name} cannot be {value!r}: rows of one length; others are padded, with lengths=...") from None
    if array.dtype.kind not in ("iu" if _ARRAYS[name] is np.int32 else "iufb") and array.size:
        wanted = "whole numbers" if _ARRAYS[name] is np.int32 else "numbers"
        raise TypeError(f"{name} cannot be of {array.dtype}: they are {wanted}")
    return np.ascontiguousarray(array, dtype=_ARRAYS[name])


class Dataset:
    """Labelled sequences of token ids 1 .. vocabulary - 1, at most 255; each split is a list of (ids, label).

    >>> data = Dataset(train=[([1, 2, 3], 0), ([3, 2], 1)], vocabulary=4, classes=2)
    >>> data
    Dataset('data', 2 train, 0 validation, 0 test, length up to 3, 2 classes)
    """

    def __init__(self, *, train: Split, vocabulary: int, classes: int, validation: Split = (), test: Split = (),
                 name: str = "data") -> None:
        splits = {"train": train, "validation": validation, "test": test}
        packed = {split: [_example(pair, split) for pair in pairs] for split, pairs in splits.items()}
        sizes = {"vocabulary": natural(vocabulary, "vocabulary"), "classes": natural(classes, "classes"), "max_length": 0}
        self._engine = _fovea.make_dataset({"name": str(name), **sizes, **packed})  # max_length: the longest example at least

    _files: dict[str, Any] | None = None  # what load_data() was given, of data sets from files

    @property
    def task(self) -> str:
        return str(self._engine.task)

    def size(self, split: str = "train") -> int:
        return int(self._engine.size(_checked(split)))

    def save_tokenizer(self, folder: str | PathLike[str]) -> None:
        """Writes tokenizer.json of a data set that is text."""
        self._engine.save_tokenizer(path_text(folder, "folder"))

    def examples(self, split: str = "train") -> list[tuple[np.ndarray, int]]:
        return [(np.frombuffer(ids, np.uint8), label) for ids, label in self._engine.examples(_checked(split))]

    @property
    def tokenizer(self) -> Tokenizer | None:
        """What made ids of the text, if it is text."""
        engine = self._engine.tokenizer
        return None if engine is None else Tokenizer._of(engine)

    @property
    def vocabulary(self) -> int:
        return int(self._engine.vocabulary)

    @property
    def classes(self) -> int:
        return int(self._engine.classes)

    @property
    def max_length(self) -> int:
        return int(self._engine.max_length)

    def __getstate__(self) -> dict[str, Any]:
        """The examples themselves, or where the files are: those are read again."""
        if self._files is not None:
            return {"files": self._files, "mark": self._engine.mark}
        splits = {split: self._engine.examples(split) for split in _SPLITS}
        sizes = {"vocabulary": self.vocabulary, "classes": self.classes, "max_length": self.max_length}
        return {"name": self._engine.name, **sizes, **splits}

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "files" not in state:
            self._engine = _fovea.make_dataset(state)
            return
        self._read(**state["files"])
        if self._engine.mark != state["mark"]:
            raise ValueError(f"the files of the data set {self._engine.name!r} are no longer what was pickled")

    def _read(self, settings: dict[str, Any], task: str, max_length: int, tokenizer: Tokenizer | None) -> None:
        self._files = {"settings": settings, "task": task, "max_length": max_length, "tokenizer": tokenizer}
        given = tokenizer and tokenizer._engine
        self._engine = _fovea.load_data(settings_text(settings), str(task), natural(max_length, "max_length"), given)

    def __copy__(self) -> Dataset:
        return self  # nothing of it can change

    def __deepcopy__(self, memo: Any) -> Dataset:
        return self

    def __eq__(self, other: object) -> bool:
        """The same examples, for the same task."""
        return self._engine.mark == other._engine.mark if isinstance(other, Dataset) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._engine.mark)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{self.size(split)} {split}" for split in _SPLITS)
        length = f", length up to {self.max_length}" if self.max_length else ""
        classes = f", {self.classes} classes" if self.classes else f", {self.task}"
        return f"Dataset({self._engine.name!r}, {sizes}{length}{classes})"


_SPLITS = ("train", "validation", "test")


def _checked(split: str) -> str:
    if split not in _SPLITS:
        raise unknown("split", split, _SPLITS, "split")
    return split


def _at_least_one(value: Any, name: str) -> int:
    if (number := whole(value, name)) < 1:
        raise ValueError(f"{name} cannot be {number}: it is a whole number of at least 1")
    return number


def _example(pair: Any, split: str) -> tuple[bytes, int]:
    try:
        ids, label = pair
    except (TypeError, ValueError):
        raise TypeError(f"{split} cannot hold {pair!r}: an example is (ids, label)") from None
    return _token_bytes(ids), whole(label, "label")


def _token_bytes(ids: Any) -> bytes:
    tokens = np.asarray(ids)
    if tokens.ndim != 1 or tokens.dtype.kind not in "iu" or (tokens.size and not 0 < tokens.min() <= tokens.max() < 256):
        raise ValueError("an example is a row of token ids from 1 to 255")
    return tokens.astype(np.uint8).tobytes()


def listops(*, train: int = 96000, validation: int = 2000, test: int = 2000, seed: int = 0) -> Dataset:
    """ListOps of the Long-Range Arena, generated: nested lists of digits under MIN, MAX, MED and SM."""
    data = Dataset.__new__(Dataset)
    sizes = [natural(size, name) for size, name in ((train, "train"), (validation, "validation"), (test, "test"))]
    data._engine = _fovea.make_listops(natural(seed, "seed"), *sizes)
    return data


def load_data(path: str | PathLike[str], *, task: str | None = None, max_length: int = 0,
              tokenizer: Tokenizer | str | PathLike[str] = "", **settings: Any) -> Dataset:
    """A data set from a folder or file: text, parallel text, labelled text or pairs, pictures, series; told by the files.

    ``task`` chooses where the files serve several ("lm" or "mlm", "vision" or "classify"), ``max_length`` is the model's
    longest sequence. ``tokenizer`` is that of a model which is to go on learning (``model.tokenizer``), the folder or file
    of one, or a kind of one ("bytes", "characters", "words", "bpe"). Settings are those of the command line's ``data.``
    section (length, horizon, ...).
    """
    source = path_text(path, "path")
    settings["source"] = os.path.abspath(source) if os.path.exists(source) else source
    given = None
    if isinstance(tokenizer, Tokenizer):
        given = tokenizer
    elif tokenizer:
        settings["tokenizer"] = path_text(tokenizer, "tokenizer")
    data = Dataset.__new__(Dataset)
    data._read(settings, task or "", max_length, given)
    return data


class TrainResult(Mapping[str, Any]):
    """What a training run came to.

    steps, skipped (f16 only), train_seconds, input_seconds (waiting for batches), best and last evaluation, peak_memory,
    zones and resume_from.
    """

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Any:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        speed = self["steps"] / max(self["train_seconds"], 1e-9)
        best = self["best"]
        accuracy = f"  accuracy {100 * best['accuracy']:.1f}%" if best["accuracy"] else ""
        scored = f"{accuracy}  loss {best['loss']:.3g}"
        return (f"{self['steps']} steps in {self['train_seconds']:.3g} s  {speed:.3g} steps/s"
                + (scored if self["best"]["examples"] else "") + f"  {self['peak_memory'] / 1e6:.0f} MB")


Callback = Callable[[str, dict[str, Any]], None]


def train(model: Model, data: Dataset, *, callbacks: Sequence[Callback] = (), progress: bool = True,
          resume: str | PathLike[str] | None = None, **settings: Any) -> TrainResult:
    """Trains the model; settings are those of the command line's ``train.`` section (steps, minutes, lr, batch, out, ...).

    What is not given is as it usually suits such a model. The model takes the tokeniser of the data over, and refuses data
    of another one than its own. A callback is given ("step", ...), ("eval", ...) or
    ("checkpoint", ...) with the numbers of each; what it raises ends the run. After Ctrl-C, or that, the run is saved if
    it has a folder ``out``, and goes on with ``resume=out``.
    """
    engines = engine_of(model, Model, "model"), engine_of(data, Dataset, "data")
    start = "" if resume is None else path_text(resume, "resume")
    if start and not os.path.isdir(start):
        raise _no_folder(start, "fovea.train(..., resume=...)")
    bar = Progress() if progress else None
    watchers = [*([bar.report] if bar else []), *callbacks]

    def report(kind: str, numbers: dict[str, Any]) -> None:
        for watcher in watchers:
            watcher(kind, numbers)

    try:
        return TrainResult(_fovea.train(*engines, settings_text(settings), start, report))
    finally:
        if bar:
            bar.close()
