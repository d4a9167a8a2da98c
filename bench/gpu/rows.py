"""What is timed: every mechanism at four lengths, and the rows that have bars."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import forms

LENGTHS = (1024, 4096, 16384, 65536)
RACED = 4096  # where PyTorch's forms run beside every mechanism
LINEAR_TOKENS, QUADRATIC_TOKENS = 65536, 16384  # of a batch
WIDTH = 256  # of a layer's input


@dataclass(frozen=True)
class Work:
    mechanism: str
    n: int
    batch: int = 1
    heads: int = 16
    dim: int = 64
    causal: bool = False
    settings: dict = field(default_factory=dict)  # parameters of the mechanism
    bias: bool = False
    document: int = 0  # length of documents, with a window: a pattern
    window: int = 0

    def at(self, n, batch, heads):
        return replace(self, n=n, batch=batch, heads=heads)


@dataclass(frozen=True)
class Peer:
    name: str
    make: Callable
    compiled: bool = True


@dataclass(frozen=True)
class Row:
    """A row with bars. unit: TB/s of q, k, v and o (twice backward), TFLOP/s (five products backward) or ms."""

    work: Work
    name: str
    unit: str
    bars: tuple  # forward, backward; None: shown, not judged. A text such as "2x": of the peer
    peers: tuple = ()


def compiled(make, name="compile"):
    return (Peer(name, make),)


def flexed(predicate):
    return (Peer("Flex", forms.flex_of(predicate)),)


SDPA = (Peer("SDPA flash", forms.sdpa_flash, False), Peer("SDPA cuDNN", forms.sdpa_cudnn, False))


def is_power(x):
    return (x & (x - 1)) == 0


PEERS = {
    "softmax": SDPA,
    "taylor": compiled(forms.dense(forms.polynomial)),
    "topk": compiled(forms.dense(forms.largest)),
    "sparsemax": compiled(forms.dense(forms.sparsemax)),
    "entmax15": compiled(forms.dense(forms.entmax15)),
    "rela": compiled(forms.normed(forms.dense(lambda s, q, k: s.relu()))),
    "relu2": compiled(forms.normed(forms.dense(lambda s, q, k: s.relu().square()))),
    "sa-softmax": compiled(forms.dense(lambda s, q, k: s * s.softmax(-1))),
    "sigmoid": compiled(forms.dense(lambda s, q, k: s.sigmoid())),
    "kernelized": compiled(forms.dense(forms.gaussian)),
    "diag": (Peer("SDPA blocks", forms.diag_folded, False), *flexed(lambda i, j: i // 64 == j // 64)),
    "window": flexed(lambda i, j: (i - j <= 128) & (j - i <= 128)),
    "dilated": flexed(lambda i, j: ((i - j).abs() <= 256) & ((i - j) % 4 == 0)),
    "star": flexed(lambda i, j: (i == 0) | (j == 0) | ((i - j).abs() <= 1)),
    "sparse-fixed": flexed(lambda i, j: (i // 128 == j // 128) | (j % 128 >= 96)),
    "sparse-strided": flexed(lambda i, j: ((i - j).abs() < 128) | ((i - j) % 128 == 0)),
    "logsparse": flexed(lambda i, j: is_power((i - j).abs())),
    "cascade": flexed(lambda i, j: (i - j).abs() < 4),
    "longformer": flexed(lambda i, j: (i < 1) | (j < 1) | ((i - j).abs() <= 256)),
    "bigbird": (Peer("Flex", forms.flex_bigbird),),
    "linear": compiled(forms.linear_full),
    "norm": compiled(forms.norm_full),
    "performer": compiled(forms.performer),
    "cosformer": compiled(forms.cosformer),
    "retnet": compiled(forms.decayed(forms.retnet_rates, 128, forms.over_head)),
    "lightning": compiled(forms.decayed(forms.lightning_rates, 128, forms.over_heads)),
    "gla": compiled(forms.gla_chunks),
    "linformer": compiled(forms.linformer),
    "nystrom": compiled(forms.nystrom),
}
SETTINGS = {"longformer": {"projections": "shared"}}  # as everybody else's form of it


def every_mechanism(lengths):
    import fovea

    for info in fovea.list_mechanisms():
        tokens = LINEAR_TOKENS if info.linear else QUADRATIC_TOKENS
        for n in lengths:
            yield Work(info.name, n, max(1, tokens // n), causal="bidirectional" not in info.features,
                       settings=SETTINGS.get(info.name, {}))


def norm_rows():
    for causal, bars in ((False, {(16, 4096): (3.3, 2.7), (1, 65536): (3.3, 2.7)}), (True, {(16, 4096): (2.8, 2.3), (1, 65536): (2.3, 1.8)})):
        peers = compiled(forms.norm_chunks if causal else forms.norm_full)
        for (batch, n), bar in bars.items():
            yield Row(Work("norm", n, batch, causal=causal), f"norm {'causal' if causal else 'full'} b{batch} n{n}", "TB/s", bar, peers)


def linear_rows():
    for name, make in (("linear", forms.linear_chunks), ("retnet", None), ("lightning", None), ("gla", None)):
        peers = PEERS[name] if make is None else compiled(make)
        yield Row(Work(name, 4096, 16, causal=True), f"{name} causal b16 n4096", "TB/s", ("2x", "2x"), peers)


def sparse_rows(n=16384):
    long = {"window": 256, "globals": 64, "projections": "shared"}
    yield Row(Work("diag", n), "diag 64", "ms", (0.045, 0.09), PEERS["diag"])
    yield Row(Work("window", n, causal=True, settings={"left": 512, "right": 0}), "window 512 causal", "ms", (0.15, 0.50),
              flexed(lambda i, j: i - j <= 512))
    yield Row(Work("longformer", n, settings=long), "longformer 512 + 64", "ms", (0.25, 0.70),
              flexed(lambda i, j: (i < 64) | (j < 64) | ((i - j).abs() <= 256)))
    yield Row(Work("sparse-strided", n, causal=True), "sparse-strided 128 causal", "ms", (0.22, 0.65), PEERS["sparse-strided"])
    yield Row(Work("bigbird", n), "bigbird", "ms", ("2x", "2x"), PEERS["bigbird"])
    yield Row(Work("sparse-fixed", n, causal=True), "sparse-fixed causal", "ms", ("2x", "2x"), PEERS["sparse-fixed"])
    yield Row(Work("softmax", n, causal=True, document=1500, window=512), "documents of 1500, window 512", "ms", ("2x", "2x"),
              (Peer("Flex", forms.flex_documents),))


def dense_rows():
    yield Row(Work("softmax", 4096, 4, dim=128), "softmax full b4 n4096 d128", "TFLOP/s", ("0.95x", "0.95x"), SDPA)
    yield Row(Work("softmax", 16384, causal=True), "softmax causal n16384 d64", "TFLOP/s", ("0.95x", "0.95x"), SDPA)
    yield Row(Work("softmax", 4096, bias=True), "softmax with bias n4096", "ms", ("3x", "3x"),
              (Peer("SDPA", forms.sdpa_any, False), Peer("Flex", forms.flex_bias)))


def other_rows(n=16384):
    for name in ("performer", "nystrom", "linformer", "skyformer", "reformer"):
        yield Row(Work(name, n, 4), f"{name} b4 n{n}", "ms", ("1.5x", "1.5x"), PEERS.get(name, ()))


def rows_with_bars():
    return [*norm_rows(), *sparse_rows(), *dense_rows(), *linear_rows(), *other_rows()]
