"""Medians of CUDA events around calls on rotating buffers."""

import statistics
import time
from dataclasses import dataclass

import torch

AHEAD = 5_000_000  # cycles, about 3 ms: the card sleeps while the host enqueues the call, so its launches are not timed


@dataclass
class Budget:
    seconds: float = 0.15  # for one number
    rounds: int = 15
    least: int = 3


class Sets:
    """Inputs by name, several times over, so that none is still in the card's cache."""

    def __init__(self, make, count=3, total=1 << 30):
        first = make(0)
        size = sum(x.numel() * x.element_size() for x in first.values())
        self.all = [first] + [make(i) for i in range(1, count if size * count < total else 2)]

    def __getitem__(self, i):
        return self.all[i % len(self.all)]


def median_ms(prepare, run, budget):
    """run(prepare(i)) timed; what prepare() enqueues is not."""
    for i in range(2):
        run(prepare(i))
    torch.cuda.synchronize()
    times, end_at = [], time.perf_counter() + budget.seconds
    while len(times) < budget.rounds and (len(times) < budget.least or time.perf_counter() < end_at):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        ready = prepare(len(times))
        torch.cuda._sleep(AHEAD)
        start.record()
        run(ready)
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return statistics.median(times)


def forward_ms(function, sets, budget):
    def run(inputs):
        with torch.no_grad():
            function(inputs)

    return median_ms(lambda i: sets[i], run, budget)


def leaves_of(inputs, kept=frozenset()):
    """The inputs of one call, those with a gradient asking for it."""
    return {name: x.detach().requires_grad_(name not in kept and x.is_floating_point())
            for name, x in inputs.items() if name != "grad"}


def backward_ms(function, sets, budget, kept=frozenset()):
    """The backward pass alone. kept: names of inputs without a gradient."""

    def prepare(i):
        leaves = leaves_of(sets[i], kept)
        return function(leaves), [x for x in leaves.values() if x.requires_grad], sets[i]["grad"]

    return median_ms(prepare, lambda ready: torch.autograd.grad(ready[0], ready[1], ready[2], allow_unused=True), budget)
