"""Numbers of packages that are not installed here: the same weights and inputs in fovea, forward and gradients.

fixtures/make.py wrote them, each with the package, its version and how the same is asked of fovea."""

import json
from pathlib import Path

import numpy as np
import pytest

import fovea

FOLDER = Path(__file__).parent / "fixtures"


def read(path):
    with np.load(path, allow_pickle=False) as file:
        arrays = {key: file[key] for key in file.files}
    return json.loads(str(arrays.pop("about"))), {key: x.astype(np.float64) for key, x in arrays.items()}


def names():
    return sorted(path.stem for path in FOLDER.glob("*.npz"))


class Problem:
    def __init__(self, name):
        self.about, self.arrays = read(FOLDER / f"{name}.npz")
        self.qkv = self.arrays["q"], self.arrays.get("k", self.arrays["q"]), self.arrays["v"]
        self.mechanism = fovea.Mechanism(self.about["mechanism"])
        self.options = {"causal": self.about.get("causal", False), "alibi": self.about.get("alibi", False)}
        weights = [self.arrays[key] for key in sorted(self.arrays) if key.startswith("weight")]
        self.options |= {"weights": weights} if weights else {}
        self.options |= {"input": self.arrays["input"]} if "input" in self.arrays else {}

    def close(self, found, key, times=1):
        within = times * self.about["within"]
        np.testing.assert_allclose(found, self.arrays[key], atol=within, rtol=within, err_msg=key)


@pytest.mark.parametrize("name", names())
def test_outputs(name):
    problem = Problem(name)
    problem.close(fovea.attention(*problem.qkv, problem.mechanism, **problem.options), "out")


@pytest.mark.parametrize("name", names())
def test_gradients(name):
    problem = Problem(name)
    found = fovea.attention_backward(problem.arrays["grad"], *problem.qkv, problem.mechanism, **problem.options)
    gradients = {"d_q": found.q, "d_k": found.k, "d_v": found.v, "d_input": found.input}
    gradients |= {f"d_weight{i}": w for i, w in enumerate((found.weights or {}).values())}
    if "k" not in problem.arrays:  # q is also k
        gradients["d_q"] = found.q + found.k
    expected = [key for key in problem.arrays if key.startswith("d_")]
    assert {"d_q", "d_v"} <= set(expected)
    for key in expected:
        problem.close(gradients[key], key, times=10)


def test_fixtures_are_small():
    sizes = [path.stat().st_size for path in FOLDER.glob("*.npz")]
    assert len(sizes) > 20 and max(sizes) < 50e3 and sum(sizes) < 600e3
