#!/usr/bin/env python3
"""Times every mechanism on a card beside PyTorch's best form of it, in one run, and writes OUT.md and OUT.json.

Every number is the median of CUDA events around whole calls on random bf16 data in rotating buffers; forms of PyTorch are compiled
beforehand by processes of their own, which also measure how far every side is from the definition in double.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import report  # noqa: E402
import rows  # noqa: E402
import torch  # noqa: E402
from clock import Budget, Sets, backward_ms, forward_ms  # noqa: E402
from sides import errors, heads_first, inputs_of, ours, weights_of  # noqa: E402

SLOWEST = 700.0  # ms: what would take longer is left out
WORKERS = 8


def key_of(work):
    return f"{work.mechanism} {work.settings} {work.causal} {work.bias} {work.document} {work.dim}"


def function_of(peer, work):
    made = peer.make(work)
    return torch.compile(made, dynamic=False) if peer.compiled else made


def raced(only):
    """Every work that is timed beside PyTorch, once."""
    found = [(row.work, row.peers) for row in rows.rows_with_bars()]
    found += [(work, rows.PEERS.get(work.mechanism, ())) for work in rows.every_mechanism((rows.RACED,))]
    return [(work, peers) for work, peers in found if not only or work.mechanism in only]


def first_line(error):
    return str(error).strip().splitlines()[0][:160] if str(error).strip() else type(error).__name__


def pause():
    torch._dynamo.reset()  # PyTorch stops compiling a function that it has met in too many sizes
    torch.cuda.empty_cache()


class Measured:
    """Forward and backward of one side of a work, each a number of milliseconds or the reason why there is none."""

    def __init__(self, function, work, turned=False):
        make = lambda seed: inputs_of(work, seed)  # noqa: E731
        sets = Sets(lambda seed: heads_first(make(seed)) if turned else make(seed))
        kept = weights_of(work)[1]
        self.forward = attempt(lambda: forward_ms(function, sets, Budget()))
        too_long = isinstance(self.forward, float) and self.forward > SLOWEST / 2
        self.backward = "too long" if too_long else attempt(lambda: backward_ms(function, sets, Budget(), kept))


def attempt(measure):
    try:
        return measure()
    except Exception as error:  # noqa: BLE001: the table tells why a number is missing, and goes on
        return f"{type(error).__name__}: {first_line(error)}"


def best_peer(work, peers):
    """The least time of each pass, and whose it is."""
    found = {"forward": (None, ""), "backward": (None, "")}
    for peer in peers:
        side = attempt(lambda: Measured(function_of(peer, work), work, turned=True))
        for name in found:
            value = side if isinstance(side, str) else getattr(side, name)
            if isinstance(value, str):
                print(f"    {peer.name} {name}: {value}", flush=True)
            elif found[name][0] is None or value < found[name][0]:
                found[name] = (value, peer.name)
        pause()
    return found


def measure(work, peers, known):
    """One entry of the results."""
    side = attempt(lambda: Measured(ours(work), work))
    entry = {"mechanism": work.mechanism, "n": work.n, "batch": work.batch, "heads": work.heads, "dim": work.dim,
             "causal": work.causal, "errors": known.get(key_of(work), {})}
    peer = best_peer(work, peers)
    for name in ("forward", "backward"):
        value = side if isinstance(side, str) else getattr(side, name)
        entry[name] = {"fovea": value, "peer": peer[name][0], "peer_as": peer[name][1]}
    pause()
    return entry


def work_ahead(share, count, path, only):
    """A process that compiles its share of the forms into PyTorch's cache and measures errors."""
    mine = raced(only)[share::count]
    found = {}
    for work, peers in mine:
        if key_of(work) not in found:
            found[key_of(work)] = attempt(lambda: errors(work, peers))
            Path(path).write_text(json.dumps(found))
    for peer, work in [(peer, work) for work, peers in mine for peer in peers if peer.compiled]:
        reason = attempt(lambda: warm(peer, work))
        if reason is not None:
            print(work.mechanism, peer.name, reason, flush=True)
        pause()


