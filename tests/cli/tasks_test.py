"""Every task from files to scores: train, evaluate, resume, on data small enough for seconds."""

import json
import math
import random
import struct
import unittest
import zlib

from support import CliTest

TINY = ["--set", "model.width=16", "--set", "model.heads=2", "--set", "model.inner=16", "--set", "model.dropout=0",
        "--set", "train.eval_every=0", "--set", "train.warmup=0", "--threads", "1", "--batch", "4"]
TINY_DECODER = ["--set", "model.decoder.width=16", "--set", "model.decoder.heads=2", "--set", "model.decoder.inner=16"]


def write_text(path):
    path.write_text("the cat sat on the mat.\n" * 60)


def write_pictures(folder):
    """Bright left or bright right halves, 8 x 8."""
    folder.mkdir()
    for name, count in [("train", 40), ("t10k", 10)]:
        images, labels = b"", b""
        for i in range(count):
            images += (bytes([200] * 4 + [10] * 4) if i % 2 else bytes([10] * 4 + [200] * 4)) * 8
            labels += bytes([i % 2])
        (folder / f"{name}-images-idx3-ubyte").write_bytes(struct.pack(">IIII", 2051, count, 8, 8) + images)
        (folder / f"{name}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 2049, count) + labels)


def write_png(path, size, colour):
    """One colour all over."""
    def chunk(name, content):
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    rows = (b"\0" + bytes(colour) * size) * size
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)) +
                     chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def write_captions(folder):
    """Squares of six colours, and what they are called."""
    folder.mkdir()
    colours = {"red": (255, 0, 0), "green": (0, 255, 0), "blue": (0, 0, 255), "white": (255, 255, 255),
               "black": (0, 0, 0), "yellow": (255, 255, 0)}
    for name, colour in colours.items():
        write_png(folder / f"{name}.png", 8, colour)
    lines = [f"{name}.png\tthe square is {name}\n" for name in colours]
    (folder / "train.captions").write_text("".join(lines * 4))
    for part in ["valid", "test"]:
        (folder / f"{part}.captions").write_text("".join(lines))


def write_parallel(folder):
    folder.mkdir()
    words = {"ein": "a", "hund": "dog", "haus": "house", "sieht": "sees", "das": "the"}
    generator = random.Random(1)
    for part, count in [("train", 40), ("val", 8), ("test_2016_flickr", 8)]:
        rows = [[generator.choice(list(words)) for _ in range(generator.randint(1, 5))] for _ in range(count)]
        (folder / f"{part}.de").write_text("".join(" ".join(row) + "\n" for row in rows))
        (folder / f"{part}.en").write_text("".join(" ".join(words[w] for w in row) + "\n" for row in rows))


def write_labels(folder):
    folder.mkdir()
    for part, count in [("train", 40), ("test", 10)]:
        lines = [f"{i % 2}\t{'good' if i % 2 else 'bad'} film number {i}\n" for i in range(count)]
        (folder / f"{part}.tsv").write_text("".join(lines))


def write_pairs(folder):
    folder.mkdir()
    (folder / "papers.tsv").write_text("".join(f"P{i}\t{'abc'[i % 3] * 9}\n" for i in range(9)))
    for part, count in [("train", 30), ("valid", 6), ("test", 6)]:
        lines = [f"{int(i % 3 == i * 2 % 3)}\tP{i % 9}\tP{i * 2 % 9}\n" for i in range(count)]
        (folder / f"pairs.{part}.tsv").write_text("".join(lines))


def write_series(path):
    rows = [f"2016-{1 + i // 672:02d}-{1 + i // 24 % 28:02d} {i % 24:02d}:00:00,{i % 24},{math.sin(i / 4):.6f}\n"
            for i in range(400)]
    path.write_text("date,hour,OT\n" + "".join(rows))


