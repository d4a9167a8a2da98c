"""Attention one token after another, and the buckets of T5's relative positions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from fovea import _fovea
from fovea._arrays import is_torch, whole
from fovea._attention import Call
from fovea._mechanism import Mechanism

# What one step of a causal sequence has no use for.
_NOT_OF_STEPS = ("bias", "cu_seqlens_k", "lengths_k", "return_lse", "initial_state", "final_state",
                 "dropout_p", "training", "positions", "align")


class DecodeState:
    """What a causal mechanism remembers of a batch of sequences: keys and values, as far as later tokens may read them,
    or a state of constant size. One for each layer; attention_step() moves it on.

    >>> state = DecodeState()
    >>> state.length, state.nbytes
    (0, 0)
    """

    def __init__(self) -> None:
        self._engine = _fovea.DecodeState()

    @property
    def length(self) -> int:
        """Tokens seen, of the sequence that saw most."""
        return max(self.lengths, default=0)

    @property
    def lengths(self) -> list[int]:
        """Tokens that each sequence has seen."""
        return list(self._engine.lengths)

    @property
    def nbytes(self) -> int:
        """Memory of what is remembered."""
        return int(self._engine.bytes)

    def copy(self) -> DecodeState:
        """A state that goes its own way from here, as the beams of a search do; memory is shared until it does."""
        return self.select(range(len(self.lengths)))

    def select(self, sequences: Iterable[int]) -> DecodeState:
        """A state of these sequences in this order: those that are not done yet, or the beams to go on with, where one
        may stand more than once. Memory is shared until a sequence goes on.

        >>> DecodeState().select([]).lengths
        []
        """
        made = DecodeState.__new__(DecodeState)
        made._engine = self._engine.select([whole(s, "sequences") for s in sequences])
        return made

    __copy__ = copy

    def __deepcopy__(self, memo: Any) -> DecodeState:
        return self.copy()

    def __repr__(self) -> str:
        return f"DecodeState({self.length} tokens, {self.nbytes} bytes)"


def attention_step(q: Any, k: Any, v: Any, mechanism: str | Mechanism = "softmax", *, state: DecodeState,
                   **options: Any) -> Any:
    """The next tokens of a causal attention: q (b, n, h, d_k), k and v of n tokens, mostly 1, that follow those in the
    state. The output is the last n rows of attention(..., causal=True) over all tokens so far. Mechanisms with the feature
    "step" have it; there are no gradients.

    Sequences may differ in length: lengths=[...] or cu_seqlens=[...] say how many of the n tokens each has in this step, and
    the state counts on for each.

    Options are scale, window, a Pattern as mask, alibi, rotary, input, weights, layer, layers, layout and the parameters
    of the mechanism, the same ones in every step.

    >>> import numpy as np
    >>> x = np.random.default_rng(0).standard_normal((1, 4, 2, 8))
    >>> state = DecodeState()
    >>> steps = [attention_step(*[x[:, t:t + 1]] * 3, "norm", state=state) for t in range(4)]
    >>> from fovea import attention
    >>> np.allclose(np.concatenate(steps, axis=1), attention(x, x, x, "norm", causal=True))
    True
    """
    if not isinstance(state, DecodeState):
        raise TypeError(f"state must be a DecodeState, not {type(state).__name__}")
    for name in _NOT_OF_STEPS:
        if options.get(name) is not None and options[name] is not False:
            raise NotImplementedError(f"attention_step has no {name}: a step goes on from its state, without a gradient")
    if is_torch(q):
        q, k, v, options = _without_gradient(q, k, v, options)
    call = Call(q, k, v, mechanism, options)
    return call.results((state._engine.step(q, k, v, call.engine, call.options), None, None))


def _without_gradient(q: Any, k: Any, v: Any, options: dict[str, Any]) -> tuple[Any, Any, Any, dict[str, Any]]:
    import torch

    def plain(x: Any) -> Any:
        if not isinstance(x, torch.Tensor):
            return x
        if x.requires_grad and torch.is_grad_enabled():
            raise NotImplementedError("attention_step has no gradient\n  try     with torch.no_grad():")
        return x.detach()

    return plain(q), plain(k), plain(v), {name: plain(value) for name, value in options.items()}


def t5_bucket(offset: Any, *, buckets: int = 32, max_distance: int = 128, bidirectional: bool = True) -> Any:
    """The bucket of T5's relative positions for key position - query position, an int or an array of them: near
    distances one by one, far ones in steps that grow up to max_distance. Bidirectional ones spend half of the buckets on
    keys after the query.

    >>> t5_bucket(-3), t5_bucket(3)
    (3, 19)
    """
    offsets = np.asarray(offset)
    if offsets.dtype.kind not in "iu":
        raise TypeError(f"offset cannot be {offset!r}: it is of whole numbers")
    bounded = np.clip(offsets.ravel(), -(2**40), 2**40).astype(np.int64)  # the last bucket has no end
    found = _fovea.t5_buckets(bounded, whole(buckets, "buckets"), whole(max_distance, "max_distance"), bool(bidirectional))
    return int(found[0]) if np.ndim(offset) == 0 else found.reshape(offsets.shape)


def t5_bias(table: Any, length: int, *, max_distance: int = 128, bidirectional: bool = True) -> Any:
    """A table (buckets, heads) as the option ``diagonal_bias`` (1, heads, 2 length - 1) of sequences up to this length.

    >>> t5_bias(np.zeros((32, 4)), 10).shape
    (1, 4, 19)
    """
    offsets = np.arange(1 - whole(length, "length"), length)
    places = t5_bucket(offsets, buckets=table.shape[0], max_distance=max_distance, bidirectional=bidirectional)
    if is_torch(table):
        import torch

        places = torch.from_numpy(places.astype(np.int64))
    return table[places].T[None]
