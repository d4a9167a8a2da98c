"""What the tests of the Python package share."""

import numpy as np
import pytest

import fovea

SHAPE = (2, 13, 4, 8)  # batch, length, heads, width
WIDTH = 6  # of a layer's input


def arrays(rng, shape=SHAPE, dtype=np.float64, count=3):
    return [rng.standard_normal(shape).astype(dtype) for _ in range(count)]


def usual_options(info, rng, dtype=np.float64):
    """Options with which a mechanism of the list runs: its causal form where it has no other, the input it reads."""
    options = {}
    if "bidirectional" not in info.features:
        options["causal"] = True
    if info.needs_input:
        options["input"] = rng.standard_normal((SHAPE[0], SHAPE[1], WIDTH)).astype(dtype)
    return options


def mechanism_cases():
    return [pytest.param(info, id=info.name) for info in fovea.list_mechanisms()]
