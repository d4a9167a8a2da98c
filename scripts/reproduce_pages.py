#!/usr/bin/env python3
"""Turns folders of `fovea reproduce` into docs/reproduce: a page for each table, which.md with its picture, and the list of them in README.md.

    python scripts/reproduce_pages.py [RUNS...] [--out docs/reproduce] [--fovea build/release/bin/fovea]

Every folder below RUNS with a study.json counts; folders of one table (other columns, other budgets, another machine) become one
page. With --fovea their reports are written anew first, for folders that came from another machine. The numbers of a folder are
kept in docs/reproduce/numbers under its name, until a folder of that name brings others: pages are made from all that are
there. What stands in a page between `<!-- discussion -->` and `<!-- end -->` stays.
"""

import argparse
import json
import math
import re
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

BEGIN, END = "<!-- discussion -->", "<!-- end -->"
BEGIN_PAGES, END_PAGES = "<!-- pages -->", "<!-- end of pages -->"
BASELINES = {"most_frequent_class": "most frequent class", "token_frequencies": "token frequencies"}
ARENA = ("table-6", "arena-rest")  # the same protocol: their rows stand beside each other
POINTS = 0.02  # accuracies closer than this are taken for equal
LEAST_GAIN = 0.05  # of what is to be gained, for the best of a task that says something
LEAST_ROWS = 0.5  # of as many models as ran on the fullest task: fewer do not say which is best
UNITS = [(1e9, "GB"), (1e6, "MB"), (1e3, "kB")]


@dataclass
class Folder:
    name: str
    results: dict

    @property
    def date(self):
        return self.results["date"]

    @property
    def study(self):
        return self.results["study"]

    @property
    def choices(self):
        return self.results["choices"]

    @property
    def on_card(self):
        return ", cuda" in self.results["machine"]

    @property
    def where(self):
        return "a card" if self.on_card else "cores"

    def command(self):
        choices, words = self.choices, ["fovea", "reproduce", self.study]
        words += ["--quick"] if choices["quick"] else []
        words += ["--rows", ",".join(choices["rows"])] if 0 < len(choices["rows"]) < 6 else []
        words += ["--columns", ",".join(choices["columns"])] if choices["columns"] else []
        words += ["--seeds", ",".join(map(str, choices["seeds"]))]
        words += ["--steps", str(choices["steps"])] if choices["steps"] else []
        words += ["--minutes", f"{choices['minutes']:g}"] if choices["minutes"] else []
        for one in choices["set"]:
            words += ["--set", one]
        words += ["--parts"] if choices["parts"] else []
        words += ["--device", "cuda"] if self.on_card else []
        return shlex.join(words + ["--data", "DIR"] if choices["data"] else words)


def load(path):
    file = path / "results.json"
    if not file.exists():
        sys.exit(f"{path} has no results.json: fovea reproduce --report {path}")
    results = json.loads(file.read_text())
    if "choices" not in results:
        sys.exit(f"{file} is of an older fovea: fovea reproduce --report {path}")
    newest = max(outcome.stat().st_mtime for outcome in path.glob("*/*/seed-*/outcome.json"))
    results["date"] = time.strftime("%Y-%m-%d", time.gmtime(newest))
    if results["choices"]["data"]:
        results["choices"]["data"] = "DIR"
    return results


