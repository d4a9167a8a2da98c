"""What arguments may be, checked before the engine sees them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from fovea._arrays import whole


def settings_text(settings: Mapping[str, Any]) -> str:
    """Settings as the engine reads them. Numbers may be those of any library, paths are texts."""
    return json.dumps({name: _plain(value, name) for name, value in settings.items()})


def _plain(value: Any, name: str) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, (np.generic, np.ndarray)) and value.dtype.kind in "biuf":
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [_plain(one, name) for one in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(one, f"{name}.{key}") for key, one in value.items()}
    raise TypeError(f"{name} cannot be {value!r}: it is a number, a text, True or False, or a list of them")


def natural(value: Any, name: str) -> int:
    """A whole number from 0 on that 63 bits hold."""
    number = whole(value, name)
    if not 0 <= number < 2**63:
        raise ValueError(f"{name} cannot be {number}: it is a whole number of at least 0")
    return number


def path(value: Any, name: str) -> str:
    """A file or folder as text."""
    try:
        return str(os.fspath(value))
    except TypeError:
        raise TypeError(f"{name} cannot be {value!r}: it is a path") from None


def engine_of(value: Any, kind: type, name: str) -> Any:
    """The engine's side of one of our own objects."""
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be a fovea.{kind.__name__}, not {type(value).__name__}")
    return value._engine  # type: ignore[attr-defined]
