"""fovea train on several processes: the same as one, resumed by any number, and told by one rank when it fails."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

PROGRAM = os.environ.setdefault("FOVEA_PROGRAM", os.environ["FOVEA_MPI_PROGRAM"])
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "cli"))

from launch import command, environment, mpirun  # noqa: E402
from support import CliTest  # noqa: E402


class Training(CliTest):
    def on(self, ranks, *arguments):
        return mpirun(ranks, PROGRAM, *arguments, cwd=self.folder)

    def good_on(self, ranks, *arguments):
        result = self.on(ranks, *arguments)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result

    def refused(self, ranks, words, *arguments):
        result = self.on(ranks, *arguments)
        self.assertNotEqual(result.returncode, 0, result.stdout)
        self.assertEqual(result.stderr.count("fovea: "), 1, result.stderr)
        self.assertIn(words, result.stderr)
        return result

    def in_parts(self, out, *more):
        return self.train(out, "--set", "train.accumulation=4", "--set", "train.log_every=1", *more, steps=6)

    def losses(self, folder):
        with open(self.folder / folder / "metrics.csv") as file:
            return [float(row["loss"]) for row in csv.DictReader(file) if row["split"] == "train"]

    def assert_near(self, a, b):
        self.assertEqual(len(a), len(b))
        for x, y in zip(a, b):
            self.assertAlmostEqual(x, y, delta=2e-5 * abs(y))

    def test_ranks_train_as_one_does(self):
        self.good_on(1, *self.in_parts("one"))
        for ranks in 2, 4:
            result = self.good_on(ranks, *self.in_parts(f"on-{ranks}"), "--json")
            self.assertEqual(json.loads(result.stdout)["steps"], 6)  # one document, of one rank
            self.assert_near(self.losses(f"on-{ranks}"), self.losses("one"))

    def test_a_killed_run_goes_on_with_fewer_ranks(self):
        whole = self.train("whole", "--set", "train.accumulation=4", "--set", "train.log_every=1", steps=40)
        self.good_on(1, *whole)
        long = self.train("run", "--set", "train.log_every=1", "--set", "train.checkpoint_every=5", "--mesh", "data=4",
                          steps=40)
        run = subprocess.Popen(command(4, PROGRAM, *long), cwd=self.folder, env=environment(), text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        last = self.folder / "run" / "last" / "state.json"
        until = time.monotonic() + 60
        while not last.exists() and run.poll() is None and time.monotonic() < until:
            time.sleep(0.002)
        victims = subprocess.run(["ps", "-o", "pid=", "--ppid", str(run.pid)], capture_output=True, text=True)
        if run.poll() is None and victims.stdout.split():
            os.kill(int(victims.stdout.split()[-1]), signal.SIGKILL)
        run.communicate(timeout=60)
        for ranks in 2, 1:  # one that is finished already is left as it is
            self.good_on(ranks, "train", "--resume", "run")
        self.assert_near(self.losses("run"), self.losses("whole"))

    def test_errors_come_from_one_rank(self):
        self.refused(2, "a mesh of 3 x 1 = 3 ranks, but there are 2", *self.train(), "--mesh", "data=3")
        self.refused(2, "unknown axis \"rows\"", *self.train(), "--mesh", "rows=2")
        self.refused(2, "not split along the axis tensor yet", *self.train(), "--mesh", "tensor=2")
        self.refused(3, "a batch of 8 does not divide into 3 parts", *self.train())
        self.refused(2, "does not run on several ranks", "list")
        self.refused(2, "unknown option", "train", "--wrong")

    def test_settings_that_differ_are_named(self):
        per_rank = "exec \"$0\" \"$@\" --lr 0.00$((OMPI_COMM_WORLD_RANK + 1))"
        result = mpirun(2, "/bin/sh", "-c", per_rank, PROGRAM, *self.train(), cwd=self.folder)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn('rank 1 has "lr": 0.002, rank 0 has "lr": 0.001', result.stderr)

    def test_the_program_without_mpi_refuses_to_be_one_of_several(self):
        plain = os.environ["FOVEA_PLAIN_PROGRAM"]
        result = mpirun(2, plain, "list", cwd=self.folder)
        self.assertNotEqual(result.returncode, 0)
        self.assertEqual(result.stderr.count("fovea: "), 1, result.stderr)
        self.assertIn("started as 2 processes, but this program knows nothing of others", result.stderr)


if __name__ == "__main__":
    unittest.main()
