#!/usr/bin/env python3
"""Races fovea against PyTorch on this machine's CPU; see `race.py --help`. bench/peers/run sets it up and starts it."""

import argparse
import gc
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import cases
import compare
import report
import rounds

ROOT = Path(__file__).resolve().parents[2]
SEED = 0
MALLOC_RECYCLES = "both sides recycle memory (PyTorch through malloc settings that bench/peers/run explains)"
MALLOC_AS_IS = "fovea recycles memory, PyTorch runs on malloc as it is"
TRAIN_SETTINGS = {"rate": 1e-3, "weight_decay": 0.1}


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


def attention_inputs(work):
    """q, k, v and the output's gradient (batch, n, heads, dim); a bias (1, heads, n, n) where there is one."""
    random = np.random.default_rng(SEED)
    shape = (work.batch, work.n, work.heads, work.dim)
    inputs = {name: random.standard_normal(shape, np.float32) for name in ("q", "k", "v", "grad")}
    if work.bias:
        inputs["bias"] = random.standard_normal((1, work.heads, work.n, work.n), np.float32)
    return inputs


def train_data(work):
    random = np.random.default_rng(SEED)
    ids = random.integers(0, work.vocabulary, (work.batch, work.n), np.int32)
    return {"ids": ids, "targets": random.integers(0, work.classes, work.batch, np.int32)}


def is_same_code(plain, compiled):
    return compiled.compiled and not plain.compiled and (plain.make, plain.args) == (compiled.make, compiled.args)


class Race:
    """Runs rows one after another and remembers the best anchor."""

    def __init__(self, library, timing):
        import fovea_side
        import torch_side

        self.library, self.timing = library, timing
        self.ours, self.theirs = fovea_side, torch_side
        self.anchor = rounds.Anchor(library.anchor)

    def outcome(self, row):
        result = report.Outcome(row.name, row.timed, row.bar)
        self.theirs.forget_compiled()
        try:
            prepare = self.train_sides if isinstance(row.work, cases.TrainStep) else self.attention_sides
            own, agreeing_peer = prepare(row)
            peers = self.agreeing_peers(row, agreeing_peer, result)
            self.time(row, own, peers, result)
            for side in (own, *peers.values()):
                side.close()
        except (compare.Disagreement, self.ours.FoveaError) as error:
            result.error = str(error)
        gc.collect()
        return result

    def attention_sides(self, row):
        """Our side, and what makes PyTorch's side of a form: the side and how far its results are from ours."""
        inputs = attention_inputs(row.work)
        own = self.ours.AttentionSide(self.library, row.work, inputs)
        results = own.results()

        def agreeing_peer(form):
            side = self.theirs.AttentionSide(form, row.work, inputs)
            return side, compare.attention_agrees(results, side, form.name, row.timed)

        return own, agreeing_peer

    def train_sides(self, row):
        """The same for a training step. It is compared without dropout, on models of its own."""
        data = train_data(row.work)

        def pair(form, work):
            own = self.ours.TrainSide(self.library, work, data, TRAIN_SETTINGS)
            return own, self.theirs.TrainSide(form, work, data, TRAIN_SETTINGS, own.parameters())

        def agreeing_peer(form):
            ours, theirs = pair(form, compare.without_dropout(row.work))
            difference = compare.train_agrees(ours, theirs, form.name)
            ours.close()
            ours, theirs = pair(form, row.work)
            ours.close()
            return theirs, difference

        return self.ours.TrainSide(self.library, row.work, data, TRAIN_SETTINGS), agreeing_peer

    def agreeing_peers(self, row, agreeing_peer, result):
        """Sides of PyTorch by name. A form that PyTorch itself refuses is noted and left out."""
        peers, result.difference = {}, 0.0
        for form in row.peers:
            try:
                peers[form.name], difference = agreeing_peer(form)
                result.difference = max(result.difference, difference)
            except compare.Disagreement as error:
                if not any(f.name in peers and is_same_code(f, form) for f in row.peers):
                    raise
                result.refused[form.name] = f"differs from the same code uncompiled, which agrees with fovea: {error}"
            except self.ours.FoveaError:
                raise
            except Exception as error:  # torch.compile alone raises a dozen kinds
                result.refused[form.name] = f"{type(error).__name__}: {error}".splitlines()[0]
        if not peers:
            raise compare.Disagreement(f"PyTorch ran none of its forms: {result.refused}")
        return peers

    def time(self, row, own, peers, result):
        us = rounds.Entry("fovea", lambda: own.run(row.timed), keep=True)
        rivals = [rounds.Entry(name, lambda side=side: side.run(row.timed)) for name, side in peers.items()]
        finalists, result.repeated = rounds.race([us, *rivals], self.anchor, self.timing)
        best = min((e for e in finalists if e is not us), key=lambda e: e.median)
        result.ours_ms, result.ours_spread_ms = 1e3 * us.median, 1e3 * us.spread
        result.peer, result.peer_ms, result.peer_spread_ms = best.name, 1e3 * best.median, 1e3 * best.spread
        result.others = {e.name: 1e3 * e.median for e in rivals if e is not best}


