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

from launch import MPIRUN, command, environment, mpirun  # noqa: E402
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

    def assert_near(self, a, b, tolerance=2e-5):
        self.assertEqual(len(a), len(b))
        for x, y in zip(a, b):
            self.assertAlmostEqual(x, y, delta=tolerance * abs(y))

    def test_doctor_names_what_carries_messages(self):
        self.assertRegex(self.good_on(1, "doctor").stdout, r"(?m)^built +CPU kernels.*MPI")

    def kill_one_of(self, ranks, arguments, checkpoint):
        """Starts a run, and kills one of its ranks when the first checkpoint is there."""
        run = subprocess.Popen(command(ranks, PROGRAM, *arguments), cwd=self.folder, env=environment(), text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.await_file(checkpoint, run)
        self.kill(self.children(run.pid)[-1:])
        run.communicate(timeout=60)

    def await_file(self, file, run):
        until = time.monotonic() + 60
        while not file.exists() and run.poll() is None and time.monotonic() < until:
            time.sleep(0.002)

    def children(self, process):
        found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(process)], capture_output=True, text=True)
        return [int(pid) for pid in found.stdout.split()]

    def kill(self, processes):
        for process in processes:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:  # it has ended
                pass

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
        self.kill_one_of(4, long, self.folder / "run" / "last" / "state.json")
        for ranks in 2, 1:  # one that is finished already is left as it is
            self.good_on(ranks, "train", "--resume", "run")
        self.assert_near(self.losses("run"), self.losses("whole"))

    def test_a_killed_mesh_goes_on_with_others(self):
        settings = "--set", "train.accumulation=4", "--set", "train.log_every=1"
        self.good_on(1, *self.train("whole", *settings, steps=30))
        long = self.train("run", *settings, "--set", "train.checkpoint_every=5", "--mesh", "data=2,sequence=2",
                          steps=30)
        self.kill_one_of(4, long, self.folder / "run" / "last" / "state.json")
        self.good_on(2, "train", "--resume", "run", "--mesh", "sequence=2")
        self.good_on(1, "train", "--resume", "run")  # nothing is left
        self.assert_near(self.losses("run"), self.losses("whole"), 1e-4)

    def go_on_after_a_kill(self, axis):
        """Kills one of two ranks of AXIS=2 and goes on with four, then one; the result of `eval` on two ranks and on one."""
        settings = "--set", "train.accumulation=4", "--set", "train.log_every=1"
        self.good_on(1, *self.train("whole", *settings, steps=30))
        long = self.train("run", *settings, "--set", "train.checkpoint_every=5", "--mesh", f"{axis}=2", steps=30)
        self.kill_one_of(2, long, self.folder / "run" / "last" / "state.json")
        self.good_on(4, "train", "--resume", "run", "--mesh", f"data=2,{axis}=2")
        self.good_on(1, "train", "--resume", "run")  # nothing is left
        self.assert_near(self.losses("run"), self.losses("whole"), 1e-4)
        divided = json.loads(self.good_on(2, "eval", "run", "--mesh", f"{axis}=2", "--json").stdout)
        alone = json.loads(self.good_on(1, "eval", "run", "--json").stdout)
        self.assertAlmostEqual(divided["loss"], alone["loss"], delta=1e-4)
        return divided, alone

    def test_killed_ranks_that_share_weights_go_on_on_another_mesh(self):
        self.go_on_after_a_kill("tensor")

    def test_killed_stages_go_on_on_another_mesh(self):
        staged, alone = self.go_on_after_a_kill("pipeline")
        self.assertEqual(staged.get("f1"), alone.get("f1"))

    def test_a_lost_rank_is_started_again(self):
        settings = "--set", "train.accumulation=2", "--set", "train.log_every=1"
        self.good_on(1, *self.train("whole", *settings, steps=30))
        long = self.train("run", *settings, "--set", "train.checkpoint_every=5", steps=30)
        machine = {"PATH": f"{Path(MPIRUN).parent}:{os.environ['PATH']}", "OMPI_MCA_btl": "self,vader",
                   "OMPI_MCA_btl_vader_single_copy_mechanism": "none"}
        run = subprocess.Popen([PROGRAM, *map(str, long), "--ranks", "2", "--mesh", "sequence=2", "--restarts", "2"],
                               cwd=self.folder, env={**environment(), **machine}, text=True, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
        self.await_file(self.folder / "run" / "last" / "state.json", run)
        launcher = self.children(run.pid)
        self.kill(self.children(launcher[0])[-1:] if launcher else [])
        out, said = run.communicate(timeout=120)
        self.assertEqual(run.returncode, 0, out + said)
        if "a rank was lost" in said:  # else it was too quick
            self.assertIn("run goes on with 2 ranks, restart 1 of 2", said)
        self.assert_near(self.losses("run"), self.losses("whole"), 1e-4)

    def test_errors_come_from_one_rank(self):
        self.refused(2, "a mesh of 3 x 1 x 1 x 1 = 3 ranks, but there are 2", *self.train(), "--mesh", "data=3")
        self.refused(2, "unknown axis \"rows\"", *self.train(), "--mesh", "rows=2")
        self.refused(3, "2 layers do not divide into 3 stages", *self.train(), "--mesh", "pipeline=3")
        self.refused(2, "2 layers do not divide into 4 stages", *self.train(), "--mesh", "pipeline=2",
                     "--pipeline-chunks", "2")
        self.refused(3, "2 heads with keys and values of 2 do not divide among 3 ranks", *self.train(), "--mesh",
                     "tensor=3")
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
