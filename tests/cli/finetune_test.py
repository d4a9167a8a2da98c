"""Runs that begin with the weights of another model: --from, --freeze and --lora."""

import json
import random
import struct
import unittest
from pathlib import Path

from support import CliTest

ENCODER = Path(__file__).resolve().parents[1] / "fixtures/pretrained/tiny-encoder"
WORDS = {"good": ["cat", "tree"], "bad": ["dog", "house"]}


def tensors(path):
    """Names and bytes of a safetensors file."""
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    head = json.loads(data[8:8 + size])
    return {name: data[8 + size + t["data_offsets"][0]:8 + size + t["data_offsets"][1]]
            for name, t in head.items() if name != "__metadata__"}


class FineTune(CliTest):
    def setUp(self):
        super().setUp()
        self.good("import", ENCODER, "--out", "encoder")
        generator = random.Random(1)
        (self.folder / "words").mkdir()
        lines = []
        for _ in range(120):
            label = generator.choice(["good", "bad"])
            lines.append(f"{label}\tthe {generator.choice(WORDS[label])} sits")
        for part, rows in (("train", lines[:90]), ("test", lines[90:])):
            (self.folder / f"words/{part}.tsv").write_text("\n".join(rows) + "\n")

    def tune(self, out, *more, steps=30):
        return ["train", "--from", "encoder", "--data", "words", "--steps", steps, "--out", out, "--batch", 16, "--threads", 1,
                *more]

    def test_an_encoder_becomes_a_classifier(self):
        result = self.good(*self.tune("run"))
        self.assertIn("new, and not in the folder: classifier", result.stderr)
        settings = json.loads((self.folder / "run/run.json").read_text())
        self.assertEqual(settings["model"]["task"], "classify")
        self.assertEqual(settings["model"]["classes"], 2)
        self.assertEqual(settings["train"]["rates"], ["classifier=10"])
        self.assertEqual(settings["train"]["out"], "run")
        before, after = tensors(self.folder / "encoder/model.safetensors"), tensors(self.folder / "run/last/model.safetensors")
        for name, stored in before.items():
            self.assertNotEqual(after[name], stored, name)
        self.good("eval", "run")

    def test_begins_where_the_other_ended(self):
        self.good(*self.tune("first", steps=40))
        trained = self.document("eval", "first/last", "--split", "train")["loss"]
        self.good("train", "--from", "first/last", "--data", "words", "--steps", 1, "--lr", "1e-9", "--out", "second",
                  "--threads", 1)
        self.assertAlmostEqual(self.document("eval", "second/last", "--split", "train")["loss"], trained, places=5)

    def test_frozen_parts_stay_and_others_move(self):
        self.good(*self.tune("run", "--freeze", "embedding,layers.0"))
        before, after = tensors(self.folder / "encoder/model.safetensors"), tensors(self.folder / "run/last/model.safetensors")
        for name in before:
            frozen = name.startswith(("embedding.", "layers.0."))
            self.assertEqual(before[name] == after[name], frozen, name)
        moments = tensors(self.folder / "run/last/optimizer.safetensors")
        self.assertFalse([name for name in moments if "embedding" in name])
        self.bad(2, ['"layer"', "embedding"], *self.tune("x", "--freeze", "layer"))
        self.bad(2, ["--from FOLDER"], "train", "--data", "words", "--freeze", "embedding")

    def test_a_run_with_a_start_goes_on_exactly(self):
        exact = ["--set", "train.schedule=constant", "--lora", 2]
        self.good(*self.tune("run", *exact, steps=4))
        self.good("train", "--resume", "run", "--steps", 9, "--threads", 1)
        self.good(*self.tune("straight", *exact, steps=9))
        for name in ["last/model.safetensors", "last/optimizer.safetensors"]:
            self.assertEqual((self.folder / "run" / name).read_bytes(), (self.folder / "straight" / name).read_bytes())

    def test_adapters_are_saved_apart(self):
        self.good(*self.tune("run", "--lora", 2, "--lr", "1e-3"))
        before, after = tensors(self.folder / "encoder/model.safetensors"), tensors(self.folder / "run/best/model.safetensors")
        for name, stored in before.items():
            if not name.startswith("classifier"):
                self.assertEqual(after[name], stored, name)
        adapter = tensors(self.folder / "run/adapter/adapter.safetensors")
        self.assertTrue(any(name.endswith("qkv.lora_in") for name in adapter))
        self.assertTrue(all("lora" in name or name.startswith("classifier") for name in adapter), adapter.keys())
        self.assertLess(sum(map(len, adapter.values())), sum(map(len, after.values())) / 2)
        losses = [self.document("eval", folder, "--data", "words")["loss"] for folder in ("run", "run/adapter")]
        self.assertEqual(*losses)
        (self.folder / "encoder").rename(self.folder / "elsewhere")
        self.bad(3, ["no such file or folder", "encoder", '"base"'], "eval", "run/adapter", "--data", "words")

    def test_what_does_not_fit_is_refused(self):
        self.bad(2, ["encode", "forecast"], "train", "--from", "encoder", "--data", self.series())
        self.bad(2, ["without --model"], *self.tune("x"), "--model", "gpt")
        self.bad(3, ["nowhere"], "train", "--from", "nowhere", "--data", "words")
        self.bad(2, ["--lora", "--from FOLDER"], "train", "--data", "words", "--lora", 2)
        self.bad(2, ['"classifier"', "PART=FACTOR"], *self.tune("x"), "--set", "train.rates=classifier")

    def test_glue_s_files_and_numbers(self):
        """SST-2's header, CoLA's four columns without one, RTE's pairs: trained on and measured by F1 and Matthews."""
        generator = random.Random(2)

        def rows(count, form):
            for i in range(count):
                label = generator.choice(["good", "bad"])
                yield form(i, f"the {generator.choice(WORDS[label])} sits", label == "good")

        forms = {
            "SST-2": ("sentence\tlabel\n", lambda i, text, good: f"{text}\t{int(good)}\n"),
            "CoLA": ("", lambda i, text, good: f"gj04\t{int(good)}\t\t{text}\n"),
            "RTE": ("index\tsentence1\tsentence2\tlabel\n",
                    lambda i, text, good: f"{i}\tthe cat sits\t{text}\t{'entailment' if good else 'not_entailment'}\n")}
        for task, (head, form) in forms.items():
            (self.folder / task).mkdir()
            for part, count in (("train", 120), ("dev", 40)):
                (self.folder / task / f"{part}.tsv").write_text(head + "".join(rows(count, form)))
            self.good("train", "--from", "encoder", "--data", task, "--steps", 200, "--out", f"run-{task}", "--batch", 16, "--threads", 1,
                      "--lr", "3e-3")
            found = self.document("eval", f"run-{task}")
            self.assertGreater(found["accuracy"], 0.9, (task, found))
            self.assertGreater(found["f1"], 0.9, (task, found))
            self.assertGreater(found["matthews"], 0.8, (task, found))

    def series(self):
        rows = ["date,a"] + [f"2020-01-{d:02d} {h:02d}:00:00,{d + h}" for d in range(1, 29) for h in range(24)]
        (self.folder / "series.csv").write_text("\n".join(rows) + "\n")
        return "series.csv"


