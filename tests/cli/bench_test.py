"""fovea bench and fovea_bench on sizes that take no time."""

import unittest

from support import CliTest


class Bench(CliTest):
    ARGUMENTS = ["bench", "attention", "--n", "32,64", "--heads", "2", "--dim", "16", "--rounds", "2", "--threads", "1"]

    def test_every_mechanism(self):
        document = self.document(*self.ARGUMENTS, "--backward")
        names = {m["name"] for m in self.document("list")["mechanisms"]}
        self.assertEqual({row["attention"] for row in document["rows"]}, names)
        self.assertEqual(len(document["rows"]), len(names) * 4)
        self.assertGreater(document["sgemm_gflops"], 0.1)
        for row in document["rows"]:
            self.assertGreater(row["seconds"], 0)
            self.assertGreater(row["gflops"], 0)
            self.assertGreater(row["peak_bytes"], 0)

    def test_report(self):
        table = self.good(*self.ARGUMENTS, "--attention", "softmax,norm", "--causal", "--out", "report")
        self.assertIn("of sgemm", table.stdout)
        self.assertLessEqual(max(map(len, table.stdout.splitlines())), 80)
        files = self.snapshot("report")
        for name in ["report.html", "bench.csv", "time-forward.png"]:
            self.assertIn(name, files)

    def test_dtypes(self):
        for dtype in ["bf16", "f16", "f64"]:
            rows = self.document(*self.ARGUMENTS, "--attention", "softmax,norm", "--dtype", dtype)["rows"]
            self.assertEqual(len(rows), 4)

    THREADS = ["bench", "threads", "--n", "128", "--heads", "2", "--dim", "16", "--rounds", "2", "--attention", "softmax,norm"]

    def test_threads(self):
        document = self.document(*self.THREADS, "--counts", "2,1")
        self.assertEqual(document["threads"], [1, 2])
        self.assertEqual([(row["name"], row["pass"]) for row in document["rows"]],
                         [(name, way) for name in ["softmax", "norm"] for way in ["forward", "backward"]])
        self.assertEqual([row["name"] for row in document["yardsticks"]], ["sgemm 2048^3", "copy of 64 MB"])
        for row in document["rows"] + document["yardsticks"]:
            one, two = row["seconds"]
            self.assertGreater(two, 0)
            self.assertAlmostEqual(row["gain"], one / two)
        sgemm = document["yardsticks"][0]
        self.assertAlmostEqual(sgemm["of_sgemm"], 1)

    def test_threads_report(self):
        table = self.good(*self.THREADS, "--counts", "1,2", "--out", "report")
        for word in ["2 threads", "gain", "sgemm's", "copy"]:
            self.assertIn(word, table.stdout)
        self.assertLessEqual(max(map(len, table.stdout.splitlines())), 80)
        files = self.snapshot("report")
        for name in ["report.html", "threads.csv", "gain-forward.png", "gain-backward.png"]:
            self.assertIn(name, files)

    def test_threads_to_compare(self):
        self.bad(2, ["one number of threads (3)", "--counts 1,2"], *self.THREADS, "--counts", "3")
        self.bad(2, ["at most 1024", "5000"], *self.THREADS, "--counts", "1,5000")


if __name__ == "__main__":
    unittest.main()