def processor():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or "unknown processor"


def openmp_libraries():
    """The OpenMP runtimes of this process. More than one means two pools of threads in each other's way."""
    paths = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines()}
    return sorted(Path(p).name for p in paths if "gomp" in Path(p).name or "iomp" in Path(p).name)


def fovea_version():
    text = (ROOT / "include/fovea/version.h").read_text()
    version = text.split('FOVEA_VERSION "')[1].split('"')[0]
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return f"{version} ({commit.stdout.strip()})" if commit.returncode == 0 else version


def setting_of(options, timing, anchor, command):
    import torch

    compiler = subprocess.run(["g++", "-dumpfullversion"], capture_output=True, text=True).stdout.strip()
    recycles = os.environ.get("MALLOC_MMAP_MAX_") == "0"
    return {
        "command": command,
        "date": time.strftime("%Y-%m-%d"),
        "machine": f"{processor()}, {os.cpu_count()} cores",
        "system": f"{platform.system()} {platform.machine()}",
        "threads": options.threads,
        "rounds": timing.rounds,
        "fovea": fovea_version(),
        "torch": f"{torch.__version__} (SDPA, eager, compile)",
        "numpy": np.__version__,
        "compiler": f"g++ {compiler}",
        "openmp": ", ".join(openmp_libraries()),
        "malloc": MALLOC_RECYCLES if recycles else MALLOC_AS_IS,
        "sgemm_gflops": f"{np.median(anchor.rates) / 1e9:.0f}" if anchor.rates else "",
    }


def write_reports(folder, outcomes, setting):
    folder.mkdir(parents=True, exist_ok=True)
    stem = "bench-cpu-recycling" if setting["malloc"] == MALLOC_RECYCLES else "bench-cpu"
    texts = {f"{stem}.md": report.markdown(outcomes, setting), f"{stem}.json": report.json_text(outcomes, setting)}
    for name, text in texts.items():
        partial = folder / f".{name}.part"
        partial.write_text(text)
        partial.replace(folder / name)
    print(f"\nwrote {folder / stem}.md and {stem}.json", file=sys.stderr)


def start(options):
    """Loads PyTorch, then fovea's library, which shares PyTorch's OpenMP threads."""
    if not options.library.exists():
        sys.exit(f"race: {options.library} is not there\n  try     make peers, which builds it")
    import torch

    import fovea_side

    torch.set_num_threads(options.threads)
    library = fovea_side.Library(options.library, options.threads)
    if len(openmp_libraries()) > 1:
        print(f"race: two OpenMP runtimes in one process: {openmp_libraries()}", file=sys.stderr)
    return library


def run_rows(contest, rows):
    outcomes = []
    for i, row in enumerate(rows):
        print(f"[{i + 1}/{len(rows)}] {row.name}, {row.timed}", end="  ", file=sys.stderr, flush=True)
        outcomes.append(contest.outcome(row))
        last = outcomes[-1]
        print(last.error or f"{report.ratio_text(last.ratio)} {last.verdict}", file=sys.stderr, flush=True)
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
    contest = Race(start(options), timing)
    outcomes = run_rows(contest, rows)
    print("\n".join(["", *report.table_lines(outcomes), "", report.summary(outcomes)]))
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