class Stories(CliTest):
    """A language model of llama2.c's form, made here, goes on with other text."""

    def test_a_language_model_goes_on(self):
        text = "Once upon a time there was a cat. The cat sat. " * 120
        (self.folder / "a.txt").write_text(text)
        (self.folder / "b.txt").write_text(text.replace("cat", "dog"))
        small = ["--set", "model.width=32", "--set", "model.heads=2", "--set", "model.layers=softmax", "--set", "model.inner=32",
                 "--set", "data.length=32", "--threads", 1]
        self.good("train", "--model", "llama", "--data", "a.txt", "--steps", 300, "--out", "first", "--set", "model.kv_heads=1", *small)
        before = self.document("eval", "first", "--data", "b.txt", "--set", "data.length=32")["loss"]
        for out, more in (("second", ["--lr", "3e-3"]), ("third", ["--lora", 4, "--lr", "1e-2"])):
            result = self.good("train", "--from", "first", "--data", "b.txt", "--steps", 40, "--out", out, "--set", "data.length=32",
                               "--threads", 1, *more)
            self.assertEqual("new, and not in the folder" in result.stderr, "--lora" in more, result.stderr)
            self.assertLess(self.document("eval", out)["loss"], 0.8 * before, before)
        self.assertEqual((self.folder / "first/best/tokenizer.json").read_bytes(),
                         (self.folder / "second/best/tokenizer.json").read_bytes())
        self.good("generate", "third/adapter", "--prompt", "Once", "--tokens", 5)
        loss = self.document("eval", "third")["loss"]
        self.good("export", "third/adapter", "--out", "llama", "--format", "llama")  # merged
        self.good("import", "llama", "--out", "again")
        again = self.document("eval", "again", "--data", "b.txt", "--set", "data.length=32")["loss"]
        self.assertAlmostEqual(again, loss, places=4)


if __name__ == "__main__":
    unittest.main()
