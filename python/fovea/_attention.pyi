from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from fovea._mechanism import Mechanism
from fovea._pattern import Pattern

class Gradients(NamedTuple):
    q: Any
    k: Any
    v: Any
    bias: Any = ...
    diagonal_bias: Any = ...
    initial_state: Any = ...
    input: Any = ...
    weights: dict[str, Any] | None = ...

def attention(
    q: Any,
    k: Any,
    v: Any,
    mechanism: str | Mechanism = "softmax",
    *,
    causal: bool = False,
    scale: float | None = None,
    window: int | tuple[int, int] | None = None,
    mask: Pattern | Any = None,
    bias: Any = None,
    diagonal_bias: Any = None,
    alibi: bool = False,
    rotary: bool | tuple[float, bool, int] = False,
    positions: Any = None,
    cu_seqlens: Any = None,
    cu_seqlens_k: Any = None,
    lengths: Any = None,
    lengths_k: Any = None,
    training: bool | None = None,
    dropout_p: float = 0.0,
    seed: int | None = None,
    return_lse: bool = False,
    initial_state: Any = None,
    final_state: bool = False,
    input: Any = None,
    weights: Sequence[Any] | Mapping[str, Any] | None = None,
    layer: int = 0,
    layers: int = 1,
    layout: Literal["bnhd", "bhnd"] = "bnhd",
    **parameters: bool | int | float | str,
) -> Any: ...
def attention_backward(
    grad: Any,
    q: Any,
    k: Any,
    v: Any,
    mechanism: str | Mechanism = "softmax",
    *,
    grad_lse: Any = None,
    grad_final_state: Any = None,
    **options: Any,
) -> Gradients: ...

ARRAYS: tuple[str, ...]
OPTIONS: frozenset[str]

def read_options(mechanism: str | Mechanism, options: dict[str, Any]) -> tuple[Mechanism, dict[str, Any]]: ...
def sizes_of(shapes: tuple[Any, Any, Any], heads_first: bool, given_input: Any) -> tuple[int, ...]: ...

class Call:
    convert: Any
    mechanism: Mechanism
    options: dict[str, Any]
    engine: Any
    def __init__(self, q: Any, k: Any, v: Any, mechanism: str | Mechanism, options: dict[str, Any]) -> None: ...
    def results(self, arrays: tuple[Any, Any, Any]) -> Any: ...
