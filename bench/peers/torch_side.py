"""PyTorch's side of the race: one object per form, with the same methods as those of fovea_side.py."""

import torch

import forms
import sides
from layouts import LAYOUTS


def compiled(form, function):
    return torch.compile(function, dynamic=False, fullgraph=True) if form.compiled else function


def forget_compiled():
    """Between rows: PyTorch stops compiling a function that it has met in too many sizes."""
    torch._dynamo.reset()


class AttentionSide(sides.TensorSide):
    """An attention problem in the layout of a form."""

    def __init__(self, form, work, inputs, timed):
        self.layout = LAYOUTS[form.layout](work)
        leaves, grad = sides.leaves_of(inputs, work.dtype, self.layout.there, timed)
        super().__init__(compiled(form, forms.find(form.make)(**form.args)), leaves, grad)

    def back(self, x):
        return self.layout.back(x)