def warm(peer, work):
    inputs = heads_first(inputs_of(work, 0))
    function, kept = function_of(peer, work), weights_of(work)[1]
    with torch.no_grad():
        function(inputs)
    once = Budget(0.0, 1, 1)
    backward_ms(function, Sets(lambda seed: inputs, count=1), once, kept)


def run_ahead(seconds, only, log):
    """All the workers; what they have found. What went wrong is in the log."""
    with tempfile.TemporaryDirectory() as folder, open(log, "w") as trouble:
        paths = [Path(folder) / f"{i}.json" for i in range(WORKERS)]
        commands = [[sys.executable, __file__, "--worker", f"{i}/{WORKERS}", "--out", path, "--only", ",".join(only)]
                    for i, path in enumerate(paths)]
        few_threads = {**os.environ, "OMP_NUM_THREADS": "2"}
        running = [subprocess.Popen(c, stdout=trouble, stderr=trouble, env=few_threads) for c in commands]
        end = time.perf_counter() + seconds
        for process in running:
            try:
                process.wait(max(0.1, end - time.perf_counter()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        found = {}
        for path in paths:
            found |= json.loads(path.read_text()) if path.exists() else {}
        return found


class Table:
    """The results, written after every row: a run that is cut short has its table."""

    def __init__(self, out, command):
        self.out = out
        self.all = {"setting": report.setting(command), "bars": [], "mechanisms": []}

    def add(self, part, entry):
        self.all[part].append(entry)
        print(report.line(entry), flush=True)
        Path(f"{self.out}.json").write_text(json.dumps(self.all, indent=1) + "\n")
        Path(f"{self.out}.md").write_text(report.markdown(self.all))


def grows_too_long(entries, work):
    """Would this length, from what a shorter one took, be beyond the limit?"""
    before = [e["forward"]["fovea"] for e in entries if e["mechanism"] == work.mechanism and e["n"] * 4 == work.n]
    return any(isinstance(t, str) or t * 4 > SLOWEST for t in before)


def main(options):
    only = frozenset(filter(None, options.only.split(",")))
    if options.worker:
        share, count = map(int, options.worker.split("/"))
        return work_ahead(share, count, options.out, only)
    end = time.perf_counter() + options.seconds
    table = Table(options.out, " ".join(["bench/gpu/table.py", *sys.argv[1:]]))
    known = {} if options.no_ahead else run_ahead(0.4 * options.seconds, only, f"{options.out}.log")
    for what, found in known.items():
        if isinstance(found, str):
            print(f"    {what}: {found}", flush=True)
    print(f"{len(known)} works held against the definition", flush=True)
    for row in rows.rows_with_bars():
        if (not only or row.work.mechanism in only) and time.perf_counter() < end:
            entry = measure(row.work, row.peers, known)
            table.add("bars", entry | {"name": row.name, "unit": row.unit, "bars": row.bars})
    for lengths in ((rows.RACED,), [n for n in rows.LENGTHS if n != rows.RACED]):
        for work in rows.every_mechanism(lengths):
            if (only and work.mechanism not in only) or time.perf_counter() >= end:
                continue
            if grows_too_long(table.all["mechanisms"], work):
                continue
            races = work.n == rows.RACED or work.mechanism == "softmax"
            table.add("mechanisms", measure(work, rows.PEERS.get(work.mechanism, ()) if races else (), known))
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=450.0, help="time for all of it; rows that do not fit are left out")
    parser.add_argument("--out", default="bench-gpu", help="path of the results, without .md and .json")
    parser.add_argument("--only", default="", help="mechanisms, separated by commas")
    parser.add_argument("--no-ahead", action="store_true", help="compile when a row needs it, and measure no errors")
    parser.add_argument("--worker", default="", help=argparse.SUPPRESS)
    warnings.filterwarnings("ignore")
    os.environ.setdefault("TORCH_LOGS", "-all")
    sys.exit(main(parser.parse_args()))
