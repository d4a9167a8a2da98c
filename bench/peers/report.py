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
    section: str = ""
    limit_ms: float | None = None  # for rows without peers: the most it may take
    why: str = ""  # what there is to say when the bar is missed

    @property
    def ratio(self):
        return self.peer_ms / self.ours_ms if self.ours_ms and self.peer_ms else None

    @property
    def verdict(self):
        if self.error:
            return "wrong"
        if self.limit_ms is not None:
            return "ok" if self.ours_ms <= self.limit_ms else "missed"
        if self.bar is None:
            return "-"
        return "ok" if self.ratio >= self.bar else "missed"

    @property
    def judged(self):
        return self.bar is not None or self.limit_ms is not None

    @property
    def shortfall(self):
        """In words, how far from its bar a row is that missed it."""
        if self.limit_ms is not None:
            return f"{time_text(self.ours_ms)}, {self.ours_ms / self.limit_ms - 1:.0%} over its limit"
        short = f"{1 - self.ratio / self.bar:.0%} short"
        return f"{ratio_text(self.ratio)} where {ratio_text(self.bar)} was the bar, {short}"

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


def time_text(ms):
    """With its unit: calls take microseconds."""
    if ms is None:
        return ""
    return f"{1e3 * ms:.1f} us" if ms < 1 else f"{three_digits(ms)} ms"


def ratio_text(value):
    return "" if value is None else f"{value:.2f}x"


def measure_text(outcome):
    return time_text(outcome.ours_ms) if outcome.limit_ms is not None else ratio_text(outcome.ratio)


@dataclass(frozen=True)
class Table:
    """Columns of a section: titles, which of them stand to the right, and the cells of a row."""

    columns: tuple
    right: tuple
    cells: object  # Outcome -> texts


def race_cells(o):
    times = three_digits(o.ours_ms), three_digits(o.peer_ms)
    return (o.name, o.timed, *times, o.peer, ratio_text(o.ratio), ratio_text(o.bar), o.verdict)


def call_cells(o):
    return (o.name, time_text(o.ours_ms), time_text(o.limit_ms), o.verdict)


RACE = Table(("Work", "Pass", "fovea, ms", "PyTorch, ms", "PyTorch as", "Ratio", "Bar", ""),
             (False, False, True, True, False, True, True, False), race_cells)
CALLS = Table(("Call", "Time", "Limit", ""), (False, True, True, False), call_cells)


def sections(outcomes):
    """(title, table, outcomes) in the order of the rows."""
    for title in dict.fromkeys(o.section for o in outcomes):
        found = [o for o in outcomes if o.section == title]
        yield title, CALLS if found[0].limit_ms is not None else RACE, found


def table_lines(table, outcomes):
    """The terminal's table, header first."""
    rows = [table.columns] + [table.cells(o) for o in outcomes]
    widths = [max(len(row[i]) for row in rows) for i in range(len(table.columns))]
    pad = lambda text, i: text.rjust(widths[i]) if table.right[i] else text.ljust(widths[i])  # noqa: E731
    return ["  ".join(pad(text, i) for i, text in enumerate(row)).rstrip() for row in rows]


def text_lines(outcomes):
    lines = []
    for title, table, found in sections(outcomes):
        lines += [*([title, ""] if title else []), *table_lines(table, found), ""]
    return lines


def summary(outcomes):
    judged = [o for o in outcomes if o.judged]
    reached = sum(not o.failed for o in judged)
    wrong = sum(bool(o.error) for o in outcomes)
    text = f"{reached} of {len(judged)} bars reached"
    return text + (f"; {wrong} row{'s' if wrong > 1 else ''} with different results" if wrong else "")


def json_text(outcomes, setting):
    rows = [asdict(o) | {"ratio": o.ratio, "verdict": o.verdict} for o in outcomes]
    return json.dumps({"setting": setting, "rows": rows}, indent=1) + "\n"


def markdown_table(table, outcomes):
    lines = [" | ".join(table.columns), " | ".join("--:" if right else "---" for right in table.right)]
    for o in outcomes:
        row = list(table.cells(o))
        if o.verdict in ("missed", "wrong"):
            row[-1] = f"**{o.verdict}**"
        lines.append(" | ".join(row))
    return [f"| {line} |" for line in lines]


def missed_lines(outcomes):
    """By how much a bar was missed, and why."""
    missed = [o for o in outcomes if o.verdict == "missed"]
    return [f"- {o.name}, {o.timed}: {o.shortfall}.{' ' + o.why if o.why else ''}" for o in missed]


OTHERS = "Milliseconds: the median of the rounds, or the better of two runs for forms that were clearly slower."
INTRODUCTION = """\
# fovea against PyTorch, on CPU

Made by `{command}`; run it for your own machine.

Both sides run in one process on the same numbers, {threads} threads; unless a row says otherwise attention is f32,
batch 1, 8 heads, width 64. fovea runs as its users run it, `fovea.torch.attention` on tensors with autograd; steps of
the Long Range Arena (LRA) are those of its own models. First the results of both are compared (outputs and gradients,
relative difference at most 1e-4, in bf16 3e-2), then timed runs alternate. A time is the median of {rounds} rounds, of
fewer where one takes long; a ratio is PyTorch's time over ours. PyTorch's time is that of the fastest form we could
write: SDPA, eager and `torch.compile`, with blocks or chunks of several sizes (`bench/peers/cases` lists them all).
Each side has its own favourite layout, and {malloc}.
Rounds during which the machine was busy (sgemm 2048^3 below 90% of its best) are repeated.
"""


def markdown(outcomes, setting):
    lines = [INTRODUCTION.format(**setting), summary(outcomes) + ".", ""]
    for title, table, found in sections(outcomes):
        lines += [*([f"## {title}", ""] if title else []), *markdown_table(table, found), ""]
    missed = missed_lines(outcomes)
    if missed:
        lines += ["## Missed bars", "", *missed, ""]
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
