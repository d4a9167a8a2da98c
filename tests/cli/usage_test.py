"""Grammar, help pages, lists and completion."""

import os
import re
import shutil
import signal
import subprocess
import sys
import unittest
from pathlib import Path

from support import PROGRAM, CliTest

VERBS = [["list"], ["show"], ["help"], ["doctor"], ["bench"], ["bench", "attention"], ["bench", "decode"], ["bench", "threads"], ["train"], ["eval"], ["generate"],
         ["import"], ["export"], ["embed"], ["compare"], ["lra"], ["lra", "listops"], ["lra", "all"], ["reproduce"], ["data"], ["data", "listops"], ["tokenize"],
         ["tokenize", "train"], ["tokenize", "encode"], ["tokenize", "text"], ["inspect"], ["completion"]]


class Help(CliTest):
    def test_every_page_starts_with_two_examples_and_fits_a_screen(self):
        for verb in [[], *VERBS]:
            page = self.good(*verb, "--help").stdout.splitlines()
            self.assertEqual(page[0], "examples", verb)
            self.assertEqual([line[:2] for line in page[1:3]], ["  ", "  "], verb)
            self.assertEqual(page[3], "", verb)
            self.assertLessEqual(len(page), 30, verb)
            self.assertLessEqual(max(map(len, page)), 80, verb)

    def test_main_page_names_verbs_and_exit_codes(self):
        page = self.good("--help").stdout
        for word in ["train", "eval", "lra", "reproduce", "bench", "list", "doctor", "data", "tokenize", "completion", "130 interrupted"]:
            self.assertIn(word, page)


