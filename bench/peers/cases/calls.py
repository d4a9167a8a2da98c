"""What a call costs before there is anything to compute; limits instead of peers."""

from cases.kinds import FORWARD, Call, Row

SECTION = "Calls"


def call_rows():
    yield Row("import fovea and a first call, new process", Call("first_call"), FORWARD, None, section=SECTION, limit_ms=300.0)
    for name, make in (("NumPy softmax", "numpy_softmax"), ("NumPy norm", "numpy_norm"), ("PyTorch softmax", "torch_softmax")):
        yield Row(f"one call at n 16, {name}", Call(make), FORWARD, None, section=SECTION, limit_ms=0.025)
