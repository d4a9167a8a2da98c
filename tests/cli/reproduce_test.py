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
        # The numbers of a folder stay, and pages are made from all that are there.
        numbers = json.loads((self.folder / "docs/reproduce/numbers/t6.json").read_text())
        self.assertEqual(numbers["study"], "table-6")
        self.good(*self.table("--set", "train.lr=1e-3", out="other"))
        pages[2] = self.folder / "other"
        subprocess.run(pages, check=True, stdout=subprocess.DEVNULL)
        text = page.read_text()
        self.assertEqual(text.count("## In minutes, on cores"), 2)
        self.assertIn("--set train.lr=1e-3", text)
        subprocess.run(pages[:2] + pages[3:], check=True, stdout=subprocess.DEVNULL)
        self.assertEqual(page.read_text(), text)

    def test_pages_say_in_which_order_rows_stand(self):
        numbers = self.folder / "docs/reproduce/numbers"
        numbers.mkdir(parents=True)
        (self.folder / "docs/pictures").mkdir()
        cell = {"column": "perplexity", "value": "validation_perplexity", "quantity": "number", "best": "lowest", "budget": "full", "seeds": 3,
                "trouble": "", "parameters": 1, "steps": 1, "tokens": 1, "seconds": 1, "peak_memory": 1}
        rows = [("a", 1.0, 10.0, 0.1), ("b", 2.0, 11.0, 0.1), ("c", 3.0, 10.9, 0.5), ("d", None, 1.0, 0.1)]
        choices = {"quick": False, "parts": False, "rows": [], "columns": [], "seeds": [1, 2, 3], "steps": 0, "minutes": 0, "set": [], "data": ""}
        (numbers / "t1.json").write_text(json.dumps({
            "study": "table-1", "title": "T", "source": "S", "quick": False, "machine": "M", "date": "2026-01-01", "choices": choices,
            "token_frequencies": {"perplexity": 20.0},
            "results": [cell | {"row": r, "published": p, "mean": m, "spread": s} for r, p, m, s in rows]}))
        subprocess.run([sys.executable, ROOT / "scripts/reproduce_pages.py", "--out", numbers.parent], check=True, stdout=subprocess.DEVNULL)
        text = (numbers.parent / "table-1.md").read_text()
        self.assertIn("2 of 3 pairs of rows stand as in the paper; beyond the seeds' spread 2 as there, 0 the other way", text)
        self.assertIn("| token frequencies | - | 20.00 |", text)

    def test_a_task_of_few_models_does_not_say_which_is_best(self):
        numbers = self.folder / "docs/reproduce/numbers"
        numbers.mkdir(parents=True)
        (self.folder / "docs/pictures").mkdir()
        cell = {"value": "accuracy", "quantity": "percent", "best": "highest", "budget": "full", "seeds": 1, "spread": 0, "published": None,
                "trouble": "", "parameters": 1, "steps": 9, "tokens": 9, "seconds": 1, "peak_memory": 1, "mean": 0.6}
        ran = {"ListOps": "abcde", "Text": "abc", "Image": "ab"}
        choices = {"quick": False, "parts": False, "rows": [], "columns": [], "seeds": [1], "steps": 0, "minutes": 0, "set": [], "data": ""}
        (numbers / "t6.json").write_text(json.dumps({
            "study": "table-6", "title": "T", "source": "S", "quick": False, "machine": "M", "date": "2026-01-01", "choices": choices,
            "most_frequent_class": {column: 0.1 for column in ran},
            "results": [cell | {"row": row, "column": column} for column, rows in ran.items() for row in rows]}))
        subprocess.run([sys.executable, ROOT / "scripts/reproduce_pages.py", "--out", numbers.parent], check=True, stdout=subprocess.DEVNULL)
        text = (numbers.parent / "which.md").read_text()
        self.assertIn("| ListOps |", text)
        self.assertIn("| Text |", text)
        self.assertNotIn("| Image |", text)
        picture = (self.folder / "docs/pictures/which-attention.svg").read_text()
        self.assertEqual(picture.count("<circle"), 3)  # those that ran on both

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


    def test_rows_whose_names_have_commas(self):
        self.put_wikitext()
        small = ["model.width=16", "model.inner=16", "train.batch=2", "data.length=16", "train.eval_every=2"]
        document = self.document("reproduce", "table-3", "--quick", "--data", "sets", "--rows", "softmax, 1 + elu,1 + elu, softmax",
                                 "--steps", 2, "--parts", "--threads", "1", "--out", "t3", *(w for s in small for w in ("--set", s)))
        self.assertEqual([c["row"] for c in document["results"]], ["1 + elu, softmax", "softmax, 1 + elu"])
        # Nobody is judged without what token frequencies alone would give.
        self.assertGreater(document["token_frequencies"]["perplexity"], 1)
        self.assertIn("token frequencies", (self.folder / "t3/report.html").read_text())

    def test_self_pretraining(self):
        document = self.document("reproduce", "arena-modern", "--quick", "--columns", "ListOps, self-pretrained", "--rows", "Transformer",
                                 "--steps", 3, "--out", "modern", *TINY)
        found = {c["column"]: c for c in document["results"]}
        self.assertEqual(set(found), {"ListOps, its inputs (perplexity)", "ListOps, self-pretrained"})
        self.assertGreater(found["ListOps, its inputs (perplexity)"]["mean"], 1)
        self.assertTrue(0 <= found["ListOps, self-pretrained"]["mean"] <= 1)
        runs = [json.loads((self.folder / f"modern/{trial}/Transformer/seed-1/training/run.json").read_text())["model"]
                for trial in ["listops-inputs", "listops-pretrained"]]
        self.assertEqual([run["task"] for run in runs], ["mlm", "classify"])
        for name in ["vocabulary", "width", "layers", "positions", "placement"]:
            self.assertEqual(runs[0][name], runs[1][name], name)

    def test_a_row_that_cannot_be_run_is_shown(self):
        self.put_wikitext()
        small = ["model.width=16", "model.inner=16", "train.batch=2", "data.length=16", "train.eval_every=2"]
        document = self.document("reproduce", "table-12", "--quick", "--data", "sets", "--rows", "TransNormer,parallel", "--columns", "T2",
                                 "--steps", 2, "--parts", "--threads", "1", "--out", "t12", *(w for s in small for w in ("--set", s)))
        found = {c["row"]: c for c in document["results"]}
        self.assertEqual((found["parallel"]["mean"], found["parallel"]["published"]), (None, 3.82))
        self.assertEqual(found["parallel"]["trouble"], "a layer runs one mechanism")
        self.assertGreater(found["TransNormer"]["mean"], 1)
        self.assertEqual((document["cells_done"], document["cells"]), (1, 1))


class StandIn(CliTest):
    def test_is_labelled_and_never_beside_published_scores(self):
        data = self.folder / "papers"
        data.mkdir()
        (data / "papers.tsv").write_text("".join(f"P{i}\tpaper number {i}\n" for i in range(6)))
        for part in ["train", "valid", "test"]:
            (data / f"pairs.{part}.tsv").write_text("".join(f"{i % 2}\tP{i % 6}\tP{(i + 1) % 6}\n" for i in range(8)))
        document = self.document("lra", "retrieval", "--data", "papers", "--attention", "transformer,diag:block=8", "--steps", 2, "--out",
                                 "cmp", "--set", "model.width=16", "--set", "model.inner=16", "--batch", 2, "--threads", "1")
        self.assertTrue(document["stand_in"])
        page = (self.folder / "cmp/report.html").read_text()
        self.assertIn("a stand-in, not the arena", page)
        self.assertNotIn("Beside published scores", page)


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
