"""The numbers that both sides get."""

from dataclasses import dataclass

import numpy as np

SEED = 0


@dataclass
class Inputs:
    """f32 arrays q, k, v and grad (batch, n, heads, dim), then a bias (1, heads, n, n) or the mechanism's weights."""

    arrays: dict
    kept: frozenset = frozenset()  # names of weights that are not trained


def attention_inputs(work):
    random = np.random.default_rng(SEED)
    shape = (work.batch, work.n, work.heads, work.dim)
    found = Inputs({name: random.standard_normal(shape, np.float32) for name in ("q", "k", "v", "grad")})
    if work.bias:
        found.arrays["bias"] = random.standard_normal((1, work.heads, work.n, work.n), np.float32)
    add_weights(found, work)
    return found


def add_weights(inputs, work):
    import fovea

    mechanism = fovea.Mechanism(work.mechanism, seed=SEED, **work.settings)
    if not mechanism.weight_names:
        return
    weights = mechanism.init(heads=work.heads, d_k=work.dim, max_length=work.n).weights
    inputs.arrays |= {name: np.array(array) for name, array in weights.items()}
    inputs.kept = frozenset(weights) - weights.trained


def train_data(work):
    random = np.random.default_rng(SEED)
    ids = random.integers(0, work.vocabulary, (work.batch, work.n), np.int32)
    return {"ids": ids, "targets": random.integers(0, work.classes, work.batch, np.int32)}