class WrongUsage(CliTest):
    def test_no_verb(self):
        result = self.fovea()
        self.assertEqual(result.returncode, 2)
        self.assertIn("listops", result.stderr)
        self.assertEqual(result.stdout, "")

    def test_unknown_names_get_the_nearest_one(self):
        self.bad(2, ['"trian"', '"train"?'], "trian")
        self.bad(2, ['"atention"', '"attention"?'], "bench", "atention")
        self.bad(2, ['"--caual"', '"--causal"?'], "bench", "attention", "--caual")
        self.bad(2, ['"sofmax"', '"softmax"?'], "list", "sofmax")
        self.bad(2, ['"causl"', '"causal"?'], "list", "--with", "causl")
        self.bad(2, ['"transnormer-t3"', '"transnormer-t'], "train", "--attention", "transnormer-t3")
        self.bad(2, ["not \"dto\"", "softmax:score=dot "], "bench", "attention", "--attention", "softmax:score=dto")
        self.bad(2, ["scor", "softmax:score="], "bench", "attention", "--attention", "softmax:scor=dot")
        self.bad(2, ["block", "diag:block=64 "], "bench", "attention", "--attention", "diag:block=x")
        for given, wanted in [("width=64", "model.width=64"), ("model.widht=64", "model.width=64"), ("lr=1", "train.lr=1"),
                              ("model.norm=rmss", "model.norm=rms"), ("train.schedule=cosin", "train.schedule=cosine")]:
            self.bad(2, [f"at      --set {given.split('=')[0]}", f"try     --set {wanted}"], "show", "gpt", "--set", given)
        self.bad(2, ['got "wide"', "--set model.width=256 "], "show", "gpt", "--set", "model.width=wide")

    def test_values(self):
        self.bad(2, ["--n needs a value", "--n N"], "bench", "attention", "--n")
        self.bad(2, ["--heads", "number"], "bench", "attention", "--heads", "many")
        self.bad(2, ["--steps is given more than once", "--steps N"], "train", "--steps", "5", "--steps", "6")
        self.bad(2, ["folder is missing", "fovea eval runs/first"], "eval")
        self.bad(2, ["--out FOLDER is missing", "fovea data listops --out listops"], "data", "listops")
        self.bad(2, ["--heads", "between 1"], "bench", "attention", "--heads", "0")
        self.bad(2, ["--n", "1024,"], "bench", "attention", "--n", "1024,,4096")
        self.bad(2, ["--memory-limit", "512MB"], "train", "--data", "data", "--memory-limit", "much")
        self.bad(2, ["--threads"], "doctor", "--threads", "-1")
        self.bad(2, ['"f23"', '"f32"?'], "bench", "attention", "--dtype", "f23")
        self.bad(2, ["CUDA", "--device cpu"], "doctor", "--device", "cuda")
        self.bad(2, ["cuda:N or auto", "--device cpu"], "doctor", "--device", "gpu")
        self.bad(2, ["cuda:N or auto", "--device cpu"], "doctor", "--device", "cuda:x")

    def test_instruction_set(self):
        self.bad(2, ["FOVEA_ISA", "portable"], "doctor", env=self.environment(FOVEA_ISA="avx99"))

    def test_result_that_cannot_be_written(self):
        with open("/dev/full", "w") as full:
            result = subprocess.run([PROGRAM, "list"], stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual(result.returncode, 1)
        self.assertIn("standard output", result.stderr)


    def test_reader_that_has_gone_is_no_error(self):
        inherited = "import os, signal, sys; signal.signal(signal.SIGPIPE, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])"
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run([sys.executable, "-c", inherited, PROGRAM, "list"], stdout=writer, stderr=subprocess.PIPE, text=True)
        os.close(writer)
        self.assertEqual((done.returncode, done.stderr), (-signal.SIGPIPE, ""))


class Docs(CliTest):
    def test_pages_are_what_the_registry_says(self):
        pages = Path(__file__).resolve().parents[2] / "docs/mechanisms"
        copy = self.folder / "mechanisms"
        shutil.copytree(pages, copy)
        figures = "bench-mechanisms.json"  # the measured ones, beside the pages' folder
        (copy.parent / figures).write_bytes((pages.parent / figures).read_bytes())
        self.good("list", "--docs", copy)
        for page in sorted(copy.rglob("*.*")):
            original = pages / page.relative_to(copy)
            self.assertEqual(page.read_bytes(), original.read_bytes(),
                             f"run: fovea list --docs docs/mechanisms ({original.name})")

    def test_pages_are_complete(self):
        pages = Path(__file__).resolve().parents[2] / "docs/mechanisms"
        for name in [m["name"] for m in self.document("list")["mechanisms"]]:
            title, *sections = re.split(r"^## ", (pages / f"{name}.md").read_text(), flags=re.M)
            self.assertGreater(len(title), len(name) + 40, f"{name}: what it is")
            texts = dict(section.split("\n", 1) for section in sections)
            for wanted in ["Definition", "Cost", "When to use it", "What published code does differently", "Paper",
                           "Parameters", "Support"]:
                self.assertGreater(len(texts.get(wanted, "").strip()), 10, f"{name}: {wanted}")

    def test_a_missing_page_is_named(self):
        (self.folder / "empty").mkdir()
        self.bad(3, ["no page about", "softmax.md"], "list", "--docs", self.folder / "empty")


class List(CliTest):
    def test_table(self):
        page = self.good("list").stdout
        self.assertLessEqual(max(map(len, page.splitlines())), 80)
        for name in ("dot", "scaled-dot", "bilinear", "additive", "cosine", "sinusoidal", "learned", "shaw", "xl",
                     "rope", "alibi", "t5"):
            self.assertRegex(page, rf"(?m)^ *{name} +\S")
        for name in ["softmax", "rela", "diag", "linear", "norm", "transnormer-t2"]:
            self.assertIn(name, page)

    def test_with_filters(self):
        names = [m["name"] for m in self.document("list", "--with", "state,step")["mechanisms"]]
        self.assertIn("norm", names)
        self.assertNotIn("softmax", names)

    def test_one(self):
        diag = self.document("list", "diag")
        block = next(p for p in diag["parameters"] if p["name"] == "block")
        self.assertEqual(block["default"], 64)
        self.assertEqual(block["range"][0], 1)
        self.assertTrue(diag["features"]["causal"])
        self.assertIn("block", self.good("list", "diag").stdout)


class Doctor(CliTest):
    def test_document(self):
        found = self.document("doctor", "--threads", "1")
        self.assertIn(found["isa"]["chosen"], found["isa"]["available"])
        self.assertEqual(found["threads"], 1)
        self.assertGreater(found["sgemm_gflops"], 0.1)
        self.assertFalse(found["built"]["cuda"])
        self.assertGreaterEqual(found["busy_cores"], 0)
        self.assertGreaterEqual(found["cpu"]["core_time"], 0)

    def test_what_is_built(self):
        page = self.good("doctor").stdout
        self.assertRegex(page, r"(?m)^built +CPU kernels")
        self.assertRegex(page, r"(?m)^not built .*MPI")

    def test_forced_instruction_set(self):
        page = self.good("doctor", env=self.environment(FOVEA_ISA="portable")).stdout
        self.assertRegex(page, r"kernels +portable")


class Completion(CliTest):
    def complete(self, *words):
        script = self.good("completion", "bash").stdout
        quoted = " ".join(f"'{w}'" for w in words)
        driver = f"{script}\nCOMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _fovea; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        result = subprocess.run(["bash", "-c", driver], capture_output=True, text=True)
        self.assertEqual(result.stderr, "")
        return result.stdout.split()

    def test_bash(self):
        self.assertIn("doctor", self.complete("fovea", "d"))
        self.assertEqual(self.complete("fovea", "lra", "l"), ["listops"])
        self.assertEqual(self.complete("fovea", "bench", "attention", "--cau"), ["--causal"])
        self.assertIn("transnormer-t2", self.complete("fovea", "train", "--attention", "trans"))
        self.assertIn("softmax,norm", self.complete("fovea", "train", "--attention", "softmax,no"))
        self.assertEqual(self.complete("fovea", "list", "dia"), ["diag"])

    def test_other_shells(self):
        self.assertIn("#compdef fovea", self.good("completion", "zsh").stdout)
        self.assertIn("complete -c fovea", self.good("completion", "fish").stdout)
        self.bad(2, ["tcsh"], "completion", "tcsh")


class Tables(CliTest):
    def test_tables_are_as_wide_as_columns_says(self):
        wide, narrow = (self.good(*self.train(f"run{columns}", steps=1), env=self.environment(COLUMNS=columns)).stdout.splitlines()
                        for columns in ("200", "40"))
        self.assertLess(len(wide), len(narrow))
        table = [line for line in narrow if "where the time" not in line and "F1" not in line]
        self.assertLessEqual(max(map(len, table)), 40, table)


if __name__ == "__main__":
    unittest.main()