class Tasks(CliTest):
    def run_task(self, data, *more, steps=6, lr="1e-2"):
        return self.document("train", "--data", data, "--steps", steps, "--lr", lr, "--out", "run", *TINY, *more)

    def check_resume(self, *more):
        """A run of 3 + 3 steps is the run of 6 steps, to the last bit; scores come out of eval."""
        first = self.folder / "run/last/model.safetensors"
        whole = first.read_bytes()
        settings = json.loads((self.folder / "run/run.json").read_text())
        settings["train"]["steps"], settings["train"]["out"] = 3, ""
        (self.folder / "half.json").write_text(json.dumps(settings))
        self.good("train", "--config", "half.json", "--out", "half", "--threads", "1")
        self.good("train", "--resume", "half", "--steps", "6", "--threads", "1")
        self.assertEqual((self.folder / "half/last/model.safetensors").read_bytes(), whole)
        return self.document("eval", "run", "--split", "validation")

    def test_language_model(self):
        write_text(self.folder / "input.txt")
        result = self.run_task("input.txt", "--attention", "norm", "--set", "data.length=32",
                               "--set", "train.schedule=constant", steps=40)
        self.assertEqual((result["task"], result["name"]), ("lm", "gpt norm"))
        self.assertLess(result["loss"], 2.2)
        settings = json.loads((self.folder / "run/run.json").read_text())
        self.assertEqual((settings["preset"], settings["attention"], settings["model"]["layers"][0]),
                         ("gpt", "norm", "norm"))
        self.assertTrue((self.folder / "run/best/tokenizer.json").exists())
        scores = self.document("eval", "run")
        self.assertAlmostEqual(scores["loss"], result["loss"], places=5)
        self.assertAlmostEqual(scores["perplexity"], math.exp(scores["loss"]), places=5)
        self.assertAlmostEqual(scores["bits_per_character"], scores["loss"] / math.log(2), places=5)
        (self.folder / "other.txt").write_text("the mat sat. " * 40)
        self.assertGreater(self.document("eval", "run", "--data", "other.txt")["loss"], 0.1)

    def test_language_model_resumes(self):
        write_text(self.folder / "input.txt")
        self.run_task("input.txt", "--set", "data.length=32", "--set", "train.schedule=constant")
        self.check_resume()

    def test_masked_language_model(self):
        write_text(self.folder / "input.txt")
        result = self.run_task("input.txt", "--model", "roberta", "--set", "data.length=32",
                               "--set", "train.schedule=constant")
        self.assertEqual(result["task"], "mlm")
        self.assertIn("perplexity", self.check_resume())

    def test_translation(self):
        write_parallel(self.folder / "de-en")
        result = self.run_task("de-en", *TINY_DECODER, "--set", "data.vocabulary=280",
                               "--set", "train.schedule=constant")
        self.assertEqual((result["task"], result["name"]), ("seq2seq", "seq2seq"))
        self.assertIn("perplexity", self.check_resume())
        self.assertTrue((self.folder / "run/last/tokenizer.json").exists())

    def test_pictures_with_texts(self):
        write_captions(self.folder / "colours")
        more = ["--set", "data.vocabulary=280", "--set", "train.schedule=constant"]
        result = self.run_task("colours", *more, steps=200, lr="1e-3")
        self.assertEqual((result["task"], result["name"]), ("image_text", "clip"))
        self.assertGreater(result["accuracy"], 0.9)
        self.good("train", "--model", "clip-cross", "--data", "colours", "--steps", "2", "--out", "cross", *TINY, *more)

    def test_pictures_with_texts_resume(self):
        write_captions(self.folder / "colours")
        self.run_task("colours", "--set", "data.vocabulary=280", "--set", "train.schedule=constant")
        self.assertIn("accuracy", self.check_resume())

    def test_pictures_resume(self):
        write_pictures(self.folder / "halves")
        self.run_task("halves", "--set", "train.schedule=constant", "--set", "data.shift=1")
        self.assertIn("accuracy", self.check_resume())

    def test_pictures(self):
        write_pictures(self.folder / "halves")
        result = self.run_task("halves", "--set", "train.schedule=constant", steps=100, lr="3e-3")
        self.assertEqual((result["task"], result["name"]), ("vision", "vit"))
        self.assertEqual(result["accuracy"], 1.0)
        self.assertEqual(len(json.loads((self.folder / "run/run.json").read_text())["data"]["mean"]), 1)
        text = self.good("eval", "run").stdout
        self.assertIn("accuracy 100.00%", text)

    def test_pictures_as_pixels(self):
        write_pictures(self.folder / "halves")
        result = self.run_task("halves", "--attention", "transnormer-t2", "--set", "train.schedule=constant")
        self.assertEqual(result["task"], "classify")
        self.check_resume()

    def test_labelled_text(self):
        write_labels(self.folder / "films")
        result = self.run_task("films", "--attention", "norm", "--set", "train.schedule=constant")
        self.assertEqual(result["task"], "classify")
        self.assertIn("majority_share", self.check_resume())

    def test_pairs(self):
        write_pairs(self.folder / "papers")
        result = self.run_task("papers", "--attention", "norm", "--set", "train.schedule=constant")
        self.assertEqual(result["task"], "match")
        self.check_resume()

    def test_pairs_as_the_arena_has_them(self):
        """The same papers and pairs in its layout give the same run, bit for bit."""
        write_pairs(self.folder / "papers")
        texts = dict(line.split("\t") for line in (self.folder / "papers/papers.tsv").read_text().splitlines())
        (self.folder / "aan").mkdir()
        for part, name in [("train", "train"), ("valid", "eval"), ("test", "test")]:
            lines = [line.split("\t") for line in (self.folder / f"papers/pairs.{part}.tsv").read_text().splitlines()]
            rows = [f"{label}.0\t{a}\t{b}\t{texts[a]}\t{texts[b]}\n" for label, a, b in lines]
            (self.folder / f"aan/new_aan_pairs.{name}.tsv").write_text("".join(rows))
        self.run_task("papers", "--attention", "norm", "--set", "train.schedule=constant")
        expected = self.document("train", "--data", "aan", "--steps", 6, "--lr", "1e-2", "--out", "arena", *TINY, "--attention",
                                 "norm", "--set", "train.schedule=constant")
        self.assertEqual(expected["task"], "match")
        weights = [(self.folder / run / "last/model.safetensors").read_bytes() for run in ["run", "arena"]]
        self.assertEqual(*weights)
        (self.folder / "aan/new_aan_pairs.eval.tsv").write_text("1.0\tP1\tP2\tonly one text\n")
        self.bad(3, ["new_aan_pairs.eval.tsv:1", "two names and two texts"], "train", "--data", "aan", "--out", "bad")

    def test_series(self):
        write_series(self.folder / "wave.csv")
        windows = ["--set", "data.input_length=24", "--set", "data.label_length=12", "--set", "data.horizon=6"]
        result = self.run_task("wave.csv", *windows, *TINY_DECODER, "--set", "train.schedule=constant")
        self.assertEqual((result["task"], result["name"]), ("forecast", "informer-forecast"))
        scores = self.check_resume()
        self.assertGreater(scores["mse"], 0)
        self.assertGreater(scores["mae"], 0)
        self.assertIn("MSE", self.good("eval", "run").stdout)
        settings = json.loads((self.folder / "run/run.json").read_text())
        settings["data"]["deviation"] = [1e-30, 1e-30]  # errors whose squares are beyond every number of f32
        (self.folder / "run/run.json").write_text(json.dumps(settings))
        self.bad(3, ["not a finite number", "run/best"], "eval", "run")

    def test_table_has_the_columns_of_the_task(self):
        write_text(self.folder / "input.txt")
        text = self.good("train", "--data", "input.txt", "--steps", "3", "--out", "run", *TINY)
        self.assertIn("perplexity", text.stdout)
        self.assertNotIn("accuracy", text.stdout)
        self.assertIn("tokens/s", text.stderr)


