"""PyTorch's side of the race: one object per form, with the same methods as those of fovea_side.py."""

import time

import numpy as np
import torch

import cases
import torch_forms
import torch_model


def compiled(form, function):
    return torch.compile(function, dynamic=False, fullgraph=True) if form.compiled else function


def forget_compiled():
    """Between rows: PyTorch stops compiling a function that it has met in too many sizes."""
    torch._dynamo.reset()


class AttentionSide:
    """An attention problem in PyTorch's layout (batch, heads, n, dim), contiguous."""

    def __init__(self, form, work, inputs):
        """inputs: as fovea_side.AttentionSide has them."""
        self.function = compiled(form, getattr(torch_forms, form.make)(**form.args))
        self.tensors = {name: self.to_torch(name, x) for name, x in inputs.items()}
        self.grad = self.tensors.pop("grad")
        self.leaves = [x.requires_grad_() for x in self.tensors.values()]

    @staticmethod
    def to_torch(name, array):
        tensor = torch.from_numpy(array)
        return tensor.clone() if name == "bias" else tensor.transpose(1, 2).contiguous()

    def run(self, timed):
        start = time.perf_counter()
        if timed == cases.FORWARD:
            with torch.no_grad():
                self.function(*self.leaves)
            return time.perf_counter() - start
        output = self.function(*self.leaves)
        if timed == cases.BACKWARD:
            start = time.perf_counter()
        torch.autograd.grad(output, self.leaves, self.grad)
        return time.perf_counter() - start

    def results(self, with_gradients=True):
        """The output and the gradients, by name, in fovea's layout."""
        if not with_gradients:
            with torch.no_grad():
                return {"output": self.function(*self.leaves).transpose(1, 2).numpy()}
        output = self.function(*self.leaves)
        grads = torch.autograd.grad(output, self.leaves, self.grad)
        found = {"output": output.detach().transpose(1, 2).numpy()}
        for name, grad in zip(self.tensors, grads):
            found[name] = grad.numpy() if name == "bias" else grad.transpose(1, 2).numpy()
        return found

    def close(self):
        self.leaves = self.tensors = self.grad = self.function = None


class TrainSide:
    """One training step, over and over on the same batch: forward, loss, backward, AdamW."""

    def __init__(self, form, work, data, settings, start):
        """start: parameters of fovea's side (fovea_side.TrainSide.parameters), which this model begins from."""
        self.model = torch_model.Classifier(work, work.dropout, work.attention_dropout)
        self.load(start)
        self.data = [torch.from_numpy(data[name]).long() for name in ("ids", "targets")]
        groups = {True: [], False: []}
        for name, p in self.model.named_parameters():
            groups[start[torch_model.fovea_name(name)][2]].append(p)
        self.optimizer = torch.optim.AdamW(
            [
                {"params": groups[True], "weight_decay": settings["weight_decay"]},
                {"params": groups[False], "weight_decay": 0.0},
            ],
            lr=settings["rate"],
            eps=1e-6,
            fused=True,
        )
        self.loss_function = compiled(form, self.model)

    def load(self, start):
        """Linear weights are (in, out) in fovea and (out, in) here."""
        with torch.no_grad():
            for name, p in self.model.named_parameters():
                flat = torch.from_numpy(np.array(start[torch_model.fovea_name(name)][0]))
                p.copy_(flat.view(p.shape[::-1]).t() if self.is_linear(name, p) else flat.view(p.shape))

    @staticmethod
    def is_linear(name, p):
        return p.ndim == 2 and name not in ("tokens", "positions")

    def loss(self):
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss_function(*self.data)
        loss.backward()
        return loss.item()

    def update(self):
        self.optimizer.step()

    def run(self, timed=cases.BOTH):
        start = time.perf_counter()
        self.loss()
        self.update()
        return time.perf_counter() - start

    def parameters(self):
        """fovea's name -> (values, gradient), both flat and in fovea's order."""
        found = {}
        for name, p in self.model.named_parameters():
            turn = lambda x: (x.t() if self.is_linear(name, p) else x).detach().reshape(-1).numpy()  # noqa: E731
            found[torch_model.fovea_name(name)] = (turn(p).copy(), None if p.grad is None else turn(p.grad).copy())
        return found

    def close(self):
        self.model = self.optimizer = self.loss_function = self.data = None
