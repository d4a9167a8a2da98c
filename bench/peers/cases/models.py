"""One PyTorch model with fovea's attention in it, and with PyTorch's."""

from cases.kinds import BOTH, Form, ModelStep, Row

WHY = {
    "norm": "Half of a step are the products of the linear layers, the same on both sides; attention is a tenth of ours.",
    "diag": "Half of a step are the products of the linear layers, the same on both sides; attention is a sixth of ours.",
}


def model_rows():
    for mechanism in ("norm", "diag"):
        work = ModelStep(mechanism)
        yield Row(f"torch model with {mechanism}, step, n {work.n}", work, BOTH, 1.5, (Form("eager", ""),), "Models", rounds=5,
                  why=WHY[mechanism])
