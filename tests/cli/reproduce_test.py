"""Published tables: what there is, a small run of one, its files, going on, and what is refused."""

import json
import subprocess
import sys
import unittest
from pathlib import Path

from support import CliTest

ROOT = Path(__file__).resolve().parents[2]

# Cells that take less than a second.
TINY = ["--set", "data.train=40", "--set", "data.validation=10", "--set", "data.test=10", "--set", "model.width=16",
        "--set", "model.inner=16", "--set", "train.batch=4", "--set", "train.eval_every=2", "--threads", "1"]


class Reproduce(CliTest):
    def table(self, *more, out="t6", steps=4, seeds="2", rows="TransNormer T2,local only"):
        return ["reproduce", "table-6", "--quick", "--columns", "listops", "--rows", rows, "--seeds", seeds, "--steps", steps,
                "--out", out, *TINY, *more]

    def test_list(self):
        text = self.good("reproduce").stdout
        for name in ["table-1 ", "table-6 ", "table-13", "figure-2", "positions", "forecasts"]:
            self.assertIn(name, text)
        self.assertGreater(len(self.document("reproduce")), 20)

    def test_table_from_nothing_to_report(self):
        document = self.document(*self.table())
        self.assertEqual((document["cells_done"], document["cells"]), (4, 4))
        cell = next(c for c in document["results"] if c["row"] == "TransNormer T2")
        self.assertEqual((cell["published"], cell["seeds"], cell["full_budget"]), (0.416, 2, False))
        self.assertIn("4/50k steps", cell["budget"])
        self.assertIn("smaller", cell["budget"])
        for cost in ["parameters", "steps", "tokens", "seconds", "peak_memory"]:
            self.assertGreater(cell[cost], 0)
        self.assertTrue(0 <= document["most_frequent_class"]["ListOps"] <= 1)
        values = [json.loads((self.folder / f"t6/listops/local-only/seed-{seed}/outcome.json").read_text())
                  for seed in (1, 2)]
        mean = sum(v["value"] for o in values for v in o["values"] if v["name"] == "accuracy") / 2
        local = next(c for c in document["results"] if c["row"] == "local only")
        self.assertAlmostEqual(local["mean"], mean)
        page = (self.folder / "t6/report.html").read_text()
        for words in ["4/50k steps", "most frequent class", "paper", "--quick"]:
            self.assertIn(words, page)
        self.assertIn("t6/report.html", (self.folder / "index.html").read_text())
        self.assertEqual(len((self.folder / "t6/results.csv").read_text().splitlines()), 3)
        self.assertEqual(json.loads((self.folder / "t6/results.json").read_text()), document)

    def test_terminal_shows_paper_ours_difference_and_budget(self):
        text = self.good(*self.table(seeds="1")).stdout
        for word in ["paper", "ours", "difference", "budget", "41.6", "4/50k steps", "most frequent class"]:
            self.assertIn(word, text)

    def test_finished_cells_are_not_run_again(self):
        self.good(*self.table(seeds="1"))
        before = self.snapshot("t6/listops")
        more = self.good(*self.table(seeds="1,3", rows="TransNormer T2"))
        self.assertNotIn("seed 1:", more.stderr)
        self.assertIn("seed 3:", more.stderr)
        after = self.snapshot("t6/listops")
        self.assertEqual({name: after[name] for name in before}, before)

    def test_side_by_side_gives_the_same(self):
        alone = self.document(*self.table(out="alone"))
        together = self.document(*self.table("--jobs", "3", out="together"))
        for key in ["mean", "spread", "budget", "tokens", "parameters"]:
            self.assertEqual([c[key] for c in alone["results"]], [c[key] for c in together["results"]], key)

    def test_report_of_a_folder_from_elsewhere(self):
        document = self.document(*self.table("--set", "model.dtype=bf16"))
        (self.folder / "t6").rename(self.folder / "moved")
        for name in ["report.html", "results.json", "results.csv"]:
            (self.folder / "moved" / name).unlink()
        again = self.document("reproduce", "--report", "moved")
        self.assertEqual(again["choices"]["rows"], ["TransNormer T2", "local only"])
        self.assertEqual(again["results"], document["results"])
        self.assertTrue((self.folder / "moved/report.html").exists())
        self.bad(3, ["study.json", "--report"], "reproduce", "--report", "nowhere")
        for outcome in (self.folder / "moved").rglob("outcome.json"):
            outcome.unlink()
        self.bad(3, ["no cell of table-6 is finished"], "reproduce", "--report", "moved")

    def test_only_sizes_make_a_model_smaller(self):
        arguments = ["reproduce", "table-6", "--columns", "listops", "--rows", "local only", "--seeds", "1", "--steps", 1,
                     "--set", "data.train=40", "--set", "data.validation=10", "--set", "data.test=10", "--set", "train.batch=2",
                     "--threads", "1"]
        budgets = [self.document(*arguments, "--set", setting, "--out", f"run-{i}")["results"][0]["budget"]
                   for i, setting in enumerate(["model.dtype=bf16", "model.inner=32"])]
        self.assertEqual(budgets, ["1/50k steps", "1/50k steps, smaller"])

    def test_a_run_that_leaves_the_finite_numbers_is_an_outcome(self):
        self.put_wikitext()
        wild = ["train.lr=1000", "train.warmup=0", "train.clip_norm=0", "train.schedule=constant", "train.eval_every=1"]
        small = ["model.width=16", "model.inner=16", "train.batch=4"]
        document = self.document("reproduce", "table-1", "--quick", "--data", "sets", "--rows", "1 + elu w/o scaling", "--steps",
                                 6, "--parts", "--threads", "1", "--out", "t1", *(w for s in wild + small for w in ("--set", s)))
        self.assertEqual([(c["mean"], c["trouble"]) for c in document["results"]], [(None, "diverged")])

    def put_wikitext(self):
        data = self.folder / "sets/wikitext-2"
        data.mkdir(parents=True)
        for part in ["train", "valid", "test"]:
            (data / f"{part}.txt").write_text(" the cat sat on the mat . \n" * 200)

    def test_pages(self):
        self.good(*self.table())
        (self.folder / "docs/reproduce").mkdir(parents=True)
        (self.folder / "docs/pictures").mkdir()
        pages = [sys.executable, ROOT / "scripts/reproduce_pages.py", self.folder / "t6", "--out", self.folder / "docs/reproduce"]
        subprocess.run(pages, check=True, stdout=subprocess.DEVNULL)
        page = self.folder / "docs/reproduce/table-6.md"
        text = page.read_text()
        for words in ["| TransNormer T2 | 41.6 |", "4/50k steps, smaller", "most frequent class", "--columns listops", "--seeds 1,2"]:
            self.assertIn(words, text)
        self.assertIn("## By task", (self.folder / "docs/reproduce/which.md").read_text())
        page.write_text(text.replace("<!-- end -->", "What was missed.\n<!-- end -->"))
        subprocess.run(pages, check=True, stdout=subprocess.DEVNULL)
        self.assertIn("What was missed.", page.read_text())

    def test_another_s_page_is_left_alone(self):
        (self.folder / "index.html").write_text("mine")
        self.good(*self.table(seeds="1", rows="local only"))
        self.assertEqual((self.folder / "index.html").read_text(), "mine")

    def test_speed(self):
        document = self.document("reproduce", "table-7", "--quick", "--rows", "TransNormer T2", "--columns", "1k", "--steps", 1,
                                 "--threads", "1", "--out", "t7")
        for cell in document["results"]:
            self.assertGreater(cell["mean"], 0)
        self.bad(2, ["--jobs", "times are measured"], "reproduce", "table-7", "--quick", "--jobs", "2", "--out", "t7b")

    def test_language_model_and_tuning(self):
        self.put_wikitext()
        data = self.folder / "sets"
        (data / "glue/SST-2").mkdir(parents=True)
        for part in ["train", "dev"]:
            (data / f"glue/SST-2/{part}.tsv").write_text(
                "sentence\tlabel\n" + "".join(f"{'good' if i % 2 else 'bad'} film {i}\t{i % 2}\n" for i in range(40)))
        small = ["--set", "model.width=16", "--set", "model.inner=16", "--set", "train.batch=4", "--threads", "1", "--parts"]
        document = self.document("reproduce", "table-5", "--quick", "--data", data, "--rows", "Vanilla", "--steps", 3, "--out",
                                 "t5", *small)
        found = {c["column"]: c for c in document["results"]}
        self.assertGreater(found["pretraining"]["mean"], 1)
        self.assertTrue(0 <= found["SST-2"]["mean"] <= 1)
        self.assertNotIn("MRPC (F1)", found)  # it is not there, and said so
        self.assertIn("MRPC", (self.folder / "t5/report.html").read_text())


