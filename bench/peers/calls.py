"""Calls with next to nothing to compute: each function here gives the seconds of one."""

import subprocess
import sys
import time

import fovea
import fovea.torch
import numpy as np
import torch

CALLS = 500
FIRST = """
import time; start = time.perf_counter()
import fovea, numpy
x = numpy.ones((1, 16, 2, 16), numpy.float32)
fovea.attention(x, x, x)
print(time.perf_counter() - start)
"""


def first_call():
    """`import fovea`, NumPy with it, and one call, in a process that has nothing yet."""
    found = subprocess.run([sys.executable, "-c", FIRST], capture_output=True, text=True, check=True)
    return float(found.stdout)


def mean_seconds(call):
    start = time.perf_counter()
    for _ in range(CALLS):
        call()
    return (time.perf_counter() - start) / CALLS


def small(torch_tensor=False):
    x = np.random.default_rng(0).standard_normal((1, 16, 2, 16), np.float32)
    return torch.from_numpy(x) if torch_tensor else x


def numpy_softmax(x=small()):
    return mean_seconds(lambda: fovea.attention(x, x, x))


def numpy_norm(x=small()):
    return mean_seconds(lambda: fovea.attention(x, x, x, "norm"))


def torch_softmax(x=small(torch_tensor=True)):
    return mean_seconds(lambda: fovea.torch.attention(x, x, x))
