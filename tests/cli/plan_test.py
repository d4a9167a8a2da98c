"""fovea plan: what a division of ranks takes, as a table and as a document; and what cannot be planned."""

import unittest

from support import CliTest

TINY = ["--set", "model.width=16", "--set", "model.heads=2", "--set", "model.inner=16", "--threads", 1]


class Plan(CliTest):
    def plan(self, *arguments):
        return self.document("plan", "gpt", *TINY, *arguments)

    def test_lists_every_division_the_best_first(self):
        plan = self.plan("--attention", "norm", "--length", 256, "--batch", 4, "--ranks", "1,4", "--link", "10GB/s,1us")
        meshes = [(m["ranks"], m["data"], m["sequence"]) for m in plan["meshes"]]
        self.assertEqual(sorted(meshes), [(1, 1, 1), (4, 1, 4), (4, 2, 2), (4, 4, 1)])
        self.assertEqual(plan["link"], {"bytes_per_second": 1e10, "latency": 1e-6})
        alone, *four = plan["meshes"]
        self.assertEqual(alone["received"], 0)
        self.assertEqual([m["seconds"] for m in four], sorted(m["seconds"] for m in four))
        by_mesh = {(m["data"], m["sequence"]): m for m in four}
        gradients = 2 * 0.75 * 4 * plan["parameters"]
        self.assertAlmostEqual(by_mesh[4, 1]["received"], gradients)
        # A state of 8 x 8 f64 for both heads of 2 and of 4 layers, there and back, from three others, of 4 examples.
        layers = (by_mesh[1, 4]["received"] - gradients) / (4 * 2 * 3 * 2 * 8 * 8 * 8)
        self.assertEqual(layers, round(layers))
        self.assertGreaterEqual(layers, 2)

    def test_marks_what_does_not_fit_and_divides_the_state(self):
        plan = self.plan("--attention", "norm", "--length", 64, "--batch", 2, "--ranks", 2, "--memory", "1KB",
                         "--link", "1GB/s,1us")
        self.assertTrue(all(not m["fits"] for m in plan["meshes"]))
        self.assertTrue(any(m["divide_state"] for m in plan["meshes"]))
        shown = self.good("plan", "gpt", *TINY, "--attention", "norm", "--length", 64, "--batch", 2, "--ranks", 2,
                          "--memory", "1KB")
        self.assertIn("no division fits", shown.stdout)
        self.assertIn("assumed", shown.stdout)
        self.assertTrue(all(len(line) <= 80 for line in shown.stdout.splitlines()), shown.stdout)

    def test_says_what_it_left_out_and_what_to_type(self):
        shown = self.good("plan", "reformer", *TINY, "--length", 64, "--batch", 2, "--ranks", 2)
        self.assertIn("left out: sequence: reformer", shown.stdout)
        self.assertIn("--mesh data=2", shown.stdout)

    def test_refuses_what_it_cannot_plan(self):
        self.bad(2, ["--link", "--link 25GB/s,5us"], "plan", "gpt", *TINY, "--link", "fast")
        self.bad(2, ["vision"], "plan", "vit", *TINY, "--length", 64)
        self.bad(2, ["--ranks"], "plan", "gpt", *TINY, "--ranks", "two")
        self.bad(2, ["transformer"], "plan", "transformr")
        self.bad(2, ["both name"], "plan", "norm", "--attention", "softmax")


if __name__ == "__main__":
    unittest.main()