def keep_numbers(roots, fovea, numbers):
    numbers.mkdir(exist_ok=True)
    for root in roots:
        for file in sorted(root.rglob("study.json")):
            if not any(file.parent.glob("*/*/seed-*/outcome.json")):
                continue  # begun, and nothing of it finished
            if fovea:
                subprocess.run([fovea, "reproduce", "--report", file.parent], check=True, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
            kept = numbers / f"{file.parent.name}.json"
            results = load(file.parent)
            if kept.exists():
                add_rows(results, json.loads(kept.read_text()))
            kept.write_text(json.dumps(results, indent=1) + "\n")


def add_rows(results, before):
    """Rows and columns that the folder of this name had before and has no more, where it ran with the same choices."""
    chosen = ({k: v for k, v in r["choices"].items() if k not in ("rows", "columns", "seeds")} for r in (results, before))
    if next(chosen) != next(chosen):
        return
    place = {(c["row"], c["column"]) for c in results["results"] if c["mean"] is not None}
    old = [c for c in before["results"] if c["mean"] is not None and (c["row"], c["column"]) not in place]
    if not old:
        return
    replaced = {(c["row"], c["column"]) for c in old}
    results["results"] = old + [c for c in results["results"] if (c["row"], c["column"]) not in replaced]
    for key in BASELINES:
        results[key] = before.get(key, {}) | results.get(key, {})
    for key in ("rows", "columns"):  # none: all
        both = [before["choices"][key], results["choices"][key]]
        results["choices"][key] = list(dict.fromkeys(both[0] + both[1])) if all(both) else []
    if before["machine"] != results["machine"]:
        results["machine"] = f"{before['machine']} ({before['date']}); {results['machine']}"


def kept_numbers(numbers):
    return [Folder(file.stem, json.loads(file.read_text())) for file in sorted(numbers.glob("*.json"))]


def digits(value):
    """Four significant digits, never in exponent form."""
    if value == 0:
        return "0"
    after = max(0, 3 - int(math.floor(math.log10(abs(value)))))
    return f"{value:.{after}f}"


def number(value, quantity):
    if value is None:
        return "-"
    if quantity == "percent":
        return f"{100 * value:.1f}"
    if quantity == "bytes":
        unit, name = next(((u, n) for u, n in UNITS if value >= u), (1, "B"))
        return f"{value / unit:.3g} {name}"
    return f"{value:,.0f}" if quantity == "count" else digits(value)


def ours(cell):
    if cell["mean"] is None:
        return cell["trouble"] or "not run"
    text = number(cell["mean"], cell["quantity"])
    return text + (f" ± {number(cell['spread'], cell['quantity'])}" if cell["seeds"] > 1 and cell["quantity"] != "bytes" else "")


def difference(cell):
    if cell["mean"] is None or cell["published"] is None:
        return "-"
    if cell["quantity"] == "count":
        return f"{cell['mean'] - cell['published']:+,.0f}"
    scale = 100 if cell["quantity"] == "percent" else 1
    return f"{scale * (cell['mean'] - cell['published']):+.3g}"


def clock(seconds):
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.1f} min"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "| --- |" + " ---: |" * (len(head) - 1)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows] + [""]


def trained(cell):
    return cell["steps"] > 0 and cell["value"] not in ("train_memory", "train_steps_per_second", "inference_steps_per_second")


def rate(cell):
    """Tokens read in a second of training."""
    return cell["tokens"] / cell["seconds"] if cell["seconds"] else 0.0


def column_table(folder, column):
    cells = [c for c in folder.results["results"] if c["column"] == column]
    learned = any(trained(c) for c in cells)
    costs = ["parameters", "time", "thousand tokens/s", "peak memory"] if learned else []
    rows = []
    for cell in cells:
        row = [cell["row"], number(cell["published"], cell["quantity"]), ours(cell), difference(cell),
               cell["budget"] if cell["mean"] is not None else "-", str(cell["seeds"])]
        if learned:
            row += [number(cell["parameters"], "count"), clock(cell["seconds"]), f"{rate(cell) / 1e3:,.0f}",
                    number(cell["peak_memory"], "bytes")] if cell["seeds"] else ["-"] * len(costs)
        rows.append(row)
    for key, name in BASELINES.items():
        if (base := folder.results.get(key, {}).get(column)) is not None:
            rows.append([name, "-", number(base, cells[0]["quantity"])] + ["-"] * (3 + len(costs)))
    unit = " (%)" if cells[0]["quantity"] == "percent" else ""
    return table([column + unit, "paper", "ours", "difference", "budget", "seeds", *costs], rows) + order(cells)


def apart(a, b):
    """Whether two means differ by more than twice the error of their difference; of single seeds nobody knows."""
    if min(a["seeds"], b["seeds"]) < 2:
        return False
    return abs(a["mean"] - b["mean"]) > 2 * math.sqrt(a["spread"] ** 2 / a["seeds"] + b["spread"] ** 2 / b["seeds"])


