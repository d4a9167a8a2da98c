"""Pattern: how it is made, what it says of itself, and that attention keeps to it."""

import numpy as np
import pytest
from helpers import arrays

import fovea
from fovea import Pattern

QUERY, KEY = np.arange(20)[:, None], np.arange(20)[None, :]
NAMED = {
    "full": (Pattern.full(), KEY >= 0),
    "causal": (Pattern.causal(), KEY <= QUERY),
    "window": (Pattern.window(3, 1), (KEY >= QUERY - 3) & (KEY <= QUERY + 1)),
    "block_diagonal": (Pattern.block_diagonal(6), QUERY // 6 == KEY // 6),
    "comb": (Pattern.comb(5, 1, 3), (KEY % 5 >= 1) & (KEY % 5 < 3)),
    "distances": (Pattern.distances([0, 2, 7]), np.isin(QUERY - KEY, [0, 2, 7])),
    "blocks": (Pattern.blocks(8, [[0], [0, 2], [1]]), np.kron([[1, 0, 0], [1, 0, 1], [0, 1, 0]], np.ones((8, 8)))[:20, :20] > 0),
    "box": (Pattern.box((2, 9), (4, 6)), (QUERY >= 2) & (QUERY < 9) & (KEY >= 4) & (KEY < 6)),
    "predicate": (Pattern(lambda query, key: (query + key) % 3 == 0), (QUERY + KEY) % 3 == 0),
    "scalar predicate": (Pattern(lambda query, key: query > key and key != 3), (QUERY > KEY) & (KEY != 3)),
    "constant": (Pattern(lambda query, key: True), KEY >= 0),
    "matrix": (Pattern((QUERY * KEY) % 4 == 1), (QUERY * KEY) % 4 == 1),
}


@pytest.mark.parametrize("name", NAMED)
def test_keeps_what_it_says(name, rng):
    pattern, expected = NAMED[name]
    expected = np.broadcast_to(expected, (20, 20))
    np.testing.assert_array_equal(pattern.matrix(20), expected)
    assert pattern.kept_pairs(20) == expected.sum()
    assert pattern.density(20) == expected.mean()
    assert pattern.keep(7, 4) == expected[7, 4]
    q, k, v = arrays(rng, shape=(1, 20, 2, 4))
    np.testing.assert_array_equal(fovea.attention(q, k, v, mask=pattern), fovea.attention(q, k, v, mask=expected))


def test_combine():
    window, comb = NAMED["window"][0], NAMED["comb"][0]
    np.testing.assert_array_equal((window & comb).matrix(20), window.matrix(20) & comb.matrix(20))
    np.testing.assert_array_equal((window | comb).matrix(20), window.matrix(20) | comb.matrix(20))
    np.testing.assert_array_equal((~window).matrix(20), ~window.matrix(20))
    with pytest.raises(TypeError):
        window & 3


def test_queries_end_on_the_last_key():
    np.testing.assert_array_equal(Pattern.causal().matrix(3, 20), np.tri(20, dtype=bool)[17:])
    matrix = np.random.default_rng(0).random((3, 20)) < 0.5
    np.testing.assert_array_equal(Pattern(matrix).matrix(3, 20), matrix)


def test_a_predicate_is_asked_once_for_a_length(rng):
    asked = []

    def keep(query, key):
        asked.append(np.size(query))
        return query >= key

    pattern = Pattern(keep)
    q, k, v = arrays(rng, shape=(1, 200, 1, 4))
    first = fovea.attention(q, k, v, mask=pattern)
    calls = len(asked)
    assert 0 < calls < 500  # blocks, not pairs
    np.testing.assert_array_equal(fovea.attention(q, k, v, mask=pattern), first)
    assert len(asked) == calls


def test_a_predicate_never_sees_a_pair_outside():
    document = np.repeat(np.arange(10), 17)
    pattern = Pattern(lambda query, key: document[query] == document[key])
    assert pattern.kept_pairs(170) == 10 * 17 * 17


def test_what_a_predicate_raises_comes_out(rng):
    q, k, v = arrays(rng)

    def broken(query, key):
        raise LookupError("no such document")

    with pytest.raises(LookupError, match="no such document"):
        fovea.attention(q, k, v, mask=Pattern(broken))
    fovea.attention(q, k, v)  # and nothing else is broken


def test_a_matrix_fits_its_length(rng):
    q, k, v = arrays(rng)
    with pytest.raises(ValueError, match="longer sequence"):
        fovea.attention(q, k, v, mask=Pattern(np.ones((5, 5), bool)))
    with pytest.raises(TypeError, match="boolean matrix"):
        Pattern(np.ones(5, bool))


def test_blocks():
    blocks = Pattern.causal().blocks_of(1024)
    rows, columns = blocks["tile"]
    assert blocks["blocks"] == (1024 // rows) * (1024 // columns)
    assert 0 < blocks["part_blocks"] < blocks["whole_blocks"] < blocks["blocks"]


def test_pictures():
    assert Pattern.causal().text(4) == "▙\n█▙"
    svg = (Pattern.causal() & Pattern.window(2, 0))._repr_svg_()
    assert svg.startswith("<svg") and svg.endswith("</svg>") and "&amp;" in svg and "<script" not in svg
    assert svg.count("<rect") == 1 + 48
    assert repr(Pattern.window(1, 1)).startswith("Pattern(window(1, 1))\n")
