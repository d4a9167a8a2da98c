"""Patterns: which (query, key) pairs attend, as data that the kernels read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from fovea import _fovea
from fovea._arrays import whole

_SHOWN = 48  # tokens in a picture


class Pattern:
    """Which pairs attend. Made of a predicate, a boolean matrix or by name; combined with ``|``, ``&`` and ``~``.

    Patterns that are made in the same way of equal parts are equal. One that is made of a predicate can be pickled where
    the predicate can. A predicate is asked once for each length and the answer is kept. It is given whole arrays of positions, queries
    (m, 1) and keys (1, n), if it can take them, otherwise one pair after the other.

    >>> document = np.array([0, 0, 0, 1, 1, 1, 1, 2])
    >>> same = Pattern(lambda query, key: document[query] == document[key])
    >>> near = Pattern.window(1, 1)
    >>> print((same & near).text(8))
    █▖
    ▝▚▖
     ▝█▖
      ▝▚
    >>> (same & near).kept_pairs(8)
    18
    """

    def __init__(self, kept: Callable[[Any, Any], Any] | Any, *, name: str | None = None) -> None:
        if callable(kept):
            self._set("predicate", kept, name or getattr(kept, "__name__", "predicate").strip("<>"))
        else:
            matrix = np.asarray(kept, dtype=bool)
            self._set("matrix", matrix.shape, np.packbits(matrix).tobytes())

    def _set(self, kind: str, *arguments: Any) -> None:
        self._made_of = (kind, *arguments)  # what pickles, compares and hashes
        self._engine = _ENGINES[kind](*arguments)

    @staticmethod
    def full() -> Pattern:
        """Every pair."""
        return _pattern("full")

    @staticmethod
    def causal() -> Pattern:
        """key <= query."""
        return _pattern("causal")

    @staticmethod
    def window(left: int, right: int) -> Pattern:
        """query - left <= key <= query + right; -1 is unlimited."""
        return _pattern("window", whole(left, "left"), whole(right, "right"))

    @staticmethod
    def block_diagonal(width: int) -> Pattern:
        """Query and key are in the same block of so many tokens."""
        return _pattern("block_diagonal", whole(width, "width"))

    @staticmethod
    def comb(period: int, begin: int, end: int) -> Pattern:
        """begin <= key % period < end, whatever the query."""
        return _pattern("comb", whole(period, "period"), whole(begin, "begin"), whole(end, "end"))

    @staticmethod
    def distances(distances: Iterable[int]) -> Pattern:
        """query - key is one of these."""
        return _pattern("distances", tuple(whole(d, "distances") for d in distances))

    @staticmethod
    def blocks(width: int, rows: Sequence[Sequence[int]]) -> Pattern:
        """Key block key // width is one of rows[query // width]."""
        return _pattern("blocks", whole(width, "width"), tuple(tuple(whole(b, "rows") for b in row) for row in rows))

    @staticmethod
    def box(queries: tuple[int, int], keys: tuple[int, int]) -> Pattern:
        """These queries and these keys, each a half-open range of positions."""
        return _pattern("box", *(whole(place, "box") for place in (*queries, *keys)))

    def __and__(self, other: Pattern) -> Pattern:
        return _pattern("and", self, other) if isinstance(other, Pattern) else NotImplemented

    def __or__(self, other: Pattern) -> Pattern:
        return _pattern("or", self, other) if isinstance(other, Pattern) else NotImplemented

    def __invert__(self) -> Pattern:
        return _pattern("not", self)

    def __eq__(self, other: object) -> bool:
        return self._made_of == other._made_of if isinstance(other, Pattern) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._made_of)

    def __reduce__(self) -> tuple[Any, ...]:
        return _pattern, self._made_of

    def keep(self, query: int, key: int) -> bool:
        return bool(self._engine.keep(query, key))

    def matrix(self, n_q: int, n_k: int | None = None) -> np.ndarray:
        """The kept pairs as booleans (n_q, n_k); the last query stands on the last key."""
        return np.asarray(self._engine.matrix(n_q, n_q if n_k is None else n_k))

    def kept_pairs(self, n_q: int, n_k: int | None = None) -> int:
        return int(self._engine.plan(n_q, n_q if n_k is None else n_k)["kept_pairs"])

    def density(self, n_q: int, n_k: int | None = None) -> float:
        """The share of all pairs that is kept."""
        return self.kept_pairs(n_q, n_k) / max(1, n_q * (n_q if n_k is None else n_k))

    def blocks_of(self, n_q: int, n_k: int | None = None) -> dict[str, Any]:
        """What the kernels will do: blocks kept whole and in part, out of how many, and the tile."""
        plan = self._engine.plan(n_q, n_q if n_k is None else n_k)
        return {name: plan[name] for name in ("whole_blocks", "part_blocks", "blocks", "tile")}

    def text(self, n: int = _SHOWN) -> str:
        """The pattern among n tokens as a picture for a terminal, two by two pairs in a character."""
        kept = np.zeros((n + n % 2, n + n % 2), dtype=int)
        kept[:n, :n] = self.matrix(n)
        codes = kept[0::2, 0::2] + 2 * kept[0::2, 1::2] + 4 * kept[1::2, 0::2] + 8 * kept[1::2, 1::2]
        return "\n".join("".join(" ▘▝▀▖▌▞▛▗▚▐▜▄▙▟█"[code] for code in row).rstrip() for row in codes)

    def _repr_svg_(self) -> str:
        return svg(self.matrix(_SHOWN), self._engine.text)

    def __repr__(self) -> str:
        return f"Pattern({self._engine.text})\n{self.text()}"


