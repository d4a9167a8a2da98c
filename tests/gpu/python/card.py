"""What the tests here share."""

import torch

SHAPE = (2, 128, 4, 64)


def tensors(count=3, dtype=torch.float32, grad=False, shape=SHAPE, device="cuda"):
    torch.manual_seed(5)
    return [torch.randn(shape, dtype=dtype, device=device, requires_grad=grad) for _ in range(count)]


def on_cpu(*tensors_of_card):
    return [x.detach().cpu() for x in tensors_of_card]


def near(a, b, tolerance=2e-5):
    torch.testing.assert_close(a.detach().cpu(), b.detach().cpu(), atol=tolerance, rtol=tolerance)
