"""Devices where there is no card: what a build for the CPU says of one, and what a build with CUDA says."""

import unittest

from support import CliTest


class Device(CliTest):
    def environment(self, **changes):
        return super().environment(CUDA_VISIBLE_DEVICES="", **changes)  # the same on a machine with a card

    def setUp(self):
        super().setUp()
        self.doctor = self.document("doctor")
        self.has_cuda = self.doctor["built"]["cuda"]

    def test_doctor_says_what_is_missing(self):
        self.assertEqual(self.doctor["cards"], [])
        shown = self.good("doctor").stdout
        if not self.has_cuda:
            return self.assertRegex(shown, r"not built +CUDA")
        self.assertRegex(shown, r"CUDA +kernels for [0-9a, ]+, runtime 1\d\.\d, driver ")
        self.assertRegex(shown, r"\((there is no driver|there is no card): running on the CPU\)")
        self.assertRegex(shown, r"products +cuBLASLt")

    def test_a_card_that_is_not_there_is_refused(self):
        says = "no CUDA: " if self.has_cuda else "this build has no backend for CUDA"
        self.good(*self.train("trained"))
        before = self.snapshot(".")
        for name in ["cuda", "cuda:3"]:
            for call in [self.train("run"), ["eval", "trained"], ["lra", "listops", "--steps", 1], ["bench", "attention"],
                         ["train", "--resume", "trained", "--steps", 9]]:
                self.bad(2, [says, "device", "--device cpu"], *call, "--device", name)
        self.assertEqual(self.snapshot("."), before)

    def test_auto_runs_on_the_cpu_and_says_so(self):
        result = self.good(*self.train("run"), "--device", "auto")
        self.assertEqual("running on the CPU" in result.stderr, self.has_cuda, result.stderr)
        here, auto = (self.document("eval", "run", "--device", name) for name in ["cpu", "auto"])
        self.assertEqual([auto["loss"], auto["accuracy"]], [here["loss"], here["accuracy"]])


if __name__ == "__main__":
    unittest.main()
