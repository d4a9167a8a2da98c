"""The first race: softmax, bias, windows, norm, linear and diag attention, and whole training steps."""

from cases.kinds import BACKWARD, BOTH, FORWARD, Attention, Form, Row, TrainStep, both_ways, direction

# Forward, backward.
FULL, SHORT_CAUSAL, LONG_CAUSAL = (1.1, 1.15), (1.3, 1.3), (1.15, 1.15)
WHY = {  # by whether the length is 2048
    "norm": ("The bar would take nine tenths of sgemm's rate, maps and memory included; ours reaches two thirds.",
             "Memory that earlier rows left to malloc helps PyTorch here: run alone (--only) the row gives 3.2x."),
    "diag": ("The bar would take nine tenths of sgemm's rate, maps and memory included; ours reaches two thirds.", ""),
    "causal diag": ("A block of 64 is one tile of ours: the half that is masked is computed too.", ""),
    "step": "Run alone (--only) the row gives 2.9x.",
}
WHY["linear"] = WHY["norm"]


def softmax_bars(n, causal):
    return FULL if not causal else SHORT_CAUSAL if n <= 2048 else LONG_CAUSAL


def softmax_rows():
    # From n 8192 on only SDPA: forms that store n x n weights need 10 GB and have lost by 2x and more at n 2048.
    for causal in (False, True):
        for n in (512, 2048, 8192):
            peers = (Form("SDPA", "sdpa", {"causal": causal}),)
            if n < 8192:
                peers += both_ways("", "softmax_plain", causal=causal)
            for timed, bar in zip((FORWARD, BACKWARD), softmax_bars(n, causal)):
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
                why = WHY.get(f"causal {mechanism}" if causal else mechanism, ("", ""))[n != 2048]
                yield Row(name, Attention(mechanism, n, causal), BOTH, 2.0, peers, why=why)


def train_rows():
    # Without dropout of the weights first, so that PyTorch can use its fused kernel; then as the presets say.
    for dropped in (0.0, 0.1):
        for preset, bar in (("transnormer-t2", 2.5), ("transformer", 1.2)):
            peers = both_ways("", "")  # torch_model.py, there is only one
            name = f"LRA step {preset}" + (", attention dropout" if dropped else "")
            yield Row(name, TrainStep(preset, dropped), BOTH, bar, peers, why=WHY["step"])


def first_rows():
    return [*softmax_rows(), *bias_rows(), *window_rows(), *long_rows(), *train_rows()]
