"""Labelled texts as people have them: CSV, JSON lines, words as labels, one file or several."""

import csv
import json
import random
import unittest

from support import SMALL, CliTest

TEXTS = {"great": ["what a fine film", "lovely, \"truly\" lovely", "made me\nlaugh"], "awful": ["what a dull film", "boring, long", "asleep"]}


def rows(count, seed=1):
    generator = random.Random(seed)
    labels = [generator.choice(list(TEXTS)) for _ in range(count)]
    return [(label, f"{generator.choice(TEXTS[label])} {i}") for i, label in enumerate(labels)]


class Labels(CliTest):
    def train_on(self, data, *more, out="run"):
        return ["train", "--data", data, "--attention", "norm", "--steps", 3, "--out", out, *SMALL, *more]

    def write_csv(self, name, names=("sentiment", "review")):
        with (self.folder / name).open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["id", *names])
            writer.writerows((i, *row) for i, row in enumerate(rows(60)))

    def write_json(self, name, names=("sentiment", "review")):
        lines = [json.dumps(dict(zip(names, row))) for row in rows(60)]
        (self.folder / name).write_text("\n".join(lines) + "\n")

    def test_csv_and_json_lines_are_the_same_data(self):
        self.write_csv("reviews.csv")
        self.write_json("reviews.jsonl")
        (self.folder / "parts").mkdir()
        self.write_json("parts/train.jsonl")
        losses = []
        for data in ("reviews.csv", "reviews.jsonl", "parts"):
            result = self.good(*self.train_on(data, out=f"run-{data}"))
            self.assertIn("taken for labels", result.stderr)
            self.assertRegex(result.stderr, r"48 train, 6 test.* 2 classes")
            losses.append(json.loads((self.folder / f"run-{data}/result.json").read_text())["loss"])
        self.assertEqual(losses, losses[:1] * 3)

    def test_columns_by_name(self):
        self.write_csv("odd.csv", ("verdict", "words"))
        columns = ["--set", "data.label_column=verdict", "--set", "data.text_column=words"]
        self.good(*self.train_on("odd.csv", *columns))
        settings = json.loads((self.folder / "run/run.json").read_text())["data"]
        self.assertEqual((settings["kind"], settings["label_column"]), ("labels", "verdict"))
        self.good("eval", "run")
        self.bad(2, ['"verdct"', "--set data.label_column=verdict"], *self.train_on("odd.csv", "--set", "data.label_column=verdct",
                 "--set", "data.text_column=words", "--set", "data.kind=labels", out="x"))
        self.bad(2, ["id, verdict, words", "--set data.label_column=NAME"],
                 *self.train_on("odd.csv", "--set", "data.kind=labels", out="x"))

    def test_pairs(self):
        lines = [json.dumps({"premise": text, "hypothesis": text[::-1], "label": label}) for label, text in rows(60)]
        (self.folder / "pairs.jsonl").write_text("\n".join(lines) + "\n")
        self.assertIn("taken for pairs", self.good(*self.train_on("pairs.jsonl")).stderr)

    def test_what_is_wrong_is_named(self):
        self.write_json("a.jsonl")
        lines = (self.folder / "a.jsonl").read_text().splitlines()
        for line, word in [("{", "not JSON"), ("[1]", "an object"), ('{"sentiment": ["a"], "review": "b"}', "not a text")]:
            (self.folder / "b.jsonl").write_text("\n".join([*lines[:4], line]) + "\n")
            self.bad(3, ["b.jsonl", word], *self.train_on("b.jsonl", out="x"))
        (self.folder / "b.jsonl").write_text("\n".join([*lines[:4], '{"review": "b"}']) + "\n")
        self.bad(3, ["b.jsonl, row 5", '"sentiment" is empty'], *self.train_on("b.jsonl", out="x"))

    def test_a_csv_of_measurements_is_still_one(self):
        lines = ["date,a,b"] + [f"2020-01-{d:02d} {h:02d}:00:00,{d},{h}" for d in range(1, 29) for h in range(24)]
        (self.folder / "series.csv").write_text("\n".join(lines) + "\n")
        result = self.fovea("train", "--data", "series.csv", "--steps", 1, "--out", "run", "--threads", 1, "--set",
                            "model.width=16", "--set", "model.heads=2", "--set", "model.inner=16")
        self.assertIn("taken for series", result.stderr)


if __name__ == "__main__":
    unittest.main()
