"""Sequences packed one behind the other, and a pattern of one's own."""

from cases.kinds import BACKWARD, BOTH, FORWARD, Attention, Form, Row, lengths_between

SECTION = "Patterns and packing"


def packed_rows(total=16384, low=64, high=2048):
    lengths = lengths_between(low, high, total, seed=0)
    work = Attention("softmax", total, packed=lengths)
    size = {"lengths": lengths}
    # Nested (jagged) tensors run on CPU, but took 2.3x to 3.6x the time of padded ones at a total of 2048: left out.
    padded = (Form("SDPA, padded", "padded_sdpa", size, layout="padded"),)
    loop = (Form("SDPA loop", "sequence_loop_sdpa", size),)
    name = f"packed lengths {low}-{high}, total {total}"
    for timed in (FORWARD, BACKWARD):
        yield Row(f"{name}, to padded", work, timed, 2.0, padded, SECTION, rounds=5)
    # A loop over the sequences wastes nothing either: shown beside the padded form, which most people run.
    yield Row(f"{name}, to a loop", work, BOTH, None, loop, SECTION, rounds=5)


def document_rows(n=8192, window=256):
    lengths = lengths_between(128, 2048, n, seed=1)
    size = {"lengths": lengths, "window": window}
    peers = (Form("SDPA, mask", "document_masked_sdpa", size),)
    peers += (Form("FlexAttention", "document_flex", size, compiled=True),)
    why = ("FlexAttention compiles a kernel for this very pattern, which skips the same blocks; the bar would take nearly all of "
           "sgemm's rate on the blocks that ours visits. It has no backward pass on CPU.")
    for timed in (FORWARD, BACKWARD):
        yield Row(f"documents and window {window}, n {n}", Attention("softmax", n, window=window, documents=lengths), timed,
                  3.0, peers, SECTION, rounds=5, why=why)


def pattern_rows():
    return [*packed_rows(), *document_rows()]
