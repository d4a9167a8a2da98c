"""Mechanisms by name, with their settings and their weights."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from os import PathLike
from typing import Any, Union

import numpy as np

from fovea import _fovea
from fovea._arrays import whole

_SOME_SIZES = [2, 2, 2, 2, 2, 2]  # the names of weights depend on none of them
Value = Union[bool, int, float, str]


@dataclass(frozen=True)
class WeightInfo:
    """A weight of a mechanism: what its axes are, in the names of sizes and parameters, and what it means."""

    name: str
    axes: str  # "heads, d_k"
    meaning: str
    trained: bool  # or drawn once and kept

    def __str__(self) -> str:
        return f"{self.name} ({self.axes}){'' if self.trained else ' (kept)'}: {self.meaning}"


@dataclass(frozen=True)
class MechanismInfo:
    """What the registry says about a mechanism with default settings."""

    name: str
    family: str
    summary: str
    paper: str
    linear: bool  # its cost grows (nearly) linearly with the length
    needs_input: bool  # reads what the keys were projected from, besides q, k and v
    parameters: tuple[dict[str, Any], ...]
    features: frozenset[str]
    weights: tuple[WeightInfo, ...]  # in the order in which it takes them

    def __str__(self) -> str:
        return f"{self.name}: {self.summary}"


@lru_cache(maxsize=1)
def _registry() -> tuple[MechanismInfo, ...]:
    found = (_fovea.describe(name) for name in _fovea.mechanism_names())
    return tuple(MechanismInfo(**{**d, "parameters": tuple(d["parameters"]), "features": frozenset(d["features"])},
                               weights=_weight_info(_fovea.mechanism(d["name"], {}))) for d in found)


def _weight_info(engine: Any) -> tuple[WeightInfo, ...]:
    return tuple(WeightInfo(name, axes, meaning, trained)
                 for name, _, trained, axes, meaning in engine.weights(_SOME_SIZES))


def list_mechanisms(*features: str) -> list[MechanismInfo]:
    """The mechanisms there are, or those that have all the features named.

    >>> "softmax" in [m.name for m in list_mechanisms("causal", "lse")]
    True
    """
    known = _fovea.mechanism("softmax", {})
    for feature in features:
        known.supports(feature)  # refuses a name that is not one
    return [info for info in _registry() if info.features.issuperset(features)]


class Weights(Mapping[str, np.ndarray]):
    """The weights of a mechanism by name, in the order in which it takes them. Setting one checks its shape."""

    def __init__(self, arrays: dict[str, np.ndarray], trained: frozenset[str]) -> None:
        self._arrays = arrays
        self.trained = trained  # names of those that are learned; others are drawn once and kept

    def __getitem__(self, name: str) -> np.ndarray:
        return self._arrays[name]

    def __setitem__(self, name: str, value: Any) -> None:
        old = self._arrays[name]
        new = np.array(value, dtype=old.dtype)
        if new.shape != old.shape:
            raise ValueError(f"weight {name} has shape {old.shape}, not {new.shape}")
        self._arrays[name] = new

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Weights):
            return NotImplemented
        return (self.trained == other.trained and list(self) == list(other)
                and all(a.dtype == other[name].dtype and np.array_equal(a, other[name]) for name, a in self.items()))

    __hash__ = None  # type: ignore[assignment]  # weights can be set

    def __repr__(self) -> str:
        rows = (f"{name} {a.dtype} {a.shape}{'' if name in self.trained else ' (kept)'}" for name, a in self.items())
        return "{" + ", ".join(rows) + "}"


class Mechanism:
    """A mechanism with its settings, and the weights it needs besides q, k and v.

    The seed draws the weights, and is the parameter ``seed`` of mechanisms that have one. Mechanisms are equal when their
    settings, seeds and weights are.

    >>> m = Mechanism("performer", features=32)
    >>> m.init(heads=2, d_k=16).weights
    {directions float32 (32, 16) (kept)}
    """

    def __init__(self, name: str, *, seed: int | None = None, **parameters: Value) -> None:
        self._engine = _fovea.mechanism(name, parameters)
        if seed is not None and "seed" in self._engine.parameters:
            self._engine = _fovea.mechanism(name, {**parameters, "seed": seed})
        self.name: str = self._engine.name
        self.text: str = self._engine.text  # as on the command line, "diag:block=32"; defaults are left out
        self.parameters: dict[str, Value] = self._engine.parameters
        self.seed = None if seed is None else whole(seed, "seed")
        self.weight_names = tuple(name for name, *_ in self._engine.weights(_SOME_SIZES))
        self._weights: Weights | None = None

    @property
    def needs_input(self) -> bool:
        return bool(self._engine.needs_input)

    @property
    def weight_info(self) -> tuple[WeightInfo, ...]:
        """What weights it has with these settings, in the order in which it takes them; their axes and meanings."""
        return _weight_info(self._engine)

    def supports(self, feature: str) -> bool:
        """Is this cell of the support matrix filled, with these settings?"""
        return bool(self._engine.supports(feature))

    def init(self, *, heads: int, d_k: int, kv_heads: int | None = None, d_v: int | None = None, width: int = 0,
             max_length: int = -1, dtype: Any = np.float32, seed: int | None = None) -> Mechanism:
        """Draws the weights for layers of these sizes, from the mechanism's seed or this one; a call without this draws
        them when it needs them."""
        sizes = [heads, kv_heads or heads, d_k, d_v or d_k, width, max_length]
        specs = self._engine.weights(sizes)
        self._check_sizes(specs, sizes)
        arrays = self._engine.draw_weights(sizes, np.dtype(dtype) == np.float64, (self.seed if seed is None else seed) or 0)
        self._weights = Weights({name: array for (name, *_), array in zip(specs, arrays)},
                                frozenset(name for name, _, trained, *_ in specs if trained))
        return self

    def _check_sizes(self, specs: list[Any], sizes: list[int]) -> None:
        """Refuses sizes that leave the shape of a weight open, naming the one that is missing."""
        for place, what, hint in ((4, "the width of the layer's input", "width=..., which is input_dim of a layer"),
                                  (5, "the longest sequence", "max_length=...")):
            given = self._engine.weights([*sizes[:place], 2, *sizes[place + 1:]])
            for (name, shape, *_), (_, other, *_) in zip(specs, given):
                if sizes[place] < 1 and shape != other:
                    raise ValueError(f'the shape of weight "{name}" of attention "{self.name}" depends on {what}\n'
                                     f"  try     {hint}")

    @property
    def weights(self) -> Weights:
        if self._weights is None:
            if self.weight_names:
                raise ValueError(f'mechanism "{self.name}" has no weights yet\n  try     init(heads=..., d_k=...)')
            self._weights = Weights({}, frozenset())
        return self._weights

    def save(self, path: str | PathLike[str]) -> None:
        """Writes settings and weights as one safetensors file."""
        about = {"fovea.mechanism": self.text, "fovea.trained": json.dumps(sorted(self.weights.trained))}
        if self.seed is not None:
            about["fovea.seed"] = str(self.seed)
        _fovea.write_safetensors(str(path), list(self.weights.items()), about)

    @staticmethod
    def load(path: str | PathLike[str]) -> Mechanism:
        """Reads what save() wrote."""
        tensors, about = _fovea.read_safetensors(str(path))
        if "fovea.mechanism" not in about:
            raise ValueError(f"{path} holds no mechanism")
        mechanism = Mechanism(about["fovea.mechanism"], seed=int(about["fovea.seed"]) if "fovea.seed" in about else None)
        mechanism._weights = Weights({name: np.array(array) for name, array in tensors},
                                     frozenset(json.loads(about.get("fovea.trained", "[]"))))
        return mechanism

    def __getstate__(self) -> dict[str, Any]:
        return {"text": self.text, "seed": self.seed, "weights": self._weights}

    def __setstate__(self, state: dict[str, Any]) -> None:
        Mechanism.__init__(self, state["text"], seed=state["seed"])
        self._weights = state["weights"]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mechanism):
            return NotImplemented
        return (self.text, self.seed, self._weights) == (other.text, other.seed, other._weights)

    def __hash__(self) -> int:
        return hash((self.text, self.seed))

    def __repr__(self) -> str:
        settings = "".join(f", {name}={value!r}" for name, value in self.parameters.items())
        return f"Mechanism({self.name!r}{settings})"


@lru_cache(maxsize=256)
def plain_mechanism(text: str) -> Mechanism:
    """The mechanism of a name without settings of its own, made once."""
    return Mechanism(text)


def in_order(weights: Mapping[str, Any] | Sequence[Any], names: tuple[str, ...], mechanism: str) -> list[Any]:
    """Weights as the mechanism takes them: a mapping by name, anything else in its order."""
    if not isinstance(weights, Mapping):
        return list(weights)
    for name in weights:
        if name not in names:
            near = get_close_matches(str(name), names, n=1) or names
            raise ValueError(f'attention "{mechanism}" has no weight "{name}"\n'
                             f"  try     {', '.join(near) or 'no weights: it has none'}")
    for name in names:
        if name not in weights:
            raise ValueError(f'attention "{mechanism}" also needs the weight "{name}"\n  try     {", ".join(names)}')
    return [weights[name] for name in names]


def weights_for(mechanism: Mechanism, sizes: tuple[int, ...], f64: bool, seed: int | None = None) -> list[np.ndarray]:
    """What a call gives to a mechanism of these sizes: its own weights, or such as its seed draws."""
    if mechanism._weights is not None:
        return list(mechanism._weights.values())
    return _drawn(mechanism.text, sizes, f64, (seed if mechanism.seed is None else mechanism.seed) or 0)


@lru_cache(maxsize=64)
def _drawn(text: str, sizes: tuple[int, ...], f64: bool, seed: int) -> list[np.ndarray]:
    return list(_fovea.mechanism(text, {}).draw_weights(list(sizes), f64, seed))
