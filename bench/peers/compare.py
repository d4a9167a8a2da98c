"""Do both sides compute the same? Asked before anything is timed."""

import dataclasses

import numpy as np

# max |difference| / max |reference|. bf16 has 8 bits, and each side rounds some steps of its own.
TOLERANCES = {"f32": 1e-4, "bf16": 3e-2}
TOLERANCE = TOLERANCES["f32"]


class Disagreement(Exception):
    pass


def relative_error(ours, theirs):
    """max |difference| / max |theirs|; infinite when a number is not finite or shapes differ."""
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    if ours.shape != theirs.shape or not (np.isfinite(ours).all() and np.isfinite(theirs).all()):
        return np.inf
    if ours.size == 0:
        return 0.0
    difference = float(np.max(np.abs(ours - theirs)))
    size = float(np.max(np.abs(theirs)))
    return difference / size if size > 0 else (0.0 if difference == 0 else np.inf)


def require_same(ours, theirs, peer, dtype="f32"):
    """Compares arrays by name, those that both have; returns the largest error."""
    tolerance = TOLERANCES[dtype]
    worst, shared = 0.0, [name for name in ours if name in theirs]
    if not shared:
        raise Disagreement(f"PyTorch ({peer}) gave nothing to compare")
    for name in shared:
        error = relative_error(ours[name], theirs[name])
        if error > tolerance:
            kind = name if name == "output" else f"gradient of {name}"
            raise Disagreement(f"{kind} differs from PyTorch's ({peer}) by {error:.1e}, more than {tolerance:.0e}")
        worst = max(worst, error)
    return worst


def without_dropout(work):
    return dataclasses.replace(work, dropout=0.0, attention_dropout=0.0)


def train_agrees(ours, theirs, peer):
    """Both sides, without dropout and from the same parameters: loss, gradients, and parameters after one step.

    The first step of AdamW is rate * sign(gradient): where a gradient is all rounding its sign is chance, so parameters
    are compared where the gradient is not.
    """
    error = relative_error([ours.loss()], [theirs.loss()])
    if error > TOLERANCE:
        raise Disagreement(f"the loss differs from PyTorch's ({peer}) by {error:.1e}")
    own, their = ({name: view[1].copy() for name, view in side.parameters().items()} for side in (ours, theirs))
    worst = max(error, require_same(own, their, peer))
    ours.update()
    theirs.update()
    for name, view in ours.parameters().items():
        gradient = np.abs(their[name])
        clear = gradient > 1e-3 * gradient.max()
        error = relative_error(view[0][clear], theirs.parameters()[name][0][clear])
        if error > TOLERANCE:
            raise Disagreement(f"{name} after a step differs from PyTorch's ({peer}) by {error:.1e}")
        worst = max(worst, error)
    return worst