class BadInput(CliTest):
    def test_names(self):
        self.bad(2, ["tabel-6", '"table-6"?'], "reproduce", "tabel-6")
        self.bad(2, ["Performr", '"Performer"?'], "reproduce", "table-6", "--rows", "Performr")
        self.bad(2, ["Txt", '"Text"?'], "reproduce", "table-6", "--columns", "Txt")

    def test_seeds_that_are_not_numbers(self):
        for seeds in ["three", "1,x", "0", "2,2"]:
            self.bad(2, ["--seeds"], "reproduce", "table-6", "--seeds", seeds)
        self.assertFalse((self.folder / "runs").exists())

    def test_missing_data(self):
        self.bad(3, ["text needs IMDb", "train.tsv (33390335 bytes", "fb5475bb"], "reproduce", "table-6", "--columns", "text")
        self.bad(3, ['no folder "nowhere"', "--data"], "reproduce", "table-6", "--data", "nowhere")
        self.bad(3, ["nothing of table-1", "wikitext-2"], "reproduce", "table-1", "--data", "data")

    def test_half_copied_data(self):
        (self.folder / "sets/imdb").mkdir(parents=True)
        (self.folder / "sets/imdb/train.tsv").write_text("1\tgood\n0\tbad\n")
        words = ["train.tsv has 13 bytes of 33390335", "SHA-256 fb5475bb", "--parts"]
        self.bad(3, words, "reproduce", "table-6", "--columns", "text", "--data", "sets")
        self.bad(3, ["IMDb lacks test.tsv", "32608464"], *self.cut_to_names())
        self.assertFalse((self.folder / "runs").exists())

    def cut_to_names(self):
        (self.folder / "sets/imdb/train.tsv").rename(self.folder / "sets/imdb/train.tsv.xz")
        return ["reproduce", "table-6", "--columns", "text", "--data", "sets"]

    def test_changed_settings(self):
        arguments = ["reproduce", "table-6", "--quick", "--columns", "listops", "--rows", "local only", "--out", "t6", *TINY]
        self.good(*arguments, "--steps", 2)
        before = self.snapshot("t6")
        self.bad(2, ['"steps" was 2', "is 3", "another --out"], *arguments, "--steps", 3)
        self.bad(2, ['"set" was'], *arguments, "--steps", 2, "--set", "train.lr=1")
        self.assertEqual(self.snapshot("t6"), before)

    def test_folder_of_something_else(self):
        (self.folder / "mine").mkdir()
        (self.folder / "mine/notes.txt").write_text("mine")
        self.bad(2, ["mine", "not empty", "nothing is overwritten"], "reproduce", "table-13", "--out", "mine")
        self.good("reproduce", "table-6", "--quick", "--columns", "listops", "--rows", "local only", "--out", "t6", "--steps",
                  2, *TINY)
        self.bad(2, ["of table-6, not of table-7"], "reproduce", "table-7", "--out", "t6")
        self.bad(3, ["no table is run in", "study.json"], "reproduce", "--join", "mine")
        self.assertEqual(self.snapshot("mine"), {"notes.txt": b"mine"})

    def test_protocols_and_mechanisms_that_do_not_fit(self):
        self.bad(2, ['"skyforme"', '"skyformer"?'], "lra", "listops", "--protocol", "skyforme")
        self.bad(2, ["retnet", "bidirectional"], "lra", "listops", "--attention", "retnet", "--data", "data", "--steps", 1,
                 "--out", "run", "--set", "model.causal=false")


if __name__ == "__main__":
    unittest.main()
