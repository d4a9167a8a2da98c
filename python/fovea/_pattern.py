"""Patterns: which (query, key) pairs attend, as data that the kernels read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from fovea import _fovea

_SHOWN = 48  # tokens in a picture


class Pattern:
    """Which pairs attend. Made of a predicate, a boolean matrix or by name; combined with ``|``, ``&`` and ``~``.

    A predicate is asked once for each length and the answer is kept. It is given whole arrays of positions, queries
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
        if isinstance(kept, _fovea.Pattern):
            self._engine = kept
        elif callable(kept):
            label = name or getattr(kept, "__name__", "predicate").strip("<>")
            self._engine = _fovea.Pattern.from_function(label, _block_function(kept))
        else:
            self._engine = _fovea.Pattern.from_matrix(np.ascontiguousarray(kept, dtype=bool))

    @staticmethod
    def full() -> Pattern:
        """Every pair."""
        return Pattern(_fovea.Pattern.full())

    @staticmethod
    def causal() -> Pattern:
        """key <= query."""
        return Pattern(_fovea.Pattern.causal())

    @staticmethod
    def window(left: int, right: int) -> Pattern:
        """query - left <= key <= query + right; -1 is unlimited."""
        return Pattern(_fovea.Pattern.window(left, right))

    @staticmethod
    def block_diagonal(width: int) -> Pattern:
        """Query and key are in the same block of so many tokens."""
        return Pattern(_fovea.Pattern.block_diagonal(width))

    @staticmethod
    def comb(period: int, begin: int, end: int) -> Pattern:
        """begin <= key % period < end, whatever the query."""
        return Pattern(_fovea.Pattern.comb(period, begin, end))

    @staticmethod
    def distances(distances: Iterable[int]) -> Pattern:
        """query - key is one of these."""
        return Pattern(_fovea.Pattern.distances([int(d) for d in distances]))

    @staticmethod
    def blocks(width: int, rows: Sequence[Sequence[int]]) -> Pattern:
        """Key block key // width is one of rows[query // width]."""
        return Pattern(_fovea.Pattern.blocks(width, [[int(b) for b in row] for row in rows]))

    @staticmethod
    def box(queries: tuple[int, int], keys: tuple[int, int]) -> Pattern:
        """These queries and these keys, each a half-open range of positions."""
        return Pattern(_fovea.Pattern.box(*queries, *keys))

    def __and__(self, other: Pattern) -> Pattern:
        return Pattern(self._engine & other._engine) if isinstance(other, Pattern) else NotImplemented

    def __or__(self, other: Pattern) -> Pattern:
        return Pattern(self._engine | other._engine) if isinstance(other, Pattern) else NotImplemented

    def __invert__(self) -> Pattern:
        return Pattern(~self._engine)

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
