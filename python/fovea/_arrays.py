"""Which framework an array belongs to, and how results become its arrays."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np


def is_torch(array: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)


def converter(array: Any) -> Callable[[Any], Any] | None:
    """What makes an array like this one of a result; None: nothing to do."""
    if isinstance(array, np.ndarray):
        return _bfloat16(array.dtype) if array.dtype.isbuiltin == 2 else None
    if is_torch(array):
        return sys.modules["torch"].from_dlpack
    if hasattr(array, "__array_namespace__"):
        return array.__array_namespace__().from_dlpack
    if type(array).__module__.partition(".")[0] in ("jax", "jaxlib"):
        return sys.modules["jax"].dlpack.from_dlpack
    return None


def _bfloat16(dtype: np.dtype[Any]) -> Callable[[Any], Any]:
    """NumPy learns of bfloat16 from ml_dtypes; the engine gives such results as integers."""
    return lambda array: array.view(dtype) if array.dtype == np.uint16 else array


def int_list(values: Any) -> list[int]:
    """Whole numbers from a sequence or an array."""
    return list(np.asarray(values, dtype=np.int32).tolist())
