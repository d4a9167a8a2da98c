"""fovea for JAX: attention as a callback, with its derivative.

>>> import jax.numpy as jnp, fovea.jax
>>> q = jnp.ones((1, 6, 2, 8))
>>> fovea.jax.attention(q, q, q, "norm", causal=True).shape
(1, 6, 2, 8)
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import fovea
from fovea._attention import read_options
from fovea._mechanism import Mechanism, in_order

# Options that are differentiated, in the order of Gradients; weights come last.
_FLOATS = ("bias", "diagonal_bias", "initial_state", "input")
_CONSTANTS = ("mask", "positions")


def attention(q: Any, k: Any, v: Any, mechanism: str | Mechanism = "softmax", **options: Any) -> Any:
    """fovea.attention under jit, grad and vmap, on the CPU: all options but return_lse and final_state. Arrays among the
    options (bias, mask, input, weights, ...) may be traced; bfloat16 and float16 are computed in float32."""
    if options.get("return_lse") or options.get("final_state"):
        raise NotImplementedError("fovea.jax.attention gives the output only\n  try     fovea.attention")
    if isinstance(options.get("mask"), fovea.Pattern):
        floats, constants = _FLOATS, ("positions",)
    else:
        floats, constants = _FLOATS, _CONSTANTS
    given = {name: options.pop(name) for name in floats if options.get(name) is not None}
    weights = options.pop("weights", None)
    fixed = {name: options.pop(name) for name in constants if options.get(name) is not None}
    chosen, _ = read_options(mechanism, options)  # refuses here what would end in a callback
    if weights is not None:
        given["weights"] = in_order(weights, chosen.weight_names, chosen.name)
    wide = jnp.float64 if q.dtype == jnp.float64 else jnp.float32
    arrays = jax.tree.map(lambda x: jnp.asarray(x, wide), {"q": q, "k": k, "v": v, **given})
    return _call(_Static(mechanism, options), arrays, fixed).astype(q.dtype)


class _Static:
    """The part of a call that is no array; equal to itself only, so that jit traces a new one."""

    def __init__(self, mechanism: str | Mechanism, options: dict[str, Any]) -> None:
        self.mechanism, self.options = mechanism, options

    def forward(self, arrays: dict[str, Any], fixed: dict[str, Any]) -> np.ndarray:
        a = jax.tree.map(np.asarray, {**arrays, **fixed})
        return np.asarray(fovea.attention(a.pop("q"), a.pop("k"), a.pop("v"), self.mechanism, **a, **self.options))

    def backward(self, grad: Any, arrays: dict[str, Any], fixed: dict[str, Any]) -> dict[str, Any]:
        a = jax.tree.map(np.asarray, {**arrays, **fixed})
        q, k, v = a.pop("q"), a.pop("k"), a.pop("v")
        found = fovea.attention_backward(np.asarray(grad), q, k, v, self.mechanism, **a, **self.options)
        out = {name: getattr(found, name) for name in arrays if name != "weights"}
        if "weights" in arrays:
            out["weights"] = list((found.weights or {}).values())
        return out


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _call(static: _Static, arrays: dict[str, Any], fixed: dict[str, Any]) -> Any:
    q, v = arrays["q"], arrays["v"]
    shape = jax.ShapeDtypeStruct((*q.shape[:-1], v.shape[-1]), q.dtype)
    return jax.pure_callback(static.forward, shape, arrays, fixed, vmap_method="sequential")


def _forward(static: _Static, arrays: dict[str, Any], fixed: dict[str, Any]) -> tuple[Any, Any]:
    return _call(static, arrays, fixed), (arrays, fixed)


def _backward(static: _Static, kept: tuple[Any, Any], grad: Any) -> tuple[Any, None]:
    arrays, fixed = kept
    shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), arrays)
    return jax.pure_callback(static.backward, shapes, grad, arrays, fixed, vmap_method="sequential"), None


_call.defvjp(_forward, _backward)
