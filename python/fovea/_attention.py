"""attention() and its gradient on arrays of any framework."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any, NamedTuple

import numpy as np

from fovea import _fovea
from fovea._arrays import card_of, check_one_framework, converter, int_list, is_torch, number, placer, whole
from fovea._mechanism import Mechanism, in_order, plain_mechanism, weights_for
from fovea._pattern import Pattern


class Gradients(NamedTuple):
    """What attention_backward() returns: one array for each array that was given, None for the others."""

    q: Any
    k: Any
    v: Any
    bias: Any = None
    diagonal_bias: Any = None
    initial_state: Any = None
    input: Any = None
    weights: dict[str, Any] | None = None


def attention(q: Any, k: Any, v: Any, mechanism: str | Mechanism = "softmax", **options: Any) -> Any:
    """Attention of q (b, n_q, h, d_k) over k (b, n_k, h_kv, d_k) and v (b, n_k, h_kv, d_v); an array like q.

    Arrays are NumPy's, PyTorch's, JAX's or any with ``__dlpack__``, float32, bfloat16, float16 or float64; they are read
    where they lie, with any strides. PyTorch tensors get a gradient.

    Options:
        causal: no query sees a key after it.
        align: where causal queries stand among more keys: "bottom-right", the last on the last, or "top-left".
        scale: of the scores; 1 / sqrt(d_k) by default.
        window: (left, right) keys around each query, or one number for both; -1 is unlimited.
        mask: true keeps a pair; an array that broadcasts to (b, h, n_q, n_k), or a Pattern, which costs less.
        bias: added to the scores; broadcasts like mask. diagonal_bias: the same by distance, (b or 1, h or 1, 2 L - 1).
        alibi: a slope per head times the distance. rotary: True, or (base, halves, width). positions: for it, (b, n).
        cu_seqlens, cu_seqlens_k: packed sequences, offsets as in FlashAttention. lengths, lengths_k: padded ones.
        training: some mechanisms do otherwise while they learn; by default where dropout_p is more than 0.
        dropout_p, seed: dropout while training; the same seed draws the same numbers.
        return_lse: also the log-sum-exp of each row (b, n_q, h).
        initial_state, final_state: of recurrent mechanisms; what one piece of a sequence leaves to the next.
        input: (b, n_k, width), for mechanisms that read what the keys were projected from.
        weights: what the mechanism needs besides, by name or in its order; by default those of the Mechanism, or drawn
            from the seed.
        layer, layers: for mechanisms that differ from layer to layer.
        layout: "bnhd", or "bhnd" for arrays (b, h, n, d).
        Anything else is a parameter of the mechanism: ``attention(q, k, v, "diag", block=32)``.

    >>> import numpy as np
    >>> x = np.ones((1, 5, 2, 4), np.float32)
    >>> attention(x, x, x, "window", left=1, right=1).shape
    (1, 5, 2, 4)
    """
    if is_torch(q) or is_torch(k) or is_torch(v):
        import fovea.torch

        return fovea.torch.attention(q, k, v, mechanism, **options)
    call = Call(q, k, v, mechanism, options)
    return call.results(_fovea.attention(q, k, v, call.engine, call.options))


def attention_backward(grad: Any, q: Any, k: Any, v: Any, mechanism: str | Mechanism = "softmax", *, grad_lse: Any = None,
                       grad_final_state: Any = None, **options: Any) -> Gradients:
    """The gradients of attention(q, k, v, mechanism, **options), given that of its output (and of its other results).

    >>> import numpy as np
    >>> x = np.ones((1, 5, 2, 4), np.float32)
    >>> dq, dk, dv = attention_backward(x, x, x, x, "linear")[:3]
    >>> dv.shape
    (1, 5, 2, 4)
    """
    if grad_lse is not None:
        options["return_lse"] = True
    if grad_final_state is not None:
        options["final_state"] = True
    call = Call(q, k, v, mechanism, options)
    recorded = _fovea.record(q, k, v, call.engine, call.options)
    return call.gradients(recorded.backward(grad, grad_lse, grad_final_state, call.stream))


def read_options(mechanism: str | Mechanism, options: dict[str, Any]) -> tuple[Mechanism, dict[str, Any]]:
    """The mechanism with its parameters, and the other options as the engine takes them."""
    found: dict[str, Any] = {}
    parameters = {}
    for name, value in options.items():
        if name not in _READERS:
            parameters[name] = value
        elif value is not None and value is not False:
            _READERS[name](found, name, value)
    chosen = _mechanism(mechanism, parameters)
    if "weights" in found:
        found["weights"] = in_order(found["weights"], chosen.weight_names, chosen.name)
    if found.get("dropout_p") and options.get("training") is None:
        found["training"] = True  # dropout is for training
    return chosen, found


def sizes_of(shapes: tuple[Any, Any, Any], heads_first: bool, given_input: Any) -> tuple[int, ...]:
    """heads, kv_heads, d_k, d_v, width and length: what the shapes of weights depend on."""
    q, k, v = shapes
    if not len(q) == len(k) == len(v) == 4:
        raise ValueError(f"q, k and v must have 4 axes (batch, n, heads, dim), got {q}, {k}, {v}")
    heads, n = (1, 2) if heads_first else (2, 1)
    width = 0 if given_input is None else int(given_input.shape[-1])
    return int(q[heads]), int(k[heads]), int(q[3]), int(v[3]), width, int(k[n])


class Call:
    """The arguments of one call, as the engine takes them."""

    def __init__(self, q: Any, k: Any, v: Any, mechanism: str | Mechanism, options: dict[str, Any]) -> None:
        if not type(q) is type(k) is type(v):
            check_one_framework(q=q, k=k, v=v)
        self.convert = converter(q)
        card = card_of(q)
        self.stream = 0 if card is None else card[1]
        self.mechanism, self.options = read_options(mechanism, options)
        self.engine = self.mechanism._engine
        if self.convert is not None and not isinstance(q, np.ndarray):
            self.options["numpy"] = False
        if self.mechanism.weight_names and "weights" not in self.options:
            sizes = sizes_of((q.shape, k.shape, v.shape), "heads_first" in self.options, self.options.get("input"))
            f64 = str(q.dtype).endswith("float64")
            self.options["weights"] = weights_for(self.mechanism, sizes, f64, self.options.get("seed"))
            if card is not None:
                self.options["weights"] = list(map(placer(q), self.options["weights"]))
        if card is not None:
            self.options["card"] = card
        for name, value in self.options.items():
            array = value[0] if name == "weights" and value else value
            if is_torch(array):
                check_one_framework(**{name: array, "q": q})

    def results(self, arrays: tuple[Any, Any, Any]) -> Any:
        if self.convert is not None:
            arrays = tuple(None if a is None else self.convert(a) for a in arrays)
        if arrays[1] is None and arrays[2] is None:
            return arrays[0]
        return tuple(a for a in arrays if a is not None)

    def gradients(self, found: dict[str, Any]) -> Gradients:
        convert = self.convert or (lambda array: array)
        weights = [convert(w) for w in found.pop("weights")]
        return Gradients(**{name: convert(array) for name, array in found.items()},
                         weights=dict(zip(self.mechanism.weight_names, weights)) if weights else None)


def _mechanism(mechanism: str | Mechanism, parameters: dict[str, Any]) -> Mechanism:
    if isinstance(mechanism, str):
        plain = plain_mechanism(mechanism)
        if not parameters:
            return plain
        for name in parameters:
            if name not in plain.parameters:
                raise _unknown(name, plain)
        return Mechanism(mechanism, **parameters)
    if not isinstance(mechanism, Mechanism):
        raise TypeError(f"mechanism must be a name or a Mechanism, not {type(mechanism).__name__}")
    for name in parameters:
        if name in mechanism.parameters:
            raise TypeError(f"parameters of a Mechanism are given when it is made, not {name!r} with the call")
        raise _unknown(name, mechanism)
    return mechanism


def _unknown(name: str, mechanism: Mechanism) -> TypeError:
    near = get_close_matches(name, [*mechanism.parameters, *_READERS], n=1)
    return TypeError(f'attention "{mechanism.name}" has no option or parameter "{name}"'
                     + (f"\n  try     {near[0]}" if near else ""))


def _read_as_is(options: dict[str, Any], name: str, value: Any) -> None:
    options[name] = value


def _read_flag(options: dict[str, Any], name: str, value: Any) -> None:
    options[name] = bool(value) if isinstance(value, np.bool_) else value


def _read_number(options: dict[str, Any], name: str, value: Any) -> None:
    options[name] = number(value, name)


def _read_whole(options: dict[str, Any], name: str, value: Any) -> None:
    options[name] = whole(value, name)


def _read_window(options: dict[str, Any], name: str, value: Any) -> None:
    sides = tuple(value) if isinstance(value, (tuple, list, np.ndarray)) and np.ndim(value) == 1 else (value, value)
    if len(sides) != 2:
        raise TypeError(f"window cannot be {value!r}: it is (left, right)")
    options[name] = (whole(sides[0], name), whole(sides[1], name))


def _read_mask(options: dict[str, Any], name: str, value: Any) -> None:
    if isinstance(value, Pattern):
        options["pattern"] = value._engine
    else:
        options["mask"] = value


def _read_rotary(options: dict[str, Any], name: str, value: Any) -> None:
    if isinstance(value, (bool, np.bool_)):
        if not value:
            return
        value = (10000.0, False, 0)
    if not isinstance(value, (tuple, list)) or len(value) != 3:
        raise TypeError(f"rotary cannot be {value!r}: it is True or (base, halves, width)")
    options[name] = (number(value[0], name), bool(value[1]), whole(value[2], name))


def _read_lengths(options: dict[str, Any], name: str, value: Any) -> None:
    options[name] = int_list(value, name)


def _read_layout(options: dict[str, Any], name: str, value: Any) -> None:
    if value not in ("bnhd", "bhnd"):
        raise ValueError(f'layout is "bnhd" or "bhnd", not {value!r}')
    if value == "bhnd":
        options["heads_first"] = True


ARRAYS = ("mask", "bias", "diagonal_bias", "positions", "initial_state", "input")
_READERS = {
    **dict.fromkeys(ARRAYS, _read_as_is),
    **dict.fromkeys(("causal", "alibi", "training", "return_lse", "final_state"), _read_flag),
    **dict.fromkeys(("scale", "dropout_p"), _read_number),
    **dict.fromkeys(("seed", "layer", "layers"), _read_whole),
    **dict.fromkeys(("cu_seqlens", "cu_seqlens_k", "lengths", "lengths_k"), _read_lengths),
    "align": _read_as_is,
    "window": _read_window,
    "mask": _read_mask,
    "rotary": _read_rotary,
    "layout": _read_layout,
    "weights": _read_as_is,
}
OPTIONS = frozenset(_READERS)
