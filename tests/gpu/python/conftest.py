"""The Python package on a card. Everything here needs one: this is the one place that looks."""

import importlib.util
import sys
from pathlib import Path

import pytest
import torch

import fovea

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "python")]  # card.py, helpers.py
FRAMEWORKS = {"test_cupy.py": "cupy", "test_jax.py": "jax"}
MISSING = [file for file, package in FRAMEWORKS.items() if importlib.util.find_spec(package) is None]
collect_ignore = MISSING


def pytest_configure(config):
    if "cuda:0" not in fovea.devices():
        pytest.exit("no card, no driver, or a build of fovea without CUDA (docs/cuda.md)", returncode=1)
    if not torch.cuda.is_available():
        pytest.exit("this PyTorch has no CUDA", returncode=1)


def pytest_report_header(config):
    left_out = [FRAMEWORKS[file] for file in MISSING]
    return f"card: {torch.cuda.get_device_name()}; not on this machine, and left out: {', '.join(left_out) or 'nothing'}"


@pytest.fixture(autouse=True)
def nothing_left_behind():
    """Faults of a kernel show in the test that made them."""
    yield
    torch.cuda.synchronize()
