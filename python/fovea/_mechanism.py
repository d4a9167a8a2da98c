"""Mechanisms by name, with their settings and their weights."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from os import PathLike
from typing import Any, Union

import numpy as np

from fovea import _fovea

_SOME_SIZES = [2, 2, 2, 2, 2, 2]  # the names of weights depend on none of them
Value = Union[bool, int, float, str]


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

    def __str__(self) -> str:
        return f"{self.name}: {self.summary}"


@lru_cache(maxsize=1)
def _registry() -> tuple[MechanismInfo, ...]:
    found = (_fovea.describe(name) for name in _fovea.mechanism_names())
    return tuple(MechanismInfo(**{**d, "parameters": tuple(d["parameters"]), "features": frozenset(d["features"])})
                 for d in found)


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

    def __repr__(self) -> str:
        rows = (f"{name} {a.dtype} {a.shape}{'' if name in self.trained else ' (kept)'}" for name, a in self.items())
        return "{" + ", ".join(rows) + "}"


class Mechanism:
    """A mechanism with its settings, and the weights it needs besides q, k and v.

    >>> m = Mechanism("performer", features=32)
    >>> m.init(heads=2, d_k=16).weights
    {directions float32 (32, 16) (kept)}
    """

    def __init__(self, name: str, *, seed: int = 0, **parameters: Value) -> None:
        self._engine = _fovea.mechanism(name, parameters)
        self.name: str = self._engine.name
        self.text: str = self._engine.text  # as on the command line, "diag:block=32"; defaults are left out
        self.parameters: dict[str, Value] = self._engine.parameters
        self.seed = seed
        self.weight_names = tuple(name for name, _, _ in self._engine.weights(_SOME_SIZES))
        self._weights: Weights | None = None

    @property
    def needs_input(self) -> bool:
        return bool(self._engine.needs_input)

    def supports(self, feature: str) -> bool:
        """Is this cell of the support matrix filled, with these settings?"""
        return bool(self._engine.supports(feature))

    def init(self, *, heads: int, d_k: int, kv_heads: int | None = None, d_v: int | None = None, width: int = 0,
             max_length: int = -1, dtype: Any = np.float32) -> Mechanism:
        """Draws the weights from the seed, for layers of these sizes; a call without this draws them when it needs them."""
        sizes = [heads, kv_heads or heads, d_k, d_v or d_k, width, max_length]
        specs = self._engine.weights(sizes)
        arrays = self._engine.draw_weights(sizes, np.dtype(dtype) == np.float64, self.seed)
        self._weights = Weights({name: array for (name, _, _), array in zip(specs, arrays)},
                                frozenset(name for name, _, trained in specs if trained))
        return self

    @property
    def weights(self) -> Weights:
        if self._weights is None:
            if self.weight_names:
                raise ValueError(f'mechanism "{self.name}" has no weights yet\n  try     init(heads=..., d_k=...)')
            self._weights = Weights({}, frozenset())
        return self._weights

    def save(self, path: str | PathLike[str]) -> None:
        """Writes settings and weights as one safetensors file."""
        about = {"fovea.mechanism": self.text, "fovea.seed": str(self.seed),
                 "fovea.trained": json.dumps(sorted(self.weights.trained))}
        _fovea.write_safetensors(str(path), list(self.weights.items()), about)

    @staticmethod
    def load(path: str | PathLike[str]) -> Mechanism:
        """Reads what save() wrote."""
        if not os.path.exists(path):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        tensors, about = _fovea.read_safetensors(str(path))
        if "fovea.mechanism" not in about:
            raise ValueError(f"{path} holds no mechanism")
        mechanism = Mechanism(about["fovea.mechanism"], seed=int(about.get("fovea.seed", "0")))
        mechanism._weights = Weights({name: np.array(array) for name, array in tensors},
                                     frozenset(json.loads(about.get("fovea.trained", "[]"))))
        return mechanism

    def __repr__(self) -> str:
        settings = "".join(f", {name}={value!r}" for name, value in self.parameters.items())
        return f"Mechanism({self.name!r}{settings})"


@lru_cache(maxsize=256)
def plain_mechanism(text: str) -> Mechanism:
    """The mechanism of a name without settings of its own, made once."""
    return Mechanism(text)


def weights_for(mechanism: Mechanism, sizes: tuple[int, ...], f64: bool, seed: int | None = None) -> list[np.ndarray]:
    """What a call gives to a mechanism of these sizes: its own weights, or such as its seed draws."""
    if mechanism._weights is not None:
        return list(mechanism._weights.values())
    return _drawn(mechanism.text, sizes, f64, mechanism.seed if seed is None else seed) if mechanism.weight_names else []


@lru_cache(maxsize=64)
def _drawn(text: str, sizes: tuple[int, ...], f64: bool, seed: int) -> list[np.ndarray]:
    return list(_fovea.mechanism(text, {}).draw_weights(list(sizes), f64, seed))
