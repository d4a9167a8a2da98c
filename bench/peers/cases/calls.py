"""What a call costs before there is anything to compute; limits instead of peers."""

from cases.kinds import FORWARD, Call, Row

# name: function of calls.py, limit in ms
CALLS = {
    "import fovea and a first call, new process": ("first_call", 300.0),
    "one call at n 16, NumPy softmax": ("numpy_softmax", 0.025),
    "one call at n 16, NumPy norm": ("numpy_norm", 0.025),
    "one call at n 16, PyTorch softmax": ("torch_softmax", 0.025),
}


def call_rows():
    for name, (make, limit_ms) in CALLS.items():
        yield Row(name, Call(make), FORWARD, None, section="Calls", limit_ms=limit_ms)
