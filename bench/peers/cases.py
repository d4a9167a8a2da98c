"""The rows of the race, as data: what fovea runs, the ways PyTorch can do the same, and the bar.

Nothing here imports PyTorch: forms are named, and torch_side.py looks them up.
"""

from dataclasses import dataclass, field

FORWARD, BACKWARD, BOTH = "forward", "backward", "forward + backward"


@dataclass(frozen=True)
class Form:
    """One way to write the work in PyTorch: function `make` of torch_forms.py and its arguments."""

    name: str
    make: str
    args: dict = field(default_factory=dict)
    compiled: bool = False


@dataclass(frozen=True)
class Attention:
    """Self-attention over random f32 inputs."""

    mechanism: str
    n: int
    causal: bool = False
    window: int | None = None  # keys before the query; none after it
    bias: bool = False  # (1, heads, n, n), with its gradient
    batch: int = 1
    heads: int = 8
    dim: int = 64


@dataclass(frozen=True)
class TrainStep:
    """Forward, loss, backward and AdamW of a preset on full-length sequences."""

    preset: str
    attention_dropout: float = 0.0
    batch: int = 8
    n: int = 2048
    dropout: float = 0.1
    vocabulary: int = 17  # ListOps
    classes: int = 10


@dataclass(frozen=True)
class Row:
    name: str
    work: Attention | TrainStep
    timed: str  # FORWARD, BACKWARD or BOTH
    bar: float | None  # least ratio of the best peer's time to ours; None: shown, not judged
    peers: tuple


def both_ways(name, make, **args):
    """A form as it stands and compiled."""
    return (Form(f"eager {name}".strip(), make, args), Form(f"compile {name}".strip(), make, args, compiled=True))


def direction(causal):
    return "causal" if causal else "full"


def softmax_rows():
    # From n 8192 on only SDPA: forms that store n x n weights need 10 GB and have lost by 2x and more at n 2048.
    full, short_causal, long_causal = (1.1, 1.15), (1.3, 1.3), (1.15, 1.15)  # forward, backward
    for causal in (False, True):
        for n in (512, 2048, 8192):
            pass_bars = full if not causal else short_causal if n <= 2048 else long_causal
            peers = (Form("SDPA", "sdpa", {"causal": causal}),)
            if n < 8192:
                peers += both_ways("", "softmax_plain", causal=causal)
            for timed, bar in zip((FORWARD, BACKWARD), pass_bars):
                yield Row(f"softmax {direction(causal)} n {n}", Attention("softmax", n, causal), timed, bar, peers)


def bias_rows():
    peers = (Form("SDPA", "biased_sdpa"), Form("compile SDPA", "biased_sdpa", compiled=True))
    peers += both_ways("", "biased_plain")
    # At n 512 all of n x n lies in the cache, and the plain products are the fused kernel's equal: shown without a bar.
    for n, bar in ((512, None), (2048, 1.5)):
        yield Row(f"softmax with bias n {n}", Attention("softmax", n, bias=True), BOTH, bar, peers)


def window_rows(n=8192, window=256):
    work = Attention("softmax", n, window=window)
    size = {"n": n, "window": window}
    masked = (Form("SDPA, mask", "window_masked_sdpa", size),)
    blocked = ()
    for block in (64, 128, 256):
        sizes = size | {"block": block}
        blocked += (Form(f"SDPA blocks {block}", "window_blocked_sdpa", sizes),)
        blocked += (Form(f"SDPA loop {block}", "window_loop_sdpa", sizes),)
        blocked += both_ways(f"blocks {block}", "window_blocked_plain", **sizes)
    flex = (Form("FlexAttention", "window_flex", size, compiled=True),)  # has no backward on CPU
    for timed in (FORWARD, BACKWARD):
        yield Row(f"window {window} n {n}, to masked SDPA", work, timed, 8.0, masked)
    for timed in (FORWARD, BACKWARD):
        peers = blocked + flex if timed == FORWARD else blocked
        yield Row(f"window {window} n {n}, to blocks", work, timed, 1.5, peers)


def linear_peers(mechanism, causal):
    if not causal:
        return both_ways("", f"{mechanism}_bidirectional")
    peers = ()
    for chunk in (64, 128):
        peers += both_ways(f"chunk {chunk}", f"{mechanism}_causal", chunk=chunk)
        if mechanism == "linear":
            peers += both_ways(f"chunk {chunk}, ones", "linear_causal_ones", chunk=chunk)
    return peers


def diag_peers(causal, block=64):
    return (Form("SDPA blocks", "diag_sdpa", {"block": block, "causal": causal}),) + both_ways(
        "blocks", "diag_plain", block=block, causal=causal
    )


def long_rows():
    for mechanism in ("norm", "linear", "diag"):
        for causal in (False, True):
            for n in (2048, 16384):
                peers = diag_peers(causal) if mechanism == "diag" else linear_peers(mechanism, causal)
                name = f"{mechanism} {'causal' if causal else 'bidirectional'} n {n}"
                yield Row(name, Attention(mechanism, n, causal), BOTH, 2.0, peers)


def train_rows():
    # Without dropout of the weights first, so that PyTorch can use its fused kernel; then as the presets say.
    for dropped in (0.0, 0.1):
        for preset, bar in (("transnormer-t2", 2.5), ("transformer", 1.2)):
            peers = both_ways("", "")  # torch_model.py, there is only one
            name = f"LRA step {preset}" + (", attention dropout" if dropped else "")
            yield Row(name, TrainStep(preset, dropped), BOTH, bar, peers)


def all_rows():
    return [*softmax_rows(), *bias_rows(), *window_rows(), *long_rows(), *train_rows()]


def select(rows, patterns):
    """Rows whose name or pass contains every word of one of the patterns; all rows when there are none."""
    text = lambda row: f"{row.name} {row.timed}".lower()  # noqa: E731
    return [r for r in rows if not patterns or any(all(w in text(r) for w in p.lower().split()) for p in patterns)]
