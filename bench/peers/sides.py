"""What both sides of the race have in common: PyTorch's tensors, autograd, and the clock around them."""

import time

import torch

import cases

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


class TensorSide:
    """An attention problem: a function of leaves."""

    def __init__(self, function, leaves, grad):
        """leaves: tensors by name, q, k and v first; grad: of the output."""
        self.function, self.names, self.grad = function, list(leaves), grad
        self.leaves = list(leaves.values())
        self.wanted = [x for x in self.leaves if x.requires_grad]  # none when only the forward pass is timed

    def run(self, timed):
        """Seconds of one run."""
        start = time.perf_counter()
        if timed == cases.FORWARD:
            with torch.no_grad():
                self.function(*self.leaves)
            return time.perf_counter() - start
        output = self.function(*self.leaves)
        if timed == cases.BACKWARD:
            start = time.perf_counter()
        torch.autograd.grad(output, self.wanted, self.grad)
        return time.perf_counter() - start

    def results(self):
        """The output and the gradients, by name, as f32 arrays in fovea's layout."""
        output = self.function(*self.leaves)
        grads = iter(torch.autograd.grad(output, self.wanted, self.grad) if self.wanted else ())
        found = {"output": self.common("output", output.detach())}
        for name, leaf in zip(self.names, self.leaves):
            if leaf.requires_grad:
                found[name] = self.common(name, next(grads))
        return found

    def common(self, name, x):
        return (x if name not in ("output", "q", "k", "v") else self.back(x)).float().numpy()

    def back(self, x):
        """From the side's layout to (batch, n, heads, dim)."""
        return x

    def close(self):
        self.function = self.leaves = self.wanted = self.grad = None


def leaves_of(inputs, dtype, there, timed):
    """The tensors of a side by name, and the gradient of the output. Where only the forward pass is timed none asks for
    a gradient: FlexAttention refuses tensors that do."""
    made = {}
    for name, array in inputs.arrays.items():
        tensor = torch.from_numpy(array)
        tensor = there(tensor.to(DTYPES[dtype])) if name in ("q", "k", "v", "grad") else tensor.clone()
        made[name] = tensor.requires_grad_(timed != cases.FORWARD and name != "grad" and name not in inputs.kept)
    return made, made.pop("grad")