def order(cells):
    """How many pairs of rows stand as in the paper, and how many of them are apart."""
    known = [c for c in cells if c["mean"] is not None and c["published"] is not None]
    pairs = [(a, b) for i, a in enumerate(known) for b in known[i + 1:] if a["published"] != b["published"]]
    if not pairs or cells[0]["best"] == "none":
        return []
    same = [(a, b) for a, b in pairs if (a["mean"] < b["mean"]) == (a["published"] < b["published"])]
    sure, against = sum(apart(*p) for p in same), sum(apart(*p) for p in pairs if p not in same)
    seeds = f"; beyond the seeds' spread {sure} as there, {against} the other way" if max(c["seeds"] for c in known) > 1 else ""
    return [f"Order: {len(same)} of {len(pairs)} pairs of rows stand as in the paper{seeds}.", ""]


def wide_table(folder):
    """Many columns that cost nothing apart (speeds, shares): a table for each family of lengths, the paper's value in brackets."""
    cells = folder.results["results"]
    families = {}
    for column in dict.fromkeys(c["column"] for c in cells):
        families.setdefault(re.sub(r"\d+k ", "", column), []).append(column)
    lines = []
    for family, columns in families.items():
        rows = []
        for name in dict.fromkeys(c["row"] for c in cells):
            mine = {c["column"]: c for c in cells if c["row"] == name}
            rows.append([name] + [with_paper(mine[c]) if c in mine else "-" for c in columns])
        lines += table([family, *(re.search(r"\d+k|$", c).group() or c for c in columns)], rows)
    return lines


def with_paper(cell):
    return ours(cell) + (f" ({number(cell['published'], cell['quantity'])})" if cell["published"] is not None else "")


def section(folder):
    results = folder.results
    columns = list(dict.fromkeys(c["column"] for c in results["results"]))
    lines = [f"## {'In minutes' if folder.choices['quick'] else ', '.join(columns) if len(columns) < 4 else 'All columns'}, "
             f"on {folder.where}", "", "```", folder.command(), "```", "", f"{results['machine']}; {folder.date}.", ""]
    if len(columns) > 6:
        return lines + ["In brackets the published value, where there is one.", "", *wide_table(folder)]
    for column in columns:
        lines += column_table(folder, column)
    return lines


def kept(page):
    text = page.read_text() if page.exists() else ""
    match = re.search(re.escape(BEGIN) + r"\n(.*?)" + re.escape(END), text, re.DOTALL)
    return match.group(1) if match else ""


def page_text(folders, discussion):
    first = folders[0].results
    lines = [f"# {first['study']}", "", f"{first['title']}. Published values: {first['source']}.", "",
             "Ours are means and sample deviations over the seeds, on the test part, of the checkpoint that was best on the "
             "validation part (perplexities as the table says). A budget of `full` is the published one; others say what of it was run.", ""]
    lines += [BEGIN, discussion.rstrip("\n"), END, ""] if discussion else [BEGIN, END, ""]
    for folder in sorted(folders, key=lambda f: (f.choices["quick"], f.name)):
        lines += section(folder)
    return "\n".join(lines)


# Which attention -----------------------------------------------------------------------------------------------------


def gain(cell, base):
    """Share of what a model could win over the most frequent class."""
    return (cell["mean"] - base) / (1 - base)


def arena_tasks(folders):
    """column -> rows of the runs with the most steps on it: (cell, base), one budget for all of a column. Not the
    columns on which few of the models ran."""
    tasks = {}
    for folder in folders:
        if folder.study not in ARENA:
            continue
        for cell in folder.results["results"]:
            base = folder.results.get("most_frequent_class", {}).get(cell["column"])
            if cell["value"] == "accuracy" and cell["mean"] is not None and base is not None:
                tasks.setdefault((cell["column"], folder.on_card, cell["budget"]), {}).setdefault(cell["row"], (cell, base))
    most = {}
    for (column, on_card, budget), rows in tasks.items():
        steps = max(cell["steps"] for cell, _ in rows.values())
        if column not in most or (on_card, len(rows), steps) > most[column][:3]:
            most[column] = (on_card, len(rows), steps, budget, rows)
    fullest = max((len(rows) for *_, rows in most.values()), default=0)
    return {column: (budget, rows) for column, (*_, budget, rows) in sorted(most.items()) if len(rows) >= LEAST_ROWS * fullest}


