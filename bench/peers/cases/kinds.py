"""What a row of the race is made of."""

from dataclasses import dataclass, field

FORWARD, BACKWARD, BOTH = "forward", "backward", "forward + backward"


@dataclass(frozen=True)
class Form:
    """One way to write the work in PyTorch: function `make` of forms/ and its arguments."""

    name: str
    make: str
    args: dict = field(default_factory=dict)
    compiled: bool = False
    layout: str = "heads"  # how its tensors lie: see layouts.py


@dataclass(frozen=True)
class Attention:
    """Self-attention over random inputs."""

    mechanism: str
    n: int  # of packed sequences: of all together
    causal: bool = False
    window: int | None = None  # keys before the query; none after it
    bias: bool = False  # (1, heads, n, n), with its gradient
    batch: int = 1
    heads: int = 8
    dim: int = 64
    dtype: str = "f32"  # or bf16
    settings: dict = field(default_factory=dict)  # parameters of the mechanism
    packed: tuple = ()  # lengths of sequences that lie one behind the other
    documents: tuple = ()  # lengths of documents; a pattern keeps queries in theirs (and in the window)


@dataclass(frozen=True)
class TrainStep:
    """Forward, loss, backward and AdamW of a preset on full-length sequences, in fovea's own model and in PyTorch's."""

    preset: str
    attention_dropout: float = 0.0
    batch: int = 8
    n: int = 2048
    dropout: float = 0.1
    vocabulary: int = 17  # ListOps
    classes: int = 10


@dataclass(frozen=True)
class ModelStep(TrainStep):
    """The same step of one PyTorch model, with fovea.torch.Attention in it or PyTorch's own."""

    batch: int = 4
    n: int = 4096
    dropout: float = 0.0


@dataclass(frozen=True)
class Call:
    """How long a call takes that has next to nothing to compute: function `make` of calls.py."""

    make: str


@dataclass(frozen=True)
class Row:
    name: str
    work: Attention | TrainStep | Call
    timed: str  # FORWARD, BACKWARD or BOTH
    bar: float | None  # least ratio of the best peer's time to ours; None: shown, not judged
    peers: tuple = ()
    section: str = "The first race"
    rounds: int | None = None  # at most so many
    limit_ms: float | None = None  # for rows without peers: the most it may take
    why: str = ""  # shown when the bar is missed


def both_ways(name, make, **args):
    """A form as it stands and compiled."""
    return (Form(f"eager {name}".strip(), make, args), Form(f"compile {name}".strip(), make, args, compiled=True))


def direction(causal):
    return "causal" if causal else "full"


def lengths_between(low, high, total, seed):
    """Whole numbers between low and high, drawn evenly, that add up to total."""
    import random

    draw, found = random.Random(seed), []
    while (left := total - sum(found)) > high:
        found.append(min(draw.randint(low, high), left - low))
    return (*found, left)
