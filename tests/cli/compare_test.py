"""fovea compare: several models with the same budget and several seeds, in one table and page."""

import csv
import json
import math
import re
import signal
import subprocess
import time
import unittest

from support import PROGRAM, SMALL, CliTest

WIDTH = 80


class Compare(CliTest):
    def compare(self, *more, attention="norm,diag:block=4"):
        return ["compare", "--data", "data", "--attention", attention, "--out", "cmp", *SMALL, *more]

    def rows(self, run, split):
        with open(self.folder / run / "metrics.csv", newline="") as file:
            return [row for row in csv.DictReader(file) if row["split"] == split]

    def test_language_models_with_a_budget_of_tokens(self):
        (self.folder / "a.txt").write_text("Once upon a time there was a cat. " * 200)
        result = self.good("compare", "--model", "gpt", "--attention", "softmax,norm/diag:block=4", "--data", "a.txt", "--tokens", 3000,
                           "--out", "cmp", "--set", "data.length=32", "--set", "model.heads=2", *SMALL)
        self.assertLessEqual(max(map(len, result.stdout.splitlines())), WIDTH, result.stdout)
        for word in ["softmax", "norm/diag:block=4", "perplexity", "bits/char", "tokens/s", "training", "parameters"]:
            self.assertIn(word, result.stdout)
        for run in ["softmax", "norm-diag-block-4"]:
            ended = json.loads((self.folder / "cmp" / run / "result.json").read_text())
            self.assertGreaterEqual(ended["tokens"], 3000)
            self.assertLess(ended["tokens"], 3000 + 8 * 32 + 1)
            evaluations = self.rows(f"cmp/{run}", "validation")
            self.assertEqual(len(evaluations), 10)
            self.assertGreaterEqual(int(evaluations[4]["tokens"]), 1500)
        layers = json.loads((self.folder / "cmp/norm-diag-block-4/run.json").read_text())["model"]["layers"]
        self.assertEqual(layers, ["norm", "diag:block=4"])
        page = (self.folder / "cmp/report.html").read_text()
        for word in ["3000 tokens", "Loss against speed", "Training loss by tokens", "Where the time of a step goes", "model.layers"]:
            self.assertIn(word, page)
        self.assertNotIn("most frequent", page)
        text = "Once upon a time there was a cat. "
        entropy = -sum(text.count(c) / len(text) * math.log(text.count(c) / len(text)) for c in set(text))
        self.assertAlmostEqual(self.document("compare", "--resume", "cmp")["frequency_loss"], entropy, delta=0.05)
        self.assertRegex(result.stdout, rf"(?m)^token frequencies +{entropy:.1f}")
        self.assertIn("token frequencies", page)

    def test_seeds_have_a_mean_and_a_spread(self):
        result = self.good(*self.compare("--steps", 6, "--seeds", "2,7"))
        self.assertRegex(result.stdout, r"over\s[^%]*seeds")
        self.assertLessEqual(max(map(len, result.stdout.splitlines())), WIDTH, result.stdout)
        with open(self.folder / "cmp/results.csv", newline="") as file:
            runs = list(csv.DictReader(file))
        self.assertEqual([(r["name"], r["seed"]) for r in runs], [("norm", "2"), ("norm", "7"), ("diag:block=4", "2"), ("diag:block=4", "7")])
        self.assertGreaterEqual(len(self.rows("cmp/norm/seed-2", "validation")), 5, "curves have points where steps end a run, too")
        document = self.document("compare", "--resume", "cmp")
        accuracies = [float(r["accuracy"]) for r in runs if r["name"] == "norm"]
        model = document["models"][0]
        self.assertAlmostEqual(model["accuracy"]["mean"], sum(accuracies) / 2)
        wilson = json.loads((self.folder / "cmp/norm/seed-2/result.json").read_text())["examples"]
        self.assertEqual(wilson, 16)
        self.assertGreater(model["accuracy"]["interval"], 0.1, "16 examples tell little")
        for word in ["seeds 2, 7", "Every run", "sample deviation", "peak rate", "batch 8"]:
            self.assertIn(word, (self.folder / "cmp/report.html").read_text())

    def test_time_is_a_budget_and_slow_models_have_points_too(self):
        self.good(*self.compare("--minutes", 0.02))
        for run in ["norm", "diag-block-4"]:
            seconds = [float(row["train_seconds"]) for row in self.rows(f"cmp/{run}", "validation")]
            self.assertGreaterEqual(len(seconds), 5)
            self.assertGreater(seconds[-1], 1.19)

    def test_an_interrupted_one_tells_what_it_has_and_goes_on(self):
        arguments = self.compare("--steps", 2000, "--set", "train.checkpoint_every=20", "--set", "train.eval_every=0")
        process = subprocess.Popen([PROGRAM, *map(str, arguments)], cwd=self.folder, env=self.environment(), text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        deadline = time.time() + 300
        while not (self.folder / "cmp/diag-block-4/last").exists() and process.poll() is None and time.time() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        table, text = process.communicate(timeout=300)
        self.assertEqual(process.returncode, 130, text)
        self.assertIn("fovea compare --resume cmp", text)
        self.assertIn("norm", table)
        self.assertIn("1 of 2 runs are finished", (self.folder / "cmp/report.html").read_text())
        before = self.snapshot("cmp/norm")
        self.bad(2, ["as it is", "--resume cmp"], "compare", "--resume", "cmp", "--steps", "9")
        results = self.document("compare", "--resume", "cmp", "--threads", "1")["results"]
        self.assertEqual([(r["name"], r["steps"]) for r in results], [("norm", 2000), ("diag:block=4", 2000)])
        self.assertEqual(self.snapshot("cmp/norm"), before)
        whole = self.snapshot("cmp")
        self.bad(2, ["not empty"], *self.compare("--steps", 3))
        self.assertEqual(self.snapshot("cmp"), whole)

    def test_commas_are_between_models_and_slashes_between_layers(self):
        self.bad(2, ["commas", '"diag*1/norm*1"', "fovea compare"], "train", "--attention", "diag*1,norm*1", "--data", "data")
        self.good(*self.train(attention="diag/norm"))
        layers = json.loads((self.folder / "run/run.json").read_text())["model"]["layers"]
        self.assertEqual(layers, ["diag", "norm"])

    def test_wrong_usage(self):
        self.bad(2, ["trained on", "fovea compare --data FILE"], "compare", "--attention", "softmax,norm")
        self.bad(2, ["nothing to compare", "softmax,norm"], "compare", "--data", "data")
        self.bad(2, ["twice", "--seeds 3"], *self.compare(attention="norm,norm"))
        self.bad(2, ['"nrm"', '"norm"?'], *self.compare(attention="softmax,nrm"))
        self.bad(2, ['"two"', "3 or 1,2,5"], *self.compare("--seeds", "two"))
        self.assertEqual([p.name for p in self.folder.iterdir()], ["data"])


class Arena(CliTest):
    def test_published_scores_and_lengths_stand_beside_ours(self):
        sizes = ["--set", "data.length=64", "--set", "data.train=64", "--set", "data.validation=16", "--set", "data.test=100"]
        result = self.good("lra", "listops", "--attention", "transformer,diag:block=8", "--steps", 4, "--out", "cmp", *SMALL, *sizes)
        self.assertIn("accuracy by length", result.stdout)
        page = (self.folder / "cmp/report.html").read_text()
        for word in ["Beside published scores", "38.4", "Qin et al. 2022", "Accuracy by length", "50k steps of 32"]:
            self.assertIn(word, page)
        groups = json.loads((self.folder / "cmp/transformer/result.json").read_text())["by_length"]
        self.assertEqual(sum(group["examples"] for group in groups), 100)
        self.assertTrue(all(a["to"] < b["from"] for a, b in zip(groups, groups[1:])), groups)
        right = sum(group["accuracy"] * group["examples"] for group in groups)
        scores = self.document("eval", "cmp/transformer")
        self.assertAlmostEqual(right, 100 * scores["accuracy"])
        self.assertTrue(re.search(r"transformer +\d", result.stdout))


if __name__ == "__main__":
    unittest.main()