def answers(tasks):
    rows = []
    for column, (budget, cells) in tasks.items():
        best = max(cells, key=lambda r: cells[r][0]["mean"])
        top, base = cells[best]
        if gain(top, base) < LEAST_GAIN:
            rows.append([column, budget, "nobody is above chance", "-", "-"])
            continue
        near = [r for r in cells if cells[r][0]["mean"] >= top["mean"] - POINTS]
        fast = max(near, key=lambda r: rate(cells[r][0]))
        small = min(near, key=lambda r: cells[r][0]["peak_memory"])
        rows.append([column, budget, f"{best} ({number(top['mean'], 'percent')})",
                     f"{fast} ({number(cells[fast][0]['mean'], 'percent')}, {rate(cells[fast][0]) / 1e3:,.0f}k tokens/s)",
                     f"{small} ({number(cells[small][0]['peak_memory'], 'bytes')})"])
    return table(["task", "budget", "most accurate", "fastest within 2 points", "least memory within 2 points"], rows)


def standings(tasks):
    """row -> mean gain, mean rate relative to the fastest of each task, largest memory; rows that all these tasks have."""
    told = [cells for _, cells in tasks.values() if max(gain(c, b) for c, b in cells.values()) >= LEAST_GAIN]
    if not told:
        return {}
    rows = set.intersection(*(set(cells) for cells in told))
    out = {}
    for row in rows:
        mine = [cells[row] for cells in told]
        out[row] = (sum(gain(c, b) for c, b in mine) / len(mine),
                    math.exp(sum(math.log(max(rate(c), 1.0)) for c, _ in mine) / len(mine)),
                    max(c["peak_memory"] for c, _ in mine))
    return out


def nice_ticks(low, high):
    return [m * 10**e for e in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1) for m in (1, 2, 5)
            if low <= m * 10**e <= high]


def picture(points):
    """Score by speed; the area of a disc is the memory. SVG of its own."""
    width, height, left, bottom = 760, 460, 60, 48
    low, high = min(p[1] for p in points.values()) / 1.3, max(p[1] for p in points.values()) * 1.8
    floor, top = min(0.0, min(p[0] for p in points.values())), max(p[0] for p in points.values()) * 1.1 + 0.02
    most = max(p[2] for p in points.values())

    def x(speed):
        return left + (width - left - 20) * math.log(speed / low) / math.log(high / low)

    def y(score):
        return height - bottom - (height - bottom - 20) * (score - floor) / (top - floor)

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">',
             f'<rect width="{width}" height="{height}" fill="white"/>']
    for tick in nice_ticks(low, high):
        parts.append(f'<path d="M{x(tick):.1f} 20V{height - bottom}" stroke="#ddd"/><text x="{x(tick):.1f}" '
                     f'y="{height - bottom + 15}" text-anchor="middle">{tick / 1e3:,g}k</text>')
    step = 0.05 if top - floor < 0.5 else 0.1
    for i in range(math.ceil(floor / step), math.floor(top / step) + 1):
        parts.append(f'<path d="M{left} {y(i * step):.1f}H{width - 20}" stroke="#ddd"/><text x="{left - 6}" '
                     f'y="{y(i * step) + 4:.1f}" text-anchor="end">{100 * i * step:.0f}%</text>')
    for name, (score, speed, memory) in sorted(points.items(), key=lambda item: (-item[1][2], item[0])):
        parts.append(f'<circle cx="{x(speed):.1f}" cy="{y(score):.1f}" r="{3 + 15 * math.sqrt(memory / most):.1f}" '
                     f'fill="#1f6feb" fill-opacity="0.3" stroke="#1f6feb"><title>{name}: {number(memory, "bytes")}</title></circle>')
        parts.append(f'<text x="{x(speed) + 5:.1f}" y="{y(score) - 5:.1f}">{name}</text>')
    parts.append(f'<text x="{width / 2}" y="{height - 8}" text-anchor="middle">training speed, tokens per second (geometric mean)</text>')
    parts.append(f'<text transform="translate(14 {height / 2}) rotate(-90)" text-anchor="middle">'
                 "accuracy over the most frequent class, share of what is to be gained</text></svg>")
    return "\n".join(parts) + "\n"