def svg(kept: np.ndarray, title: str) -> str:
    """Rows of queries down, keys across; one rectangle for every run of kept pairs."""
    n_q, n_k = kept.shape
    cell = 6
    runs = []
    for i, row in enumerate(kept):
        edges = np.flatnonzero(np.diff(np.concatenate(([0], row.astype(np.int8), [0]))))
        runs += [f'<rect x="{cell * a}" y="{cell * i}" width="{cell * (b - a)}" height="{cell}"/>'
                 for a, b in zip(edges[0::2], edges[1::2])]
    escaped = title.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-1 -1 {cell * n_k + 2} {cell * n_q + 2}" '
            f'width="{cell * n_k + 2}" height="{cell * n_q + 2}" role="img"><title>{escaped}: keys across, queries down'
            f'</title><rect x="-.5" y="-.5" width="{cell * n_k + 1}" height="{cell * n_q + 1}" fill="none" '
            f'stroke="#888"/><g fill="#0072b2">{"".join(runs)}</g></svg>')


def _block_function(keep: Callable[[Any, Any], Any]) -> Callable[[int, int, int, int], np.ndarray]:
    """The predicate on a rectangle of pairs, as a dense boolean array."""

    def whole(queries: np.ndarray, keys: np.ndarray) -> np.ndarray | None:
        try:
            found = np.asarray(keep(queries[:, None], keys[None, :]))
        except Exception:  # it takes single numbers: `query > 3 and key < 5` is no array
            return None
        shape = (len(queries), len(keys))
        return np.broadcast_to(found.astype(bool), shape) if found.dtype != object and found.ndim <= 2 else None

    def agrees(found: np.ndarray, queries: np.ndarray, keys: np.ndarray) -> bool:
        return all(found[i, i] == bool(keep(int(queries[i]), int(keys[i]))) for i in (0, -1))

    def block(query_begin: int, query_end: int, key_begin: int, key_end: int) -> np.ndarray:
        queries, keys = np.arange(query_begin, query_end), np.arange(key_begin, key_end)
        found = whole(queries, keys)
        if found is None or not agrees(found, queries, keys):
            found = np.array([[bool(keep(int(i), int(j))) for j in keys] for i in queries])
        return np.ascontiguousarray(found).view(np.uint8)

    return block


def _matrix_engine(shape: tuple[int, ...], bits: bytes) -> Any:
    kept = np.unpackbits(np.frombuffer(bits, np.uint8), count=int(np.prod(shape))).reshape(shape)
    return _fovea.Pattern.from_matrix(kept.astype(bool))


def _pattern(kind: str, *arguments: Any) -> Pattern:
    made = Pattern.__new__(Pattern)
    made._set(kind, *arguments)
    return made


_ENGINES: dict[str, Callable[..., Any]] = {
    **{name: getattr(_fovea.Pattern, name)
       for name in ("full", "causal", "window", "block_diagonal", "comb", "distances", "blocks", "box")},
    "predicate": lambda keep, label: _fovea.Pattern.from_function(label, _block_function(keep)),
    "matrix": _matrix_engine,
    "and": lambda a, b: a._engine & b._engine,
    "or": lambda a, b: a._engine | b._engine,
    "not": lambda a: ~a._engine,
}
