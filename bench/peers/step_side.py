"""Training steps of a PyTorch model, over and over on the same batch: forward, loss, backward, AdamW."""

import time

import numpy as np
import torch

import cases
import torch_model
from torch_side import compiled


class StepSide:
    def __init__(self, model, data, groups, rate):
        """groups: of parameters, as torch.optim takes them."""
        self.model, self.loss_function = model, model
        self.data = [torch.from_numpy(data[name]).long() for name in ("ids", "targets")]
        self.optimizer = torch.optim.AdamW(groups, lr=rate, eps=1e-6, fused=True)

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
        """name -> (values, gradient), both flat."""
        flat = lambda x: None if x is None else x.detach().reshape(-1).numpy().copy()  # noqa: E731
        return {name: (flat(p), flat(p.grad)) for name, p in self.model.named_parameters()}

    def close(self):
        self.model = self.optimizer = self.loss_function = self.data = None


class ModelSide(StepSide):
    """A model whose attention is fovea's or PyTorch's, with parameters drawn from the same seed."""

    def __init__(self, work, data, settings, layer):
        torch.manual_seed(0)
        model = torch_model.Classifier(work, layer)
        torch.nn.init.normal_(model.tokens)
        torch.nn.init.normal_(model.positions)
        groups = [{"params": list(model.parameters()), "weight_decay": settings["weight_decay"]}]
        super().__init__(model, data, groups, settings["rate"])


class TrainSide(StepSide):
    """PyTorch's side of a preset of fovea."""

    def __init__(self, form, work, data, settings, start):
        """start: parameters of fovea's side (fovea_side.TrainSide.parameters), which this model begins from."""
        model = torch_model.Classifier(work)
        self.load(model, start)
        decaying = {True: [], False: []}
        for name, p in model.named_parameters():
            decaying[start[torch_model.fovea_name(name)][2]].append(p)
        decay = {True: settings["weight_decay"], False: 0.0}
        groups = [{"params": decaying[whether], "weight_decay": decay[whether]} for whether in (True, False)]
        super().__init__(model, data, groups, settings["rate"])
        self.loss_function = compiled(form, model)

    def load(self, model, start):
        """Linear weights are (in, out) in fovea and (out, in) here."""
        with torch.no_grad():
            for name, p in model.named_parameters():
                flat = torch.from_numpy(np.array(start[torch_model.fovea_name(name)][0]))
                p.copy_(flat.view(p.shape[::-1]).t() if self.is_linear(name, p) else flat.view(p.shape))

    @staticmethod
    def is_linear(name, p):
        return p.ndim == 2 and name not in ("tokens", "positions")

    def parameters(self):
        """fovea's name -> (values, gradient), both flat and in fovea's order."""
        found = {}
        for name, p in self.model.named_parameters():
            turn = lambda x: (x.t() if self.is_linear(name, p) else x).detach().reshape(-1).numpy()  # noqa: E731
            found[torch_model.fovea_name(name)] = (turn(p).copy(), None if p.grad is None else turn(p.grad).copy())
        return found
