#!/usr/bin/env python3
"""Races fovea against PyTorch on this machine's CPU; see `race.py --help`. bench/peers/run sets it up and starts it."""

import argparse
import sys
from pathlib import Path

import cases
import report
import rounds
from setting import MALLOC_RECYCLES, ROOT, openmp_libraries, setting_of


def parse(arguments):
    parser = argparse.ArgumentParser(
        prog="make peers ARGS=...",
        description="Compares results, then races fovea against the best of PyTorch. Exit code 1: a bar was missed.",
        epilog='examples: ARGS="--quick"   ARGS="--only \'softmax causal\' --only \'norm 2048\'"',
    )
    parser.add_argument("--only", action="append", default=[], metavar="WORDS", help="rows with all of these words")
    parser.add_argument("--quick", action="store_true", help="3 rounds; the ratios are rougher")
    parser.add_argument("--rounds", type=int, help="timed rounds of each row (7)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--list", action="store_true", help="print the rows and leave")
    parser.add_argument("--library", type=Path, default=ROOT / "build/release/lib/libfovea_peers.so")
    parser.add_argument("--out", type=Path, help="folder of bench-cpu.md and bench-cpu.json (docs after a full run)")
    options = parser.parse_args(arguments)
    if options.rounds is not None and options.rounds < 1:
        parser.error("--rounds must be at least 1")
    if options.threads < 1:
        parser.error("--threads must be at least 1")
    return options


def write_reports(folder, outcomes, setting):
    folder.mkdir(parents=True, exist_ok=True)
    stem = "bench-cpu-recycling" if setting["malloc"] == MALLOC_RECYCLES else "bench-cpu"
    texts = {f"{stem}.md": report.markdown(outcomes, setting), f"{stem}.json": report.json_text(outcomes, setting)}
    for name, text in texts.items():
        partial = folder / f".{name}.part"
        partial.write_text(text)
        partial.replace(folder / name)
    print(f"\nwrote {folder / stem}.md and {stem}.json", file=sys.stderr)


def start(options, timing):
    """Loads PyTorch, then fovea, which shares PyTorch's OpenMP threads."""
    if not options.library.exists():
        sys.exit(f"race: {options.library} is not there\n  try     make peers, which builds it")
    import torch

    import contest
    import fovea_side

    torch.set_num_threads(options.threads)
    fovea_side.fovea.set_num_threads(options.threads)
    library = fovea_side.Library(options.library, options.threads)
    if len(openmp_libraries()) > 1:
        print(f"race: two OpenMP runtimes in one process: {openmp_libraries()}", file=sys.stderr)
    return contest.Race(library, timing)


def run_rows(contest, rows):
    outcomes = []
    for i, row in enumerate(rows):
        print(f"[{i + 1}/{len(rows)}] {row.name}, {row.timed}", end="  ", file=sys.stderr, flush=True)
        outcomes.append(contest.outcome(row))
        last = outcomes[-1]
        print(last.error or f"{report.measure_text(last)} {last.verdict}", file=sys.stderr, flush=True)
        for form, why in last.refused.items():
            print(f"    left out: {form}, {why}", file=sys.stderr)
    return outcomes


def main(arguments):
    options = parse(arguments)
    rows = cases.select(cases.all_rows(), options.only)
    if not rows:
        sys.exit("race: no row has these words\n  try     --list")
    if options.list:
        print("\n".join(f"{row.name}, {row.timed}" for row in rows))
        return 0
    timing = rounds.Options(rounds=options.rounds or (3 if options.quick else 7))
    contest = start(options, timing)
    outcomes = run_rows(contest, rows)
    print("\n".join(["", *report.text_lines(outcomes), report.summary(outcomes)]))
    full = not (options.only or options.quick)
    command = "make peers" if full else "make peers ARGS=..."
    folder = options.out or (ROOT / "docs" if full else ROOT / "build/peers-partial")
    write_reports(folder, outcomes, setting_of(options, timing, contest.anchor, command))
    return 1 if any(o.failed for o in outcomes) else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        print("\nrace: stopped; nothing was written", file=sys.stderr)
        sys.exit(130)
