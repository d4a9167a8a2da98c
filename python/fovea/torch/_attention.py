"""attention() on tensors, in front of the operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import Parameter

from fovea import _fovea
from fovea._arrays import check_device, check_one_framework, framework
from fovea._attention import ARRAYS, Call, read_options, sizes_of
from fovea._mechanism import Mechanism, in_order, plain_mechanism, weights_for
from fovea._pattern import Pattern
from fovea.torch._ops import LENGTHS, PATTERNS, Attend, attend, compute, dense, noted, with_room

Named = list[tuple[str, Tensor]]
Given = Mapping[str, Tensor] | Sequence[Tensor]


def attention(q: Tensor, k: Tensor, v: Tensor, mechanism: str | Mechanism = "softmax", *,
              weights: Given | None = None, **options: Any) -> Any:
    """fovea.attention for tensors, with all of its options. Gradients flow into q, k, v, bias, diagonal_bias,
    initial_state, input and weights (by name, or in the mechanism's order). Without a seed, what is drawn while training
    follows PyTorch's generator.

    >>> q = torch.zeros(1, 4, 2, 8)
    >>> attention(q, q, torch.ones(1, 4, 2, 8), causal=True).mean()
    tensor(1.)
    """
    check_tensors(q, k, v)
    if weights is None and _is_plain(q, k, v, options):
        return _directly(q, k, v, mechanism, options)
    if weights is None:
        weights = _default_weights(q, k, v, mechanism, options)
    else:
        weights = [_tensor(w, q.device) for w in in_order(weights, *_weight_names(*_named(mechanism, options)))]
    return run(q, k, v, *split(mechanism, options, q.device), weights)


def check_tensors(q: Any, k: Any, v: Any) -> None:
    for name, x in (("q", q), ("k", k), ("v", v)):
        if not isinstance(x, Tensor):
            check_one_framework(q=q, k=k, v=v)
            raise TypeError(f"{name} must be a torch.Tensor, not a {framework(x)}")
    check_device(q.device.type, q.device, "q")


def _tensor(array: Any, device: torch.device) -> Any:
    """Arrays of NumPy beside tensors are constants."""
    return torch.from_numpy(array).to(device) if isinstance(array, np.ndarray) else array


def _is_eager(*tensors: Tensor) -> bool:
    """Does no compiler, tracer or mode look at this call?"""
    if torch.compiler.is_compiling() or torch.jit.is_tracing() or torch._C._len_torch_dispatch_stack() > 0:
        return False
    return all([type(x) is Tensor or type(x) is Parameter for x in tensors])


def _is_transformed() -> bool:
    """Does torch.func, or a derivative in forward mode?"""
    return torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0


def _is_plain(q: Tensor, k: Tensor, v: Tensor, options: dict[str, Any]) -> bool:
    """Is this nothing but a computation on q, k and v, without a gradient?"""
    if torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad):
        return False
    if torch.is_autocast_enabled(q.device.type) or not _is_eager(q, k, v) or _is_transformed():
        return False
    return all([name not in _OTHERWISE and not isinstance(value, Tensor) for name, value in options.items()])


# These draw from PyTorch, or have several results.
_OTHERWISE = frozenset(("dropout_p", "training", "return_lse", "final_state"))
_NUMPY_DTYPES = frozenset((torch.float32, torch.float64, torch.float16))


def _directly(q: Tensor, k: Tensor, v: Tensor, mechanism: str | Mechanism, options: dict[str, Any]) -> Tensor:
    """Without PyTorch's dispatch, which costs as much as a small call. NumPy's view of a tensor reaches the engine in a
    third of the time that DLPack takes; bfloat16 has none."""
    given: tuple[Any, Any, Any] = (q.detach(), k.detach(), v.detach())
    on_cpu = q.device.type == k.device.type == v.device.type == "cpu"
    if on_cpu and q.dtype in _NUMPY_DTYPES:
        given = (given[0].numpy(), given[1].numpy(), given[2].numpy())
    elif not on_cpu:
        options = {name: _tensor(value, q.device) for name, value in options.items()}
        if weights := _default_weights(q, k, v, mechanism, options):
            options["weights"] = weights
    call = Call(*given, mechanism, options)
    found = with_room(q, lambda: _fovea.attention(*given, call.engine, call.options)[0])
    output = torch.from_dlpack(found) if call.convert else torch.from_numpy(found)
    return dense(output, "heads_first" in call.options)


def split(mechanism: str | Mechanism, options: dict[str, Any], device: torch.device) -> tuple[str, Named]:
    """A call as a text, and the tensors in it. torch.compile looks through this, but not into the text."""
    options = {name: _tensor(value, device) if name in ARRAYS else value for name, value in options.items()}
    tensors = [(name, value) for name, value in options.items() if isinstance(value, Tensor)]
    plain = {name: value for name, value in options.items() if not isinstance(value, Tensor)}
    mask = plain.get("mask")
    if isinstance(mask, Pattern):
        PATTERNS[id(mask)] = mask
        plain["mask"] = id(mask)
    for name, value in tensors:
        if name in LENGTHS and value.is_floating_point():
            raise TypeError(f"{name} cannot be of {value.dtype}: it is a row of whole numbers")
    text, draws = call_text(mechanism if isinstance(mechanism, str) else mechanism.text, plain)
    if draws and options.get("seed") is None:
        tensors.append(("seed", torch.randint(0, 2**62, ())))
    return text, tensors


@torch.compiler.assume_constant_result
def call_text(mechanism: str, plain: dict[str, Any]) -> tuple[str, bool]:
    """The call, and whether it draws random numbers."""
    plain = dict(plain)
    pattern = plain.pop("mask", None)  # the key of one: masks that are arrays are tensors here
    chosen, options = read_options(mechanism, plain)
    draws = bool(options.get("training")) and (options.get("dropout_p", 0.0) != 0.0 or chosen._engine.draws)
    return repr({"mechanism": chosen.text, **options, **({} if pattern is None else {"pattern": pattern})}), draws


def run(q: Tensor, k: Tensor, v: Tensor, text: str, tensors: Named, weights: Sequence[Tensor]) -> Any:
    if torch.is_autocast_enabled(q.device.type):
        q, k, v = _narrow(q), _narrow(k), _narrow(v)
        tensors = [(name, _narrow(x) if name == "input" else x) for name, x in tensors]
    others = [x for _, x in tensors] + list(weights)
    names = [name for name, _ in tensors] + ["weights"] * len(weights)
    call = noted(text + "\t" + ",".join(names), (q, k, v, *others))
    if not _is_eager(q, k, v, *others):
        results = attend(q, k, v, others, call)
    elif not call.endswith("\t") or _is_transformed():
        results = Attend.apply(call, q, k, v, *others)  # type: ignore[no-untyped-call]
    else:
        results = compute(q, k, v, others, call)
    found = [results[0]]
    if "'return_lse': True" in text:
        found.append(results[1])
    if "'final_state': True" in text:
        found.append(results[2])
    return found[0] if len(found) == 1 else tuple(found)


def _narrow(x: Tensor) -> Tensor:
    return x if x.dtype == torch.float64 else x.to(torch.get_autocast_dtype(x.device.type))


def _named(mechanism: str | Mechanism, options: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """What the names of the weights depend on, in a form that a compiler takes for a constant."""
    plain = {name: value for name, value in options.items() if not isinstance(value, Tensor) and name != "mask"}
    return mechanism if isinstance(mechanism, str) else mechanism.text, plain


def _default_weights(q: Tensor, k: Tensor, v: Tensor, mechanism: str | Mechanism, options: dict[str, Any]) -> list[Tensor]:
    text, plain = _named(mechanism, options)
    if not _weight_names(text, plain)[0]:
        return []
    chosen, _ = read_options(mechanism, plain)
    sizes = sizes_of((q.shape, k.shape, v.shape), options.get("layout") == "bhnd", options.get("input"))
    seed = None if isinstance(options.get("seed"), Tensor) else options.get("seed")
    f64 = q.dtype == torch.float64
    if q.device.type != "cpu" and chosen._weights is None and not torch.compiler.is_compiling():
        return list(_drawn_on(q.device, chosen.text, sizes, f64, (seed if chosen.seed is None else chosen.seed) or 0))
    return [_tensor(w, q.device) for w in weights_for(chosen, sizes, f64, seed)]


@lru_cache(maxsize=64)
def _drawn_on(device: torch.device, text: str, sizes: tuple[int, ...], f64: bool, seed: int) -> tuple[Tensor, ...]:
    """Drawn weights are sent to a card once."""
    return tuple(torch.from_numpy(w).to(device) for w in weights_for(plain_mechanism(text), sizes, f64, seed))


@torch.compiler.assume_constant_result
def _weight_names(mechanism: str, plain: dict[str, Any]) -> tuple[tuple[str, ...], str]:
    """The names of the weights, and that of the mechanism."""
    chosen = read_options(mechanism, plain)[0] if plain else plain_mechanism(mechanism)
    return chosen.weight_names, chosen.name
