"""Mechanisms that PyTorch does not have, against the same mathematics written in it."""

from cases.kinds import BOTH, Attention, Form, Row, both_ways

SECTION = "Mechanisms"
N = 8192
WHY = {
    "linformer": "Nearly all of it are large products, on both sides; the bar lies beyond sgemm's rate, of which ours reaches "
                 "four fifths forward and nine tenths backward.",
    "nystrom": "The bar would take nearly nine tenths of sgemm's rate; with 64 landmarks every row is fetched and written for one "
               "tile of work, and ours reaches two thirds.",
}


def retnet_peers():
    return sum((both_ways(f"chunk {c}", "retnet", n=N, chunk=c, heads=8) for c in (64, 128, 256)), ())


def longformer_peers(window):
    peers = ()
    for block in (128, 256):
        size = {"n": N, "window": window, "block": block}
        peers += (Form(f"SDPA blocks {block}", "longformer_sdpa", size),)
        peers += both_ways(f"blocks {block}", "longformer_plain", **size)
    return peers


def bigbird_peers():
    size = {"n": N, "heads": 8, "block": 64}
    return (Form("SDPA blocks", "bigbird_sdpa", size),) + both_ways("blocks", "bigbird_plain", **size)


def mechanism_rows():
    works = {
        "performer": (Attention("performer", N), both_ways("", "performer")),
        "cosformer": (Attention("cosformer", N), both_ways("joined", "cosformer_joined", n=N)
                      + both_ways("apart", "cosformer_apart", n=N)),
        "linformer": (Attention("linformer", N), both_ways("", "linformer_plain")
                      + (Form("SDPA", "linformer_sdpa"), Form("compile SDPA", "linformer_sdpa", compiled=True))),
        "nystrom": (Attention("nystrom", N), both_ways("", "nystrom_plain")
                    + (Form("SDPA", "nystrom_sdpa"), Form("compile SDPA", "nystrom_sdpa", compiled=True))),
        "bigbird": (Attention("bigbird", N), bigbird_peers()),
        "longformer": (Attention("longformer", N, settings={"projections": "shared"}), longformer_peers(256)),
        "retnet": (Attention("retnet", N, causal=True), retnet_peers()),
    }
    return [Row(f"{name} n {N}", work, BOTH, 2.0, peers, SECTION, why=WHY.get(name, ""))
            for name, (work, peers) in works.items()]
