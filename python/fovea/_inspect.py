"""inspect(): what attention does in a model or a call, at any length."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from typing import Any, NamedTuple

import numpy as np

from fovea import _fovea
from fovea._arguments import engine_of, natural
from fovea._attention import Call
from fovea._mechanism import Mechanism
from fovea._model import Model, _batch


class Level(NamedTuple):
    """A level of a map's pyramid: cells of so many rows and keys; their mean, and their largest magnitude."""

    cell_rows: int
    cell_keys: int
    mean: np.ndarray
    largest: np.ndarray


class Head(Mapping[str, Any]):
    """What was measured of one head; numbers of it by name: ``head.entropy`` or ``head["entropy"]``.

    By row: entropy, effective_keys, largest, largest_key, max_logit, row_sum, top_keys and top_weights (n_q, top). By key:
    received. distance (n_q + n_k - 1), curve and area of the locally accumulated score, pyramid, bad_rows; verdict: the
    class and the numbers it was told by. Where it was asked for: importance, by gradient, and loss_without, what the loss
    grows by without the head.
    """

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = {**values, "pyramid": [Level(*level) for level in values["pyramid"]]}

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._values:
            raise AttributeError(name)
        return self._values[name]

    def __iter__(self) -> Any:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    @property
    def head_class(self) -> str:
        return str(self["verdict"]["head_class"])

    @property
    def weights(self) -> np.ndarray:
        """All weights (n_q, n_k), each row divided by the sum of its magnitudes, where the pyramid holds single ones."""
        finest = self["pyramid"][0] if self["pyramid"] else None
        if finest is None or (finest.cell_rows, finest.cell_keys) != (1, 1):
            raise ValueError("the map was kept coarser than its weights: inspect(..., cells=n) keeps n x n of them")
        return np.asarray(finest.mean)

    def __repr__(self) -> str:
        return f"Head({self['head']}, {self.head_class}, entropy {self['verdict']['entropy']:.3g}, locality {self['area']:.3g})"


class Layer(NamedTuple):
    """An attention layer: ``map`` is "weights", "effective" or "none", ``map_text`` says which map is shown."""

    place: str
    mechanism: str
    map: str
    map_text: str
    causal: bool
    cross: bool
    n_q: int
    n_k: int
    heads: list[Head]
    rollout: np.ndarray | None


class PruningStep(NamedTuple):
    """How a model fares without so many heads; accuracy where there are classes."""

    removed: int
    loss: float
    accuracy: float


class Approximation(NamedTuple):
    """How far a mechanism is from softmax on the same q, k and v; ``reason`` says why numbers are missing.

    ``output_error`` is relative; ``divergence`` the mean KL of rows; ``top_agreement`` the share of the 8 largest keys that
    are the same; ``layer`` that of a model, in the order they run.
    """

    mechanism: str
    length: int
    output_error: float
    divergence: float
    top_agreement: float
    seconds: float
    softmax_seconds: float
    reason: str
    layer: int | None = None


class Inspection:
    """What inspect() found: ``layers``, each with its heads. In a notebook it shows itself."""

    def __init__(self, engine: Any, name: str) -> None:
        self._engine, self._name = engine, name
        self._layers: list[Layer] | None = None

    @property
    def layers(self) -> list[Layer]:
        if self._layers is None:
            self._layers = [Layer(**{**layer, "heads": [Head(h) for h in layer["heads"]]}) for layer in self._engine.layers()]
        return self._layers

    @property
    def rollout(self) -> Head | None:
        """All layers that read the input as one head: of inspect(..., rollout=True)."""
        found = self._engine.rollout()
        return None if found is None else Head(found)

    @property
    def pruning(self) -> list[PruningStep]:
        """The score as heads are taken out, the least important first: of inspect(..., prune=True)."""
        return [PruningStep(*step) for step in self._engine.worth()["pruning"]]

    @property
    def approximation(self) -> list[Approximation]:
        """Other mechanisms on what each layer reads: of inspect(..., approximation=["linear", ...])."""
        return [Approximation(**row) for row in self._engine.worth()["approximation"]]

    @property
    def weights(self) -> np.ndarray:
        """(layers, heads, n_q, n_k), for short inputs of layers that are alike."""
        return np.stack([np.stack([head.weights for head in layer.heads]) for layer in self.layers])

    def html(self, *, beside: Sequence[Inspection] = (), title: str = "") -> str:
        """One page that needs nothing else; ``beside`` are shown on it, too."""
        every = [self, *beside]
        names = [one._name for one in every]
        if len(set(names)) < len(names):
            names = [f"{name} {k}" for k, name in enumerate(names)]
        heads = sum(len(layer.heads) for one in every for layer in one.layers)
        text = f"{sum(len(one.layers) for one in every)} layers with {heads} heads."
        return str(_fovea.inspect_page([one._engine for one in every], names, title or f"What {self._name} reads", text))

    def save(self, path: str | PathLike[str], *, beside: Sequence[Inspection] = (), title: str = "", force: bool = False) -> None:
        """Writes the page; refuses to write over a file, unless ``force``."""
        page = self.html(beside=beside, title=title)
        with open(fspath(path), "w" if force else "x", encoding="utf-8") as file:
            file.write(page)

    def _repr_html_(self) -> str:
        page = self.html().replace("&", "&amp;").replace('"', "&quot;")
        return f'<iframe srcdoc="{page}" style="width:100%;height:900px;border:0"></iframe>'

    def __repr__(self) -> str:
        lines = [f"{k}  {layer.place}  {layer.mechanism}  " + (", ".join(h.head_class for h in layer.heads) or layer.map_text)
                 for k, layer in enumerate(self.layers)]
        return "\n".join([f"Inspection({self._name!r})", *lines])