def by_length(folders):
    """The fastest training at each length of table-7, and what it needs beside softmax."""
    speeds = [f for f in folders if f.study == "table-7"]
    if not speeds:
        return []
    folder = max(speeds, key=lambda f: (f.on_card, not f.choices["quick"]))
    cells = {(c["row"], c["column"]): c for c in folder.results["results"] if c["mean"] is not None}
    rows = []
    for column in dict.fromkeys(column for _, column in cells):
        if column.startswith("training") and "steps/s" in column:
            order = sorted((c["mean"], r) for (r, n), c in cells.items() if n == column)[::-1]
            whole = cells.get(("Transformer", column))
            rows.append([column.split()[1], ", ".join(f"{r} ({number(v, 'number')})" for v, r in order[:3]),
                         number(whole["mean"], "number") if whole else "-"])
    return [f"From [table-7](table-7.md), on {folder.where}; training steps per second:", "",
            *table(["length", "fastest three", "Transformer"], rows)]


def by_text(folders):
    """Language models of table-4, the best first; a column's runs had the same steps, and shared the machine alike."""
    texts = [f for f in folders if f.study == "table-4"]
    if not texts:
        return []
    folder = max(texts, key=lambda f: (f.on_card, not f.choices["quick"]))
    cells = [c for c in folder.results["results"] if c["value"] == "validation_perplexity" and c["mean"] is not None]
    cells.sort(key=lambda c: c["mean"])
    return ["## For text", "", f"Language models of [table-4](table-4.md), {cells[0]['budget']} each, on {folder.where}:", "",
            *table(["model", "perplexity", "thousand tokens/s", "peak memory"],
                   [[c["row"], ours(c), f"{rate(c) / 1e3:,.0f}", number(c["peak_memory"], "bytes")] for c in cells])]


def which_page(folders, discussion, has_picture):
    tasks = arena_tasks(folders)
    lines = ["# Which attention?", "", "Answers from our own measurements: models of 2 layers of width 64 on the tasks of the "
             "Long-Range Arena, all of a task with the same steps. Accuracies within 2 points are taken for equal.", "",
             BEGIN, *([discussion.rstrip("\n")] if discussion else []), END, "", "## By task", "", *answers(tasks)]
    if has_picture:
        lines += ["![score against speed against memory](../pictures/which-attention.svg)", "",
                  "Up is better, right is faster, a small disc needs little memory. Means over the tasks above on which somebody is above chance; models "
                  "that ran all of them.", ""]
    speeds = by_length(folders)
    return "\n".join(lines + by_text(folders) + (["## By length", "", *speeds] if speeds else []))


def list_pages(out, folders):
    """Between its marks, README.md has a line for each page."""
    readme = out / "README.md"
    text = readme.read_text() if readme.exists() else ""
    if BEGIN_PAGES not in text:
        return
    head, rest = text.split(BEGIN_PAGES, 1)
    old, tail = rest.split(END_PAGES, 1)
    lines = dict(re.findall(r"^- \[(.*?)\]\(.*?\)(.*)$", old, re.MULTILINE))
    lines |= {f.study: f": {f.results['title']}" for f in folders}
    if (out / "which.md").exists():
        lines["which"] = ": which attention for which length and task, accuracy against speed against memory"
    names = sorted(lines, key=lambda n: (n != "which", [int(p) if p.isdigit() else p for p in re.split(r"(\d+)", n)]))
    readme.write_text(head + BEGIN_PAGES + "\n" + "".join(f"- [{n}]({n}.md){lines[n]}\n" for n in names) + END_PAGES + tail)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="*", help="folders to add; none: the pages are made anew")
    parser.add_argument("--out", type=Path, default=Path("docs/reproduce"))
    parser.add_argument("--fovea", help="program that writes the reports anew first")
    arguments = parser.parse_args()
    keep_numbers(arguments.runs, arguments.fovea, arguments.out / "numbers")
    folders = kept_numbers(arguments.out / "numbers")
    if not folders:
        sys.exit("no folder there, and none before, has a finished cell of fovea reproduce")
    for study in sorted({f.study for f in folders}):
        page = arguments.out / f"{study}.md"
        page.write_text(page_text([f for f in folders if f.study == study], kept(page)))
        print(page)
    points = standings(arena_tasks(folders))
    if points:
        (arguments.out.parent / "pictures" / "which-attention.svg").write_text(picture(points))
    if arena_tasks(folders) or by_length(folders):
        which = arguments.out / "which.md"
        which.write_text(which_page(folders, kept(which), bool(points)))
        print(which)
    list_pages(arguments.out, folders)


if __name__ == "__main__":
    main()
