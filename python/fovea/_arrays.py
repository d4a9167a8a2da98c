"""Which framework an array belongs to, and how results become its arrays."""

from __future__ import annotations

import sys
from collections.abc import Callable
from operator import index
from typing import Any

import numpy as np

from fovea import _fovea

_DLPACK_CPU, _DLPACK_CUDA = 1, 2


def is_torch(array: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)


def converter(array: Any) -> Callable[[Any], Any] | None:
    """What makes an array like this one of a result; None: nothing to do."""
    if isinstance(array, np.ndarray):
        return _bfloat16(array.dtype) if array.dtype.isbuiltin == 2 else None
    if is_torch(array):
        return sys.modules["torch"].from_dlpack
    if (namespace := _namespace(array)) is not None:
        return namespace.from_dlpack
    if type(array).__module__.partition(".")[0] in ("jax", "jaxlib"):
        return sys.modules["jax"].dlpack.from_dlpack
    return None


def _namespace(array: Any) -> Any:
    """The functions of the array standard for an array; None: it has none."""
    if hasattr(array, "__array_namespace__"):
        return array.__array_namespace__()
    # CuPy's arrays tell of theirs from version 14 on.
    return sys.modules["cupy"] if type(array).__module__.partition(".")[0] == "cupy" else None


def _bfloat16(dtype: np.dtype[Any]) -> Callable[[Any], Any]:
    """NumPy learns of bfloat16 from ml_dtypes; the engine gives such results as integers."""
    return lambda array: array.view(dtype) if array.dtype == np.uint16 else array


def card_of(array: Any, name: str = "q") -> tuple[int, int] | None:
    """On which card an array lies, and the stream its framework works on, as the numbers of DLPack: 1 is the default one, 0
    stands for none. None: it lies on the CPU."""
    if isinstance(array, np.ndarray):
        return None
    if is_torch(array):
        if array.device.type == "cpu":
            return None
        check_device(array.device.type, array.device, name)
        return array.device.index, sys.modules["torch"].cuda.current_stream(array.device).cuda_stream or 1
    where = getattr(array, "__dlpack_device__", None)
    kind, number = (_DLPACK_CPU, 0) if where is None else where()
    if kind == _DLPACK_CPU:
        return None
    if kind == _DLPACK_CUDA:
        check_device("cuda", f"cuda:{number}", name)
    else:
        check_device("other", f"device {int(kind)} of DLPack", name)
    return number, 0


def check_device(kind: str, device: Any, name: str) -> None:
    """Refuses what this build does not run on."""
    if kind != "cpu" and not _fovea.has_cuda:
        raise TypeError(f"{name} is on {device}; this build of fovea runs on the CPU only\n"
                        f"  try     {name}.cpu(), or a build with CUDA (docs/cuda.md)")
    if kind not in ("cpu", "cuda"):
        raise TypeError(f"{name} is on {device}; fovea runs on the CPU and on CUDA cards")


def placer(array: Any) -> Callable[[np.ndarray], Any]:
    """What sends an array of NumPy, a weight that was drawn, to where this one lies."""
    if is_torch(array):
        return lambda x: sys.modules["torch"].from_numpy(x).to(array.device)
    if (namespace := _namespace(array)) is None:
        raise TypeError(f"weights are drawn on the CPU, and nothing is known that sends them where a {framework(array)} lies\n"
                        f"  try     weights=[...] that lie there")
    return namespace.asarray


def framework(array: Any) -> str:
    """What an array is called in an error."""
    return f"{type(array).__module__.partition('.')[0]}.{type(array).__qualname__}"


def check_one_framework(**arrays: Any) -> None:
    """Refuses PyTorch's tensors beside arrays of others: either a gradient or a result would be lost."""
    tensors = [name for name, array in arrays.items() if is_torch(array)]
    others = [name for name, array in arrays.items() if array is not None and name not in tensors]
    if tensors and others:
        a, b = tensors[0], others[0]
        raise TypeError(f"{a} is a {framework(arrays[a])}, {b} a {framework(arrays[b])}: arrays of one call come from one "
                        f"framework\n  try     torch.as_tensor({b})")


def whole(value: Any, name: str) -> int:
    """A whole number of any library, but no truth value."""
    if not isinstance(value, (bool, np.bool_)):
        try:
            return index(value)
        except TypeError:
            pass
    raise TypeError(f"{name} cannot be {value!r}: it is a whole number")


def number(value: Any, name: str) -> float:
    """A real number of any library."""
    if isinstance(value, (str, bytes)) or not hasattr(value, "__float__"):
        raise TypeError(f"{name} cannot be {value!r}: it is a number")
    return float(value)


def int_list(values: Any, name: str) -> list[int]:
    """Whole numbers from a sequence or an array."""
    given = np.asarray(values)
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
        raise TypeError(f"{name} cannot be {values!r}: it is a row of whole numbers")
    if given.size and not -(2**31) <= given.min() <= given.max() < 2**31:
        raise ValueError(f"{name} has numbers beyond 32 bits")
    return [int(n) for n in given.tolist()]
