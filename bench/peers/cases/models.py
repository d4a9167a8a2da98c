"""One PyTorch model with fovea's attention in it, and with PyTorch's."""

from cases.kinds import BOTH, Form, ModelStep, Row

WHY = ("With q + k + v in place of attention the step takes 85% of ours: linear layers, norms, activations and the optimizer, the "
       "same on both sides. Attention in no time at all would give about 1.4x.")


def model_rows():
    for mechanism in ("norm", "diag"):
        work = ModelStep(mechanism)
        yield Row(f"torch model with {mechanism}, step, n {work.n}", work, BOTH, 1.5, (Form("eager", ""),), "Models", rounds=5,
                  why=WHY)
