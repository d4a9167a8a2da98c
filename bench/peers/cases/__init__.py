"""The rows of the race, as data: what fovea runs, the ways PyTorch can do the same, and the bar.

Nothing here imports PyTorch: forms are named, and torch_side.py looks them up.
"""

from cases.calls import call_rows
from cases.first import first_rows
from cases.kinds import BACKWARD, BOTH, FORWARD, Attention, Call, Form, ModelStep, Row, TrainStep
from cases.mechanisms import mechanism_rows
from cases.models import model_rows
from cases.patterns import pattern_rows
from cases.precision import precision_rows

__all__ = ["BACKWARD", "BOTH", "FORWARD", "Attention", "Call", "Form", "ModelStep", "Row", "TrainStep"]
__all__ += ["all_rows", "select"]


def all_rows():
    return [*first_rows(), *precision_rows(), *pattern_rows(), *mechanism_rows(), *model_rows(), *call_rows()]


def select(rows, patterns):
    """Rows whose name or pass contains every word of one of the patterns; all rows when there are none."""
    text = lambda row: f"{row.name} {row.timed}".lower()  # noqa: E731
    return [r for r in rows if not patterns or any(all(w in text(r) for w in p.lower().split()) for p in patterns)]
