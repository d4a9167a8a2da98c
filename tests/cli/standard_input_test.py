"""--data -: what other programs send."""

import json
import subprocess
import tempfile
import unittest
from pathlib import Path

from support import PROGRAM, CliTest

TEXT = "Once upon a time there was a cat. The cat sat on the mat. " * 60
TINY = ["--set", "model.width=16", "--set", "model.heads=2", "--set", "model.inner=16", "--set", "model.layers=softmax",
        "--set", "data.length=32", "--batch", "8", "--threads", "1"]


class StandardInput(CliTest):
    def send(self, text, *arguments, code=0):
        with tempfile.TemporaryDirectory() as passing:
            result = subprocess.run([PROGRAM, *map(str, arguments)], cwd=self.folder, input=text, capture_output=True, text=True,
                                    env=self.environment(TMPDIR=passing), timeout=300)
            self.assertEqual(result.returncode, code, result.stdout + result.stderr)
            self.assertEqual(list(Path(passing).iterdir()), [], "what was kept for the while is gone")
        return result

    def test_a_text_trains_goes_on_and_is_measured(self):
        self.send(TEXT, "train", "--data", "-", "--steps", 3, "--out", "run", *TINY)
        self.assertEqual((self.folder / "run/stdin.txt").read_text(), TEXT)
        self.assertEqual(json.loads((self.folder / "run/run.json").read_text())["data"]["source"], "run/stdin.txt")
        self.good("train", "--resume", "run", "--steps", 5, "--threads", 1)
        own = self.document("eval", "run")["loss"]
        sent = json.loads(self.send(TEXT, "eval", "run", "--data", "-", "--json").stdout)["loss"]
        self.assertEqual(own, sent)

    def test_lines_of_json_and_columns_are_told(self):
        rows = [("good" if i % 3 else "bad", f"the {'cat' if i % 3 else 'dog'} sits {i}") for i in range(60)]
        lines = "".join(json.dumps({"label": label, "text": text}) + "\n" for label, text in rows)
        columns = "label\ttext\n" + "".join(f"{label}\t{text}\n" for label, text in rows)
        for name, text in (("jsonl", lines), ("tsv", columns)):
            self.send(text, "train", "--data", "-", "--steps", 2, "--out", name, "--batch", 8, "--threads", 1,
                      "--set", "model.width=16", "--set", "model.heads=2", "--set", "model.inner=16")
            settings = json.loads((self.folder / name / "run.json").read_text())
            self.assertEqual((settings["model"]["task"], settings["data"]["source"]), ("classify", f"{name}/stdin.{name}"))

    def test_other_verbs_read_it_too(self):
        self.send(TEXT, "tokenize", "train", "--data", "-", "--out", "tok", "--vocabulary", 270, "--threads", 1)
        ids = self.send(TEXT[:33], "tokenize", "encode", "--data", "-", "--tokenizer", "tok", "--out", "ids", "--threads", 1)
        self.assertIn("ids", ids.stdout + ids.stderr)
        sent = self.send("71 72 73\n", "tokenize", "decode", "--data", "-", "--tokenizer", "tok").stdout
        self.assertEqual(sent, self.good("tokenize", "decode", 71, 72, 73, "--tokenizer", "tok").stdout)
        self.assertGreater(len(sent.strip()), 2)

    def test_nothing_and_print_config(self):
        self.assertIn("nothing came in", self.send("", "train", "--data", "-", "--out", "run", code=3).stderr)
        shown = json.loads(self.send(TEXT, "train", "--data", "-", "--print-config", "--json").stdout)
        self.assertEqual(shown["data"]["source"], "-")
        self.assertFalse((self.folder / "run").exists())


if __name__ == "__main__":
    unittest.main()
