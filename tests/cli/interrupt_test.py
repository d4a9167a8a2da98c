"""Runs that are stopped at random moments, by INT, TERM, HUP and KILL, and then go on: each must end as if nobody had
stopped it, bit for bit, and no exit may be a crash.

In the tests 20 rounds; as a soak, also on another machine (only this file, support.py and the program are needed):

    FOVEA_PROGRAM=build/release/bin/fovea python3 tests/cli/interrupt_test.py --rounds 1000 --jobs 8

It says first which program it stops. A failure names its round; --seed and --first repeat it. --minutes begins no round
later than that.
"""

import argparse
import concurrent.futures
import csv
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from support import PROGRAM, SMALL, write_data

ROUNDS, JOBS, SEED, FIRST, MINUTES = 20, 2, 0, 0, float("inf")
SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL]
CRASHES = ["please report", "corrupted", "free()", "malloc", "Sanitizer", "terminate called"]
MODEL = [word for word in SMALL if word not in ("--threads", "1")]
OFTEN = ["--set", "train.checkpoint_every=7", "--set", "train.eval_every=10", "--set", "train.log_every=3",
         "--set", "train.eval_examples=8"]
GENERATED = ["--set", "data.train=48", "--set", "data.validation=8", "--set", "data.test=8"]
CASES = {
    "train-read": ["train", "--attention", "softmax", "--data", "data", "--steps", "200", "--threads", "1"],
    "train-generated": ["train", "--data", "listops", "--attention", "transformer", "--steps", "24", "--threads", "2", *GENERATED],
    "lra-read": ["lra", "listops", "--attention", "norm,softmax", "--data", "data", "--steps", "90", "--threads", "2"],
    "lra-generated": ["lra", "listops", "--attention", "transformer,norm", "--steps", "12", "--threads", "2", *GENERATED],
}
MEASURED = {"other_load", "train_seconds", "eval_seconds", "input_seconds", "zones", "seconds", "peak_memory"}


class Failure(Exception):
    pass


def environment():
    clean = {k: v for k, v in os.environ.items() if not k.startswith("FOVEA_")}
    return {"OMP_WAIT_POLICY": "passive", **clean}


def program():
    """Which one is stopped, so that nobody spends hours on another."""
    version = subprocess.run([PROGRAM, "--version"], text=True, capture_output=True, check=True).stdout.strip()
    return f"{Path(PROGRAM).resolve()}: {version}"


def start(arguments, folder):
    return subprocess.Popen([PROGRAM, *arguments], cwd=folder, env=environment(), text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)


def finish(process, allowed, timeout=900):
    """Waits; gives the exit code and refuses every other way to end."""
    out, text = process.communicate(timeout=timeout)
    if process.returncode not in allowed or any(word in text + out for word in CRASHES):
        raise Failure(f"exit {process.returncode}, allowed {allowed}: {' '.join(process.args[1:])}\n{text[-2000:]}{out[-500:]}")
    return process.returncode


def runs_in(folder):
    return sorted(path.parent for path in folder.rglob("run.json"))


def at_work(process, out):
    """Does the process train in one of the folders? Their locks name it."""
    for run in runs_in(out):
        try:
            if (run / ".lock").read_text().startswith(f"process {process.pid} "):
                return True
        except FileNotFoundError:
            pass
    return False


def all_done(out):
    runs = runs_in(out)
    return bool(runs) and all((run / "result.json").exists() for run in runs)


def rows(path):
    """metrics.csv without what a clock decides."""
    with open(path, newline="") as file:
        return [{k: v for k, v in row.items() if not k.endswith(("_seconds", "_per_second"))} for row in csv.DictReader(file)]


