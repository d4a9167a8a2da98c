"""Softmax attention again, in bf16 and at width 128."""

from cases.first import softmax_bars
from cases.kinds import BACKWARD, FORWARD, Attention, Form, Row, both_ways, direction

SECTION = "bf16 and width 128"
LENGTHS = (512, 2048, 8192)
ROUNDS_WHEN_LONG = 3
WHY = {
    (512, BACKWARD): "PyTorch's plain form keeps the n x n weights, which fit into the cache here: four products where ours has "
                     "five, and five would have to run at 97% of the product's rate or more to reach the bar.",
    (2048, FORWARD): "Near the bar: run alone (--only) the row gives 1.34x.",
    (8192, FORWARD): "Near the bar, with 8 MB of keys and values a head: run alone (--only) the row gives 1.18x.",
    (8192, BACKWARD): "Ours runs at about nine tenths of sgemm's rate.",
}


def peers_for(n, causal):
    """The eager form and, from 2048 on, plain causal ones have lost by 2x and more at width 64: left out."""
    peers = (Form("SDPA", "sdpa", {"causal": causal}),)
    plain = both_ways("", "softmax_plain", causal=causal)
    return peers + (plain if n == 512 else plain[1:] if n == 2048 and not causal else ())


def rows_of(label, bars, **sizes):
    """bars: function of n and causal to those of the forward and the backward pass."""
    for causal in (False, True):
        for n in LENGTHS:
            name = f"softmax {label} {direction(causal)} n {n}"
            for timed, bar in zip((FORWARD, BACKWARD), bars(n, causal)):
                yield Row(name, Attention("softmax", n, causal, **sizes), timed, bar, peers_for(n, causal), SECTION,
                          rounds=ROUNDS_WHEN_LONG if n == 8192 else None, why=WHY.get((n, timed), ""))


def precision_rows():
    return [*rows_of("bf16", lambda n, causal: (1.2, 1.2), dtype="bf16"), *rows_of("width 128", softmax_bars, dim=128)]
