"""What a training run leaves for people: its page, lines of its log, scores with intervals."""

import json
import re
import unittest

from support import SMALL, CliTest


class Pages(CliTest):
    def test_a_classifier(self):
        lines = [f"{label}\tthe {word} is {label} today {i}" for i in range(30) for label, word in (("good", "cat"), ("bad", "dog"))]
        (self.folder / "words").mkdir()
        for part in ("train", "test"):
            (self.folder / f"words/{part}.tsv").write_text("\n".join(lines) + "\n")
        result = self.good("train", "--data", "words", "--attention", "norm", "--steps", 5, "--out", "run", *SMALL)
        self.assertIn("report: run/report.html", result.stderr)
        self.assertIn("next: fovea eval run", result.stderr)
        self.assertRegex(result.stdout, r"\d ± \d")
        page = (self.folder / "run/report.html").read_text()
        for word in ["What is taken for what", "given good", "the cat is good today", "metrics.csv", "Matthews", "fovea train --data words"]:
            self.assertIn(word, page)
        self.assertNotRegex(re.sub(r"http://www.w3.org/\S+", "", page), "https?://")
        self.assertTrue((self.folder / "run/loss.png").read_bytes().startswith(b"\x89PNG"))
        scores = self.document("eval", "run")
        right = re.search(r"accuracy ([\d.]+)% ± ([\d.]+)", self.good("eval", "run").stdout)
        self.assertAlmostEqual(float(right[2]), 100 * scores["accuracy_interval"], delta=0.051)
        self.assertTrue(-1 <= scores["matthews"] <= 1 and 0 <= scores["f1"] <= 1)

    def test_a_language_model(self):
        (self.folder / "a.txt").write_text("Once upon a time there was a cat. " * 100)
        self.good("train", "--model", "gpt", "--data", "a.txt", "--steps", 3, "--out", "run", "--set", "data.length=32", *SMALL,
                  "--set", "model.heads=2", "--set", "model.layers=softmax")
        page = (self.folder / "run/report.html").read_text()
        self.assertIn("Samples (temperature 0.8", page)
        self.assertIn("fovea generate run --prompt", page)

    def test_evaluations_are_lines_of_the_log(self):
        result = self.good(*self.train("run", "--set", "train.eval_every=2"))
        self.assertEqual(len(re.findall(r"step [24]: validation accuracy", result.stderr)), 2, result.stderr)

    def test_progress_as_json_lines(self):
        result = self.good(*self.train("run", "--set", "train.eval_every=2", "--json-lines"))
        events = [json.loads(line) for line in result.stderr.splitlines() if line.startswith("{")]
        self.assertEqual([e["step"] for e in events if e["event"] == "evaluation"], [2, 4])
        last = [e for e in events if e["event"] == "step"][-1]
        self.assertEqual((last["step"], last["progress"]), (4, 1.0))


class Pictures(CliTest):
    def test_without_cairo_pictures_are_svg(self):
        (self.folder / "none").mkdir()
        (self.folder / "none/libcairo.so.2").write_bytes(b"no library")
        self.good(*self.train("with", steps=2))
        self.good(*self.train("without", steps=2), env=self.environment(LD_LIBRARY_PATH=str(self.folder / "none")))
        self.assertEqual((self.folder / "with/loss.png").read_bytes()[:4], b"\x89PNG")
        self.assertFalse((self.folder / "without/loss.png").exists())
        self.assertTrue((self.folder / "without/loss.svg").read_text().startswith("<svg"))
        self.assertTrue((self.folder / "without/report.html").exists())


if __name__ == "__main__":
    unittest.main()
