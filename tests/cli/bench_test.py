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


if __name__ == "__main__":
    unittest.main()