class WrongData(CliTest):
    def test_model_and_data_of_different_tasks(self):
        write_text(self.folder / "input.txt")
        self.bad(2, ["vit is a model for vision", "--model gpt"], "train", "--model", "vit", "--data", "input.txt")
        self.bad(2, ["unknown model", '"gpt"?'], "train", "--model", "gtp", "--data", "input.txt")

    def test_damaged_files(self):
        write_pictures(self.folder / "halves")
        path = self.folder / "halves/train-images-idx3-ubyte"
        path.write_bytes(path.read_bytes()[:-1])
        self.bad(3, ["train-images-idx3-ubyte", "cut short"], "train", "--data", "halves")
        write_parallel(self.folder / "de-en")
        (self.folder / "de-en/train.en").write_text("one\n")
        self.bad(3, ["train.en", "1 lines"], "train", "--data", "de-en")
        huge = "\n".join(f"2016-07-{1 + i // 24:02} {i % 24:02}:00:00,1e308" for i in range(400))
        (self.folder / "h.csv").write_text("date,a\n" + huge + "\n")
        self.bad(3, ["h.csv", "column a", "large"], "train", "--data", "h.csv")
        (self.folder / "s.csv").write_text("date,a\n2016-07-01 00:00:00,1\n2016-07-01 01:00:00,nan\n")
        self.bad(3, ["s.csv:3", "nan"], "train", "--model", "gpt", "--data", "s.csv")
        self.assertFalse((self.folder / "runs").exists())

    def test_unknown_files(self):
        (self.folder / "strange").mkdir()
        self.bad(3, ["strange", "fovea list data"], "train", "--data", "strange")

    def test_resumed_with_other_data(self):
        write_text(self.folder / "input.txt")
        self.good("train", "--data", "input.txt", "--steps", "2", "--out", "run", *TINY)
        with open(self.folder / "input.txt", "a") as file:
            file.write("more.\n" * 20)
        self.bad(3, ["state.json", "data"], "train", "--resume", "run", "--steps", "4")


if __name__ == "__main__":
    unittest.main()
