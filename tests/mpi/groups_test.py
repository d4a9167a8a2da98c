"""The laws of groups between processes, and how a fault of one rank ends all of them."""

import os
import time
import unittest

from launch import mpirun

RANKS = os.environ["FOVEA_MPI_RANKS"]


class Groups(unittest.TestCase):
    def test_laws(self):
        for ranks in 2, 3, 4:
            result = mpirun(ranks, RANKS)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_divided_sequences(self):
        for ranks in 2, 4:
            result = mpirun(ranks, os.environ["FOVEA_MPI_SEQUENCE"])
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def fault(self, kind, words, limit=60, seconds=30):
        start = time.monotonic()
        result = mpirun(3, RANKS, kind, limit)
        self.assertLess(time.monotonic() - start, seconds)
        self.assertNotEqual(result.returncode, 0)
        self.assertEqual(result.stderr.count("error: "), 1 if words else 0, result.stderr)
        self.assertIn(words, result.stderr)
        return result

    def test_a_rank_that_fails_is_named_once(self):
        self.fault("fails", "error: rank 2: no room\n  at      here\n  try     less")

    def test_an_error_of_all_is_told_once(self):
        self.fault("all", "wrong everywhere")

    def test_a_rank_that_stalls_is_named_in_time(self):
        self.fault("stalls", "error: rank 2 did not answer within 1 s", limit=1)

    def test_a_rank_that_dies_ends_all(self):
        self.assertIn("signal 9", self.fault("dies", "").stderr)


if __name__ == "__main__":
    unittest.main()