def state_of(out):
    """All that must be the same in the end, by name."""
    state = {}
    for run in runs_in(out):
        name = run.relative_to(out)
        for file in ["last/model.safetensors", "last/optimizer.safetensors", "best/model.safetensors"]:
            state[f"{name}/{file}"] = (run / file).read_bytes()
        result = json.loads((run / "result.json").read_text())
        state[f"{name}/result"] = {k: v for k, v in result.items() if k not in MEASURED}
        state[f"{name}/metrics"] = rows(run / "metrics.csv")
        if result["peak_memory"] < 1000 or not sum(z["seconds"] for z in result["zones"]) > 0:
            raise Failure(f"{run}: nothing was measured: {result}")
    return state


def going_on(case, folder):
    """How to go on: resume what has begun, else start again."""
    verb = CASES[case][:2] if CASES[case][0] == "lra" else CASES[case][:1]
    mark = "comparison.json" if CASES[case][0] == "lra" else "run.json"
    threads = CASES[case][CASES[case].index("--threads"):][:2]
    if (folder / "out" / mark).exists():
        return [*verb, "--resume", "out", *threads]
    return [*CASES[case], "--out", "out", *MODEL, *OFTEN]


def make_folder(parent, name):
    folder = Path(parent) / name
    folder.mkdir()
    write_data(folder / "data")
    return folder


def straight(case, parent):
    """The run that nobody stops: its end, and how long it takes."""
    folder = make_folder(parent, case)
    begun = time.monotonic()
    finish(start(going_on(case, folder), folder), [0])
    return state_of(folder / "out"), time.monotonic() - begun


def stopped(case, expected, seconds, number, parent):
    """One round: stops now and then until a start is let through to the end."""
    random_ = random.Random(f"{SEED} {number}")
    folder = make_folder(parent, f"{case}-{number}")
    history = []
    while True:
        process = start(going_on(case, folder), folder)
        wanted = random_.choice(SIGNALS) if len(history) < random_.choice([1, 1, 2, 3]) else None
        history.append(wanted.name if wanted else "none")
        if wanted:
            time.sleep(random_.uniform(0, 1.1 * seconds))
            working = at_work(process, folder / "out")
            process.send_signal(wanted)
            code = finish(process, [0, 130, -wanted])
            # While it starts, and when all is done, there is nothing to save: the signal may simply end the program.
            if code == -wanted != -signal.SIGKILL and working and not all_done(folder / "out"):
                raise Failure(f"ended by {wanted.name} while it trained")
        else:
            code = finish(process, [0])
        if code == 0:
            break
    ended = state_of(folder / "out")
    different = [name for name in expected if ended.get(name) != expected[name]] + [n for n in ended if n not in expected]
    if different:
        raise Failure(f"{different} differ from those of a run that nobody stopped")
    shutil.rmtree(folder)
    return history


class Interrupts(unittest.TestCase):
    def test_every_stopped_run_ends_like_one_that_was_not(self):
        print(program(), file=sys.stderr)
        counts, rounds, end = {}, 0, time.monotonic() + 60 * MINUTES
        with tempfile.TemporaryDirectory() as parent, concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
            ends = {case: straight(case, parent) for case in CASES}

            def one(number):
                case = list(CASES)[number % len(CASES)]
                if time.monotonic() > end:
                    return []
                try:
                    return stopped(case, *ends[case], number, parent)
                except Failure as failure:
                    raise Failure(f"round {number} (--seed {SEED} --first {number} --rounds 1), {case}: {failure}") from None

            for history in pool.map(one, range(FIRST, FIRST + ROUNDS)):
                rounds += bool(history)
                for name in history:
                    counts[name] = counts.get(name, 0) + 1
        print(f"{rounds} rounds, starts ended by {counts}", file=sys.stderr)
        self.assertGreater(sum(counts.values()), rounds)
        self.assertGreater(rounds, 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--jobs", type=int, default=JOBS)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--first", type=int, default=FIRST)
    parser.add_argument("--minutes", type=float, default=MINUTES)
    options, rest = parser.parse_known_args()
    ROUNDS, JOBS, SEED, FIRST, MINUTES = options.rounds, options.jobs, options.seed, options.first, options.minutes
    unittest.main(argv=[sys.argv[0], *rest])
