"""What heads read and are worth: tables, files, JSON, and what is refused."""

import csv
import json
import unittest

from generate_test import LENGTH, write_model
from support import CliTest


class Inspect(CliTest):
    def setUp(self):
        super().setUp()
        write_model(self.folder / "model")

    def inspect(self, *more):
        return ["inspect", "model", "--prompt", "To be, or not to be", "--threads", "1", *more]

    def rows(self, path):
        with open(self.folder / path, newline="") as file:
            return list(csv.DictReader(file))

    def test_heads_are_weighed_and_taken_out(self):
        found = self.document(*self.inspect("--importance", "--prune", "--files", "files", "--out", "page.html"))
        self.assertEqual([(one["layer"], one["head"]) for one in found["importance"]], [(0, 0), (0, 1)])
        self.assertAlmostEqual(sum(one["by_gradient"] ** 2 for one in found["importance"]), 1, places=6)
        steps = found["pruning"]
        self.assertEqual([step["removed"] for step in steps], [0, 1])  # a layer keeps a head
        least = min(found["importance"], key=lambda one: one["by_ablation"])
        self.assertAlmostEqual(steps[1]["loss"] - steps[0]["loss"], least["by_ablation"], places=5)
        heads = self.rows("files/heads.csv")
        self.assertAlmostEqual(float(heads[1]["importance"]), found["importance"][1]["by_gradient"], places=6)
        self.assertEqual(len(self.rows("files/pruning.csv")), 2)
        for plot in ["importance", "loss-without", "pruning", "locality", "entropy"]:
            self.assertIn("<svg", (self.folder / f"files/{plot}.svg").read_text())
        for word in ["What heads are worth", "loss_without"]:
            self.assertIn(word, (self.folder / "page.html").read_text())

    def test_tags_of_words_tell_classes(self):
        words = ["To", "be", "or", "not", "to", "be"]
        lines = [f"{k}\t{word}\t_\t{'VERB' if word == 'be' else 'X'}\t_\t_\t{0 if k == 1 else 1}\tdep\t_\t_" for k, word in enumerate(words, 1)]
        (self.folder / "text.conllu").write_text("\n".join(lines * 2).replace("be\t_\tVERB\t_\t_\t1\tdep\t_\t_\n1\t", "be\t_\tVERB\t_\t_\t1\tdep\t_\t_\n\n1\t"))
        found = self.document("inspect", "model", "--tags", "text.conllu", "--files", "files", "--threads", "1")
        head = found["layers"][0]["heads"][0]
        self.assertEqual(head["tag"]["of"] in ("X", "VERB", "its own"), True)
        self.assertEqual(head["relation"]["of"], "dep")
        self.assertAlmostEqual(head["delimiters"]["baseline"], self.share_of_spaces("To be or not to be To be or not to be"), places=5)
        row = self.rows("files/heads.csv")[0]
        self.assertEqual(row["relation"], "dep")
        self.assertAlmostEqual(float(row["relation_rate"]), head["relation"]["share"], places=5)
        self.bad(2, "more than one thing", *self.inspect("--tags", "text.conllu", "--out", "x.html"))
        (self.folder / "text.conllu").write_text("not a table\n")
        self.bad(3, ["text.conllu:1", "CoNLL-U"], "inspect", "model", "--tags", "text.conllu", "--out", "x.html")

    @staticmethod
    def share_of_spaces(text):
        """Of what a causal row may read, the mean over rows."""
        return sum(text[:k + 1].count(" ") / (k + 1) for k in range(len(text))) / len(text)

    def test_all_layers_in_one_map(self):
        self.good(*self.inspect("--rollout", "--files", "files", "--out", "page.html"))
        whole = self.numbers("files/rollout.npy")
        for row in range(19):
            self.assertAlmostEqual(sum(whole[row * 19:(row + 1) * 19]), 1, places=5)
        self.assertGreater(whole[0], 0.99)
        self.assertTrue((self.folder / "files/rollout.png").exists())
        self.assertIn("attention rollout", (self.folder / "page.html").read_text())

    def test_tables_need_no_page(self):
        text = self.good(*self.inspect("--importance", "--prune")).stdout
        for word in ["importance", "loss without it", "layer 0 head 1", "heads taken out"]:
            self.assertIn(word, text)

    def test_other_mechanisms_are_measured_on_what_the_model_reads(self):
        found = self.document(*self.inspect("--approximation", "softmax,linear,window:left=2,right=0,gla", "--files", "files"))
        rows = found["approximation"]
        self.assertEqual(sorted({row["length"] for row in rows}), [2, 4, 9, 19])
        of = {(row["mechanism"], row["length"]): row for row in rows}
        self.assertEqual(of["softmax", 19]["output_error"], 0)
        self.assertEqual(of["softmax", 19]["top_agreement"], 1)
        self.assertAlmostEqual(of["window:left=2,right=0", 2]["output_error"], 0, places=6)  # all there is to read
        self.assertGreater(of["window:left=2,right=0", 19]["output_error"], 0.01)
        self.assertIsNone(of["gla", 19]["output_error"])
        self.assertIn("input of its layer", of["gla", 19]["reason"])
        self.assertEqual(len(self.rows("files/approximation.csv")), len(rows))

    def test_a_run_is_asked_on_its_own_data(self):
        self.good(*self.train(attention="softmax", steps=8))
        found = self.document("inspect", "run", "--importance", "--prune", "--examples", "8", "--threads", "1")
        self.assertEqual(len(found["importance"]), 4)
        self.assertTrue(all(0 <= step["accuracy"] <= 1 for step in found["pruning"]))
        self.assertEqual(found["pruning"][0]["accuracy"] * 8 % 1, 0)

    def test_layers_and_ids_are_counted_from_0(self):
        found = self.document("inspect", "model", "--tokens", "0,5,0,7", "--layers", "0", "--files", "files")
        self.assertEqual(len(found["layers"]), 1)
        self.assertEqual(len(self.rows("files/rows.csv")), 8)
        self.bad(2, ["layer 1", "1 attention layers"], "inspect", "model", "--prompt", "a", "--layers", "1", "--out", "x.html")
        self.bad(2, "--tokens", "inspect", "model", "--tokens", "1,b", "--out", "x.html")
        self.bad(2, "--tokens", "inspect", "model", "--tokens", "99999999999", "--out", "x.html")

    def test_any_part_of_a_map_is_exact(self):
        self.good(*self.inspect("--files", "files", "--exact", "0,1,5,19,2,9", "--exact", "0,0,0,1,0,1"))
        part, whole = self.numbers("files/rectangle-0-1-rows-5-19-keys-2-9.npy"), self.numbers("files/layer-0.npy")
        for row in range(14):
            for key in range(7):
                self.assertAlmostEqual(part[row * 7 + key], whole[(19 + row + 5) * 19 + key + 2], places=6)
        self.assertEqual(len(self.numbers("files/rectangle-0-0-rows-0-1-keys-0-1.npy")), 1)
        self.bad(2, ["six numbers", "--exact"], *self.inspect("--files", "more", "--exact", "1,2"))
        self.bad(2, "--files", *self.inspect("--out", "x.html", "--exact", "0,1,5,19,2,9"))
        self.bad(2, "outside of the map", *self.inspect("--files", "more", "--exact", "0,1,5,20,2,9"))

    def numbers(self, path):
        data = (self.folder / path).read_bytes()
        return memoryview(data[10 + int.from_bytes(data[8:10], "little"):]).cast("f")

    def test_nothing_is_written_over(self):
        (self.folder / "page.html").write_text("mine")
        self.bad(2, ["there is such a file", "--force"], *self.inspect("--out", "page.html"))
        self.assertEqual((self.folder / "page.html").read_text(), "mine")
        self.good(*self.inspect("--out", "page.html", "--force"))
        self.assertIn("<html", (self.folder / "page.html").read_text())
        self.bad(2, "something in that folder", *self.inspect("--files", "model"))
        self.assertEqual(self.fovea(*self.inspect("--out", "nowhere/page.html")).returncode, 1)

    def test_what_cannot_be_read_is_refused(self):
        self.bad(2, "where to write", *self.inspect())
        self.bad(3, [f"the model takes {LENGTH}"], "inspect", "model", "--prompt", "x" * (LENGTH + 1), "--out", "x.html")
        self.bad(2, "more than one thing", *self.inspect("--tokens", "1,2", "--out", "x.html"))
        self.bad(2, "nosuch", *self.inspect("--approximation", "nosuch"))
        self.assertFalse((self.folder / "x.html").exists())

    def test_a_layer_without_a_map_is_named(self):
        self.good(*self.train(attention="long-short", steps=2))
        result = self.good("inspect", "run", "--out", "page.html", "--threads", "1")
        self.assertIn("has no map", result.stderr)
        self.assertIn("model.layers[0].attention", result.stderr)
        layers = json.loads(self.good("inspect", "run", "--out", "two.html", "--threads", "1", "--json").stdout)["layers"]
        self.assertEqual([layer["heads"] for layer in layers], [[], []])


if __name__ == "__main__":
    unittest.main()
