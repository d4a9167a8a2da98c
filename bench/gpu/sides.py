"""Both sides of a row: the inputs, fovea's call and PyTorch's forms, and how far each is from the definition in double."""

import numpy as np
import torch
from clock import leaves_of
from forms import DEVICE
from rows import WIDTH

import fovea
import fovea.torch
from fovea import _fovea

ERRORS_AT = {"n": 512, "batch": 1, "heads": 2}  # where definitions in double take a moment


def mechanism_of(work):
    return fovea.Mechanism(work.mechanism, **work.settings)


def weights_of(work, dtype=np.float32):
    """By name behind "w.", and the names of those that have no gradient."""
    mechanism = mechanism_of(work)
    if not mechanism.weight_names:
        return {}, frozenset()
    width = WIDTH if mechanism.needs_input else 0
    weights = mechanism.init(heads=work.heads, d_k=work.dim, width=width, max_length=work.n, dtype=dtype, seed=1).weights
    kept = frozenset(f"w.{name}" for name in frozenset(weights) - weights.trained)
    return {f"w.{name}": torch.from_numpy(np.array(w)) for name, w in weights.items()}, kept


def inputs_of(work, seed, dtype=torch.bfloat16, device=DEVICE):
    """q, k, v and grad (batch, n, heads, dim), what the mechanism reads besides, and its weights."""
    generator = torch.Generator(device).manual_seed(seed + 1)
    draw = lambda *shape: torch.randn(shape, generator=generator, device=device, dtype=dtype)  # noqa: E731
    shape = (work.batch, work.n, work.heads, work.dim)
    made = {name: draw(*shape) for name in ("q", "k", "v", "grad")}
    if mechanism_of(work).needs_input:
        made["input"] = draw(work.batch, work.n, WIDTH)
    if work.bias:
        made["bias"] = draw(1, work.heads, work.n, work.n)
    return made | {name: w.to(device) for name, w in weights_of(work)[0].items()}


def heads_first(inputs):
    """As PyTorch's kernels like it: (batch, heads, n, dim)."""
    turned = ("q", "k", "v", "grad")
    return {name: x.transpose(1, 2).contiguous() if name in turned else x for name, x in inputs.items()}


def pattern_of(work):
    document = np.arange(work.n) // work.document
    return fovea.Pattern(lambda i, j: document[i] == document[j]) & fovea.Pattern.window(work.window, 0)


def ours(work):
    mechanism = mechanism_of(work)
    names = mechanism.weight_names
    options = {"causal": True} if work.causal else {}
    if work.document:
        options["mask"] = pattern_of(work)

    def call(x):
        given = {name: x[name] for name in ("input", "bias") if name in x}
        if names:
            given["weights"] = [x[f"w.{name}"] for name in names]
        return fovea.torch.attention(x["q"], x["k"], x["v"], mechanism, **given, **options)

    return call


def results(function, inputs):
    """Output and the gradients of q, k and v, in double on the CPU."""
    given = leaves_of(inputs)
    out = function(given)
    grads = torch.autograd.grad(out, [given[name] for name in "qkv"], inputs["grad"])
    return [x.detach().cpu().double() for x in (out, *grads)]


def definition(work, inputs):
    """The output by the plain definition, and gradients by the engine, all in double."""
    wide = {name: x.detach().cpu().double() for name, x in inputs.items()}
    exact = results(ours(work), wide)
    if not work.bias:
        options = {name: wide[name].numpy() for name in ("input",) if name in wide}
        weights = [wide[f"w.{name}"].numpy() for name in mechanism_of(work).weight_names]
        if work.causal:
            options["causal"] = True
        if work.document:
            options["pattern"] = pattern_of(work)._engine
        arrays = [wide[name].numpy() for name in "qkv"]
        exact[0] = torch.from_numpy(_fovea.reference(*arrays, mechanism_of(work)._engine, {**options, "weights": weights}))
    return exact


def distance(found, exact):
    """Relative errors of the output, and the largest of the gradients."""
    far = [float((a - b).norm() / b.norm()) if b.norm() > 0 else float(a.norm()) for a, b in zip(found, exact)]
    return far[0], max(far[1:])


def errors(work, peers):
    """Of fovea and of each form: (forward, backward)."""
    small = work.at(**ERRORS_AT)
    inputs = inputs_of(small, 0)
    exact = definition(small, inputs)
    found = {"fovea": distance(results(ours(small), inputs), exact)}
    turned = heads_first(inputs)
    for peer in peers:
        there = results(peer.make(small), turned)
        found[peer.name] = distance([x.transpose(1, 2) for x in there], exact)
    return found
