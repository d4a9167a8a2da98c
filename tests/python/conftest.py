import numpy as np
import pytest
import torch


def pytest_configure(config):
    config.addinivalue_line("markers", "checked(mechanism, code, within): whose code a test compares with, and how closely")


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.fixture
def agree(request):
    """agree(ours, theirs, inputs): both outputs, and the gradients of a random functional of them, within the bound that
    the test's mark names; gradients within ten times that."""
    within = request.node.get_closest_marker("checked").kwargs["within"]

    def compare(ours, theirs, inputs):
        torch.testing.assert_close(ours, theirs, atol=within, rtol=within)
        torch.manual_seed(11)
        grad = torch.randn_like(ours)
        gradients = (torch.autograd.grad(out, inputs, grad, retain_graph=True) for out in (ours, theirs))
        for a, b in zip(*gradients):
            torch.testing.assert_close(a, b, atol=10 * within, rtol=10 * within)

    return compare
