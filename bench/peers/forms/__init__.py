"""Attention as one would write it in PyTorch: every form of every mechanism that the race times.

Each function named in the rows makes a form for the given sizes: a function of q, k, v (and a bias or weights where the
work has them). Unless the row says otherwise tensors are (batch, heads, n, dim) and contiguous, the layout PyTorch's
kernels like best.
"""

from forms import attention, features, landmarks, linear, packed, sparse, window

_FAMILIES = (attention, window, linear, packed, features, landmarks, sparse)


def find(name):
    return next(getattr(family, name) for family in _FAMILIES if hasattr(family, name))
