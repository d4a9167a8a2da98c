"""What people and programs read after the race: a table, a JSON document and docs/bench-cpu.md."""

import json
from dataclasses import asdict, dataclass, field


@dataclass
class Outcome:
    """One finished row. A row whose results differ has an error and no times."""

    name: str
    timed: str
    bar: float | None
    ours_ms: float | None = None
    ours_spread_ms: float = 0.0
    peer_ms: float | None = None
    peer_spread_ms: float = 0.0
    peer: str = ""
    difference: float | None = None  # largest relative difference between the two sides
    repeated: int = 0  # rounds thrown away
    others: dict | None = None  # the forms that lost: name -> ms, from screening or from the rounds
    refused: dict = field(default_factory=dict)  # forms that PyTorch could not run: name -> why
    error: str = ""

    @property
    def ratio(self):
        return self.peer_ms / self.ours_ms if self.ours_ms and self.peer_ms else None

    @property
    def verdict(self):
        if self.error:
            return "wrong"
        if self.bar is None:
            return "-"
        return "ok" if self.ratio >= self.bar else "missed"

    @property
    def failed(self):
        return self.verdict in ("wrong", "missed")


def three_digits(value):
    """Three significant digits, never in exponent form: 3.57, 54.2, 2660."""
    if value is None:
        return ""
    digits = 0 if value >= 100 else 1 if value >= 10 else 2 if value >= 1 else 3
    if value >= 1000:
        value = round(value, 2 - len(str(int(value))) + 1)
    return f"{value:.{digits}f}"


def ratio_text(value):
    return "" if value is None else f"{value:.2f}x"


COLUMNS = ("work", "pass", "fovea ms", "PyTorch ms", "PyTorch as", "ratio", "bar", "")
RIGHT = (False, False, True, True, False, True, True, False)


def cells(outcome):
    return (
        outcome.name,
        outcome.timed,
        three_digits(outcome.ours_ms),
        three_digits(outcome.peer_ms),
        outcome.peer,
        ratio_text(outcome.ratio),
        ratio_text(outcome.bar),
        outcome.verdict,
    )


def table_lines(outcomes):
    """The terminal's table, header first."""
    rows = [COLUMNS] + [cells(o) for o in outcomes]
    widths = [max(len(row[i]) for row in rows) for i in range(len(COLUMNS))]
    pad = lambda text, i: text.rjust(widths[i]) if RIGHT[i] else text.ljust(widths[i])  # noqa: E731
    return ["  ".join(pad(text, i) for i, text in enumerate(row)).rstrip() for row in rows]


def summary(outcomes):
    judged = [o for o in outcomes if o.bar is not None]
    reached = sum(not o.failed for o in judged)
    wrong = sum(bool(o.error) for o in outcomes)
    text = f"{reached} of {len(judged)} bars reached"
    return text + (f"; {wrong} row{'s' if wrong > 1 else ''} with different results" if wrong else "")


def json_text(outcomes, setting):
    rows = [asdict(o) | {"ratio": o.ratio, "verdict": o.verdict} for o in outcomes]
    return json.dumps({"setting": setting, "rows": rows}, indent=1) + "\n"


def markdown_table(outcomes):
    header = ("Work", "Pass", "fovea, ms", "PyTorch, ms", "PyTorch as", "Ratio", "Bar", "")
    lines = [" | ".join(header), " | ".join("--:" if r else "---" for r in RIGHT)]
    for o in outcomes:
        row = list(cells(o))
        if o.verdict in ("missed", "wrong"):
            row[-1] = f"**{o.verdict}**"
        lines.append(" | ".join(row))
    return [f"| {line} |" for line in lines]


OTHERS = "Milliseconds: the median of the rounds, or the better of two runs for forms that were clearly slower."
INTRODUCTION = """\
# fovea against PyTorch, on CPU

Made by `{command}`; run it for your own machine.

Both sides run in one process on the same numbers, {threads} threads, f32; attention has batch 1, 8 heads, width 64.
First their results are compared (outputs and gradients, relative difference at most 1e-4), then timed runs alternate.
A time is the median of {rounds} rounds; a ratio is PyTorch's time over ours. PyTorch's time is that of the fastest form
we could write: SDPA, eager and `torch.compile`, with blocks or chunks of several sizes (`bench/peers/cases.py` lists
them all). Each side has its own favourite layout, and {malloc}. Rounds during which the machine was busy (sgemm 2048^3
below 90% of its best) are repeated.
"""


def markdown(outcomes, setting):
    lines = [INTRODUCTION.format(**setting), *markdown_table(outcomes), "", summary(outcomes) + ".", ""]
    wrong = [o for o in outcomes if o.error]
    if wrong:
        lines += ["## Different results", "", *(f"- {o.name}, {o.timed}: {o.error}" for o in wrong), ""]
    lines += ["## Every other form that was tried", "", OTHERS, "", "| Work | Pass | Form: ms |", "| --- | --- | --- |"]
    for o in outcomes:
        if o.others:
            forms = sorted(o.others.items(), key=lambda item: item[1])
            lines.append(f"| {o.name} | {o.timed} | {'; '.join(f'{n}: {three_digits(ms)}' for n, ms in forms)} |")
    refused = [f"- {o.name}, {o.timed}, {form}: {why}" for o in outcomes for form, why in o.refused.items()]
    if refused:
        lines += ["", "Forms that PyTorch could not run:", "", *refused]
    lines += ["", "## Setting", "", "| | |", "| --- | --- |"]
    shown = ("date", "machine", "system", "fovea", "torch", "numpy", "compiler", "openmp", "sgemm_gflops")
    lines += [f"| {name} | {setting[name]} |" for name in shown if name in setting]
    return "\n".join(lines) + "\n"
