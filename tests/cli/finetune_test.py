"""Runs that begin with the weights of another model: --from, --freeze and --lora."""

import json
import random
import struct
import unittest

from models import ENCODER, bert, stories
from support import SMALL, CliTest

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

    def test_an_imported_bert_reads_pairs_as_one(self):
        bert(self.folder / "plain")
        self.good("import", "plain", "--out", "bert")
        generator = random.Random(4)
        (self.folder / "RTE").mkdir()
        for part, count in (("train", 160), ("dev", 40)):
            rows = ["index\tsentence1\tsentence2\tlabel\n"]
            for i in range(count):
                label = generator.choice(["good", "bad"])
                rows.append(f"{i}\tthe house sits\tthe {generator.choice(WORDS[label])} sits\t{label}\n")
            (self.folder / f"RTE/{part}.tsv").write_text("".join(rows))
        common = ["--data", "RTE", "--batch", 16, "--threads", 1, "--lr", "3e-3"]
        self.good("train", "--from", "bert", "--steps", 200, "--out", "run", *common)
        settings = json.loads((self.folder / "run/run.json").read_text())
        self.assertEqual((settings["model"]["task"], settings["model"]["types"], settings["data"]["joined"]), ("classify", 2, True))
        found = self.document("eval", "run")
        self.assertGreater(found["accuracy"], 0.9, found)
        before, after = tensors(self.folder / "bert/model.safetensors"), tensors(self.folder / "run/last/model.safetensors")
        self.assertNotEqual(before["embedding.types"], after["embedding.types"])
        self.assertIn("the house sits the ", (self.folder / "run/report.html").read_text())
        self.good("export", "run", "--out", "back")
        self.assertEqual(json.loads((self.folder / "back/config.json").read_text())["architectures"], ["BertForSequenceClassification"])
        self.good("train", "--from", "bert", "--steps", 2, "--out", "apart", "--set", "data.joined=false", *common)
        self.assertEqual(json.loads((self.folder / "apart/run.json").read_text())["model"]["task"], "match")
        self.good("train", "--from", "encoder", "--steps", 2, "--out", "vectors", *common)  # of sentences: one by one
        self.assertEqual(json.loads((self.folder / "vectors/run.json").read_text())["model"]["task"], "match")
        self.bad(2, ["no token to stand between", "data.joined=false"], "train", *common, "--steps", 2, "--set", "data.joined=true")

    def test_numbers_of_pairs_as_sts_b_has_them(self):
        generator = random.Random(3)
        head = "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n"
        (self.folder / "STS-B").mkdir()
        for part, count in (("train", 200), ("dev", 60)):
            rows = []
            for i in range(count):
                one, other = (generator.choice(["cat", "dog", "house"]) for _ in range(2))
                score = (4.5 if one == other else 0.75) + generator.choice([0.0, 0.25, 0.5])
                rows.append(f"{i}\tg\tf\t2012\t{i}\tnone\tnone\tthe {one} sits\tthe {other} sits\t{score:.3f}\n")
            (self.folder / f"STS-B/{part}.tsv").write_text(head + "".join(rows))
        result = self.good("train", "--from", "encoder", "--data", "STS-B", "--steps", 300, "--out", "run", "--batch", 16, "--threads", 1,
                           "--lr", "3e-3")
        self.assertIn("numbers (mean ", result.stderr)
        for word in ("Pearson", "Spearman", "MSE", "MAE"):
            self.assertIn(word, result.stdout)
        found = self.document("eval", "run")
        self.assertGreater(found["pearson"], 0.6, found)
        self.assertGreater(found["spearman"], 0.4, found)
        self.assertLess(found["mse"], 2.2, found)
        self.good("train", "--from", "encoder", "--data", "STS-B", "--steps", 1, "--lr", "1e-9", "--out", "begun", "--threads", 1)
        begun = self.document("eval", "begun")
        self.assertTrue(0.25 < begun["pearson"] < found["pearson"], begun)  # the head begins as a line through the products
        settings = json.loads((self.folder / "run/run.json").read_text())
        self.assertEqual((settings["model"]["task"], settings["model"]["pairs"]), ("regress", True))
        page = (self.folder / "run/report.html").read_text()
        for word in ("Given against right", "Furthest off", "Nearest", "the cat sits | the dog sits"):
            self.assertIn(word, page)
        again = self.good("train", "--from", "run", "--data", "STS-B", "--steps", 1, "--lr", "1e-9", "--out", "on", "--threads", 1)
        self.assertNotIn("new, and not in the folder", again.stderr)
        self.assertAlmostEqual(self.document("eval", "on")["pearson"], found["pearson"], places=4)
        rivals = self.good("compare", "--data", "STS-B", "--attention", "norm,softmax", "--steps", 3, "--out", "cmp", *SMALL)
        self.assertIn("Pearson", rivals.stdout)
        self.assertIn("Correlation against speed", (self.folder / "cmp/report.html").read_text())

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

    def test_a_file_of_llama2_c_goes_on(self):
        stories(self.folder)
        self.good("import", "stories260K.bin", "--out", "stories")
        (self.folder / "a.txt").write_text("Once upon a time there was a cat. The cat sat. " * 120)
        before = self.document("eval", "stories", "--data", "a.txt", "--set", "data.length=64")["loss"]
        for out, more in (("on", ["--lr", "1e-2"]), ("adapted", ["--lora", 4, "--lr", "3e-2"])):
            self.good("train", "--from", "stories", "--data", "a.txt", "--steps", 60, "--out", out, "--set", "data.length=64", "--threads", 1, *more)
            self.assertLess(self.document("eval", out)["loss"], 0.7 * before, (out, before))
        self.assertIn("Once", self.good("generate", "on", "--prompt", "Once", "--tokens", 20).stdout)


if __name__ == "__main__":
    unittest.main()