_OF_CALLS = ("sequence", "top", "cells", "curve_points", "paper_curve")
_OF_MODELS = (*_OF_CALLS, "layers", "rollout", "importance", "prune", "approximation")  # of a call `layers` is an option of attention


def _split(options: dict[str, Any], names: tuple[str, ...]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What inspect() takes, and the rest."""
    mine = {name: value for name, value in options.items() if name in names and value is not None}
    return mine, {name: value for name, value in options.items() if name not in names}


def inspect(model: Model, text: str | None = None, *, second: str = "", tags: str | PathLike[str] | None = None, length: int = 0,
            name: str = "", out: str | PathLike[str] | None = None, force: bool = False, **inputs: Any) -> Inspection:
    """What the heads of a model read in a text, or in other ``inputs`` as for a call of the model (``ids``, ``pictures``).

    ``tags``: a file of CoNLL-U, whose text is read; its tags and relations tell heads that are syntactic or semantic.
    ``length``: tokens of the text at most. ``out``: a page with all of it. Also ``layers``, ``top``, ``cells`` (of the finest
    map, n keeps all weights), ``curve_points``, ``paper_curve``, ``rollout`` and, of a batch, ``sequence``.

    ``importance=True`` asks what each head is worth to the loss (without ``targets``: of the next token, or of the model's own
    answer), ``prune=True`` how the loss grows as heads are taken out, ``approximation=["linear", ...]`` how far these
    mechanisms are from softmax on what the layers read.

    >>> model = Model("norm", vocabulary=256, classes=2, width=16)
    >>> inspect(model, ids=[[5, 1, 7, 9]]).layers[0].heads[1].entropy.shape
    (4,)
    """
    options, inputs = _split(inputs, _OF_MODELS)
    if out is not None and not force and os.path.exists(out):
        raise FileExistsError(f"{fspath(out)} exists: another name, or force=True")
    if tags is not None:
        if inputs or text is not None or second:
            raise TypeError(f"tags come with their own text: not also {', '.join(inputs) or 'another one'}")
        engine = _fovea.inspect_tagged(engine_of(model, Model, "model"), fspath(tags), natural(length, "length"), options)
    elif text is not None:
        if inputs:
            raise TypeError(f"a text, or {', '.join(inputs)}, not both")
        if not isinstance(text, str) or not isinstance(second, str):
            raise TypeError(f"text cannot be {text if not isinstance(text, str) else second!r}: it is a str; ids=... are rows of ids")
        engine = _fovea.inspect_text(engine_of(model, Model, "model"), text, second, natural(length, "length"), options)
    else:
        batch = _batch(inputs.pop("ids", None), inputs)
        if not batch:
            raise TypeError("what is to be read? inspect(model, text), or ids=..., pictures=...")
        names = [_names(model, batch.get(side), options.get("sequence", 0)) for side in ("ids", "second_ids")]
        engine = _fovea.inspect_batch(engine_of(model, Model, "model"), batch, *names, options)
    found = Inspection(engine, name or "the model")
    if out is not None:
        found.save(out, force=force)
    return found


def _names(model: Model, ids: np.ndarray | None, sequence: int) -> list[str]:
    """What the tokens of a sequence look like."""
    if ids is None or ids.ndim != 2 or sequence >= len(ids):
        return []
    tokenizer = model.tokenizer
    return [tokenizer.decode([int(i)], skip_special=False) if tokenizer else f"{i} " for i in ids[sequence]]


def inspect_attention(q: Any, k: Any, v: Any, mechanism: str | Mechanism = "softmax", **options: Any) -> Inspection:
    """What one call of attention reads: arguments as for fovea.attention(), options also those of inspect().

    >>> x = np.ones((1, 5, 2, 4), np.float32)
    >>> inspect_attention(x, x, x, causal=True).layers[0].heads[0].weights[1]
    array([0.5, 0.5, 0. , 0. , 0. ], dtype=float32)
    """
    mine, rest = _split(options, _OF_CALLS)
    call = Call(q, k, v, mechanism, rest)
    engine = _fovea.inspect_attention(q, k, v, call.engine, call.options, mine)
    return Inspection(engine, mechanism if isinstance(mechanism, str) else mechanism.name)


def approximation(q: Any, k: Any, v: Any, mechanisms: Sequence[str | Mechanism], lengths: Sequence[int] | None = None, *,
                  causal: bool = False) -> list[Approximation]:
    """How far mechanisms are from softmax on q, k and v (batch, n, heads, d), on their first ``lengths`` tokens (all of them).

    >>> x = np.ones((1, 6, 2, 4), np.float32)
    >>> [row.output_error for row in approximation(x, x, x, ["softmax", "linear"])][0]
    0.0
    """
    names = [str(m) if isinstance(m, str) else m.text for m in mechanisms]
    rows = _fovea.approximation(q, k, v, names, list(lengths or [min(q.shape[1], k.shape[1])]), causal)
    return [Approximation(**row) for row in rows]
