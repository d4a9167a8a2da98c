"""The results as a page."""

import subprocess
import time


def setting(command):
    import torch

    import fovea

    driver = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], capture_output=True, text=True)
    return {"command": command, "date": time.strftime("%Y-%m-%d"), "card": torch.cuda.get_device_name(),
            "driver": driver.stdout.strip(), "torch": torch.__version__, "cuda": torch.version.cuda, "fovea": fovea.__version__}


def milliseconds(value):
    if value is None:
        return ""
    return "-" if isinstance(value, str) else f"{value:.3g}"


def ratio(passed):
    ours, theirs = passed["fovea"], passed["peer"]
    return "" if isinstance(ours, str) or theirs is None else f"{theirs / ours:.2f}x"


def error(entry, who, place):
    found = entry["errors"].get(who) if isinstance(entry["errors"], dict) else None
    return "" if found is None else f"{found[place]:.0e}"


def rate(entry, passed, milliseconds):
    """In the unit of the row."""
    times = 2 if passed == "backward" else 1
    if entry["unit"] == "TB/s":
        size = 4 * entry["batch"] * entry["n"] * entry["heads"] * entry["dim"] * 2
        return times * size / milliseconds / 1e9
    if entry["unit"] == "TFLOP/s":
        pairs = entry["n"] ** 2 * (0.5 if entry["causal"] else 1.0)
        flops = 4 * pairs * entry["dim"] * entry["heads"] * entry["batch"]
        return flops * (2.5 if passed == "backward" else 1.0) / milliseconds / 1e9
    return milliseconds


def met(entry, passed, bar):
    """Is the bar of a pass reached?"""
    ours, theirs = entry[passed]["fovea"], entry[passed]["peer"]
    if bar is None or isinstance(ours, str):
        return ""
    if isinstance(bar, str):
        if theirs is None:
            return ""
        reached = theirs / ours >= float(bar.rstrip("x"))
    else:
        value = rate(entry, passed, ours)
        reached = value <= bar if entry["unit"] == "ms" else value >= bar
    return "ok" if reached else "**missed**"


def line(entry):
    """One row on the terminal."""
    name = entry.get("name") or f"{entry['mechanism']} b{entry['batch']} n{entry['n']}"
    parts = [f"{name:36}"]
    for passed in ("forward", "backward"):
        ours = entry[passed]["fovea"]
        shown = ours if isinstance(ours, str) else f"{ours:.4g} ms"
        parts.append(f"{passed} {shown}  {entry[passed]['peer_as']} {milliseconds(entry[passed]['peer'])} {ratio(entry[passed])}")
    return "  ".join(parts)


def table(head, lines):
    rule = ["---" if i == 0 else "--:" for i in range(len(head))]
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, rule, *lines]) + "\n"


def bar_lines(entry):
    for passed, bar in zip(("forward", "backward"), entry["bars"]):
        side = entry[passed]
        shown = [f"{rate(entry, passed, t):.3g}" if isinstance(t, float) else "-" for t in (side["fovea"], side["peer"])]
        yield [entry["name"], passed, entry["unit"], shown[0], shown[1], side["peer_as"], ratio(side), str(bar or ""), met(entry, passed, bar),
               error(entry, "fovea", passed == "backward"), error(entry, side["peer_as"], passed == "backward")]


def mechanism_line(name, entries):
    """All lengths of a mechanism: forward / backward, and PyTorch where both ran."""
    by_n = {e["n"]: e for e in entries}
    cells = []
    for n in (1024, 4096, 16384, 65536):
        e = by_n.get(n)
        cells.append("" if e is None else f"{milliseconds(e['forward']['fovea'])} / {milliseconds(e['backward']['fovea'])}")
    raced = by_n.get(4096)
    if raced is None:
        return [name, *cells, "", "", "", "", ""]
    peer = f"{milliseconds(raced['forward']['peer'])} / {milliseconds(raced['backward']['peer'])}"
    who = raced["forward"]["peer_as"]
    ours, theirs = (f"{error(raced, w, 0)} / {error(raced, w, 1)}".strip(" /") for w in ("fovea", who))
    return [name, *cells, peer.strip(" /"), who, f"{ratio(raced['forward'])} / {ratio(raced['backward'])}".strip(" /"), ours, theirs]


def markdown(found):
    s = found["setting"]
    names = dict.fromkeys(e["mechanism"] for e in found["mechanisms"])
    lines = [mechanism_line(name, [e for e in found["mechanisms"] if e["mechanism"] == name]) for name in names]
    bars = [row for entry in found["bars"] for row in bar_lines(entry)]
    return f"""# fovea against PyTorch, on a card

Made by `make gpu-bench` ({s["command"]}) on {s["date"]}: {s["card"]}, driver {s["driver"]}, PyTorch {s["torch"]}, CUDA {s["cuda"]}, fovea {s["fovea"]}.

bf16, 16 heads of 64 unless a row says otherwise; random numbers in rotating buffers, (batch, n, heads, width) for fovea and
(batch, heads, n, width) for PyTorch. A time is the median of CUDA events around whole calls of `fovea.torch.attention` or of the form of
PyTorch; the card is made to wait until the host has enqueued them, so launches are not counted, on either side. PyTorch's time is that of
the fastest of its forms (`bench/gpu/rows.py` lists them). An error is that of all numbers together, relative, against the definition in
double at n 512: of the output, and the largest of the three gradients.

## Bars

A rate in TB/s counts q, k, v and o once forward and twice backward; TFLOP/s count the pairs that are kept, backward as five products.

{table(["Work", "Pass", "Unit", "fovea", "PyTorch", "as", "Ratio", "Bar", "", "Error", "PyTorch's"], bars)}
## Every mechanism

Milliseconds, forward / backward. A batch has {65536} tokens, {16384} where the cost is quadratic. Empty: not run, for time; -: did not run.

{table(["Mechanism", "n 1024", "n 4096", "n 16384", "n 65536", "PyTorch, 4096", "as", "Ratio", "Error", "PyTorch's"], lines)}"""
