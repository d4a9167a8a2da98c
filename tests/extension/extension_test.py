"""A made-up mechanism takes three files and a line, CONTRIBUTING.md shows exactly those, and everything knows it."""

import os
import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tests/cli"))
from support import CliTest  # noqa: E402

FILES = ["src/mechanisms/weights/sharp.cc", "src/reference/sharp.h", "docs/mechanisms/sharp.md"]
LINE = "src/mechanisms/list.inc"
LAWS = ["Reference", "ReferenceBfloat16", "Gradient", "GradientBfloat16", "Causal", "Invariance", "Robustness"]


class Guide(unittest.TestCase):
    def test_contributing_shows_the_files(self):
        text = (ROOT / "CONTRIBUTING.md").read_text()
        shown = dict(re.findall(r"^`(\S+)`,(?:[^\n]+\n)+\n```\w*\n(.*?)^```$", text, re.M | re.S))
        for name in FILES:
            self.assertEqual(shown.get(name), (HERE / name).read_text(), name)
        self.assertEqual(shown.get(LINE), (HERE / "list.inc").read_text())

    def test_they_are_short_and_all_there_is(self):
        files = sorted(str(p.relative_to(HERE)) for p in HERE.rglob("sharp*"))
        self.assertEqual(files, sorted(FILES))
        for name in FILES:
            self.assertLess(len((HERE / name).read_text().splitlines()), 50, name)
        self.assertEqual(len((HERE / "list.inc").read_text().splitlines()), 1)


class Laws(unittest.TestCase):
    def test_every_law_holds(self):
        for law in LAWS:
            with self.subTest(law):
                result = subprocess.run([os.environ["FOVEA_LAWS"], f"--gtest_filter=*/{law}.*/sharp_*"],
                                        capture_output=True, text=True)
                self.assertEqual(result.returncode, 0, result.stdout)
                self.assertRegex(result.stdout, r"\[  PASSED  \] [1-9]\d* test", law)


class Program(CliTest):
    def test_list_knows_it(self):
        found = self.document("list", "sharp")
        self.assertEqual([p["name"] for p in found["parameters"]], ["sharpness"])
        self.bad(2, ["sharpness", "between 0.01 and 100"], *self.train(attention="sharp:sharpness=0"))

    def test_docs_are_completed(self):
        pages = self.folder / "pages"
        shutil.copytree(ROOT / "docs/mechanisms", pages)
        self.bad(3, ["no page about", "sharp.md"], "list", "--docs", pages)
        shutil.copy(HERE / "docs/mechanisms/sharp.md", pages)
        self.good("list", "--docs", pages)
        page = (pages / "sharp.md").read_text()
        self.assertTrue(page.startswith((HERE / "docs/mechanisms/sharp.md").read_text()))
        self.assertIn("| `sharpness` | 2 | 0.01 to 100 |", page)
        self.assertIn("[`sharp`](sharp.md)", (pages / "README.md").read_text())

    def test_a_model_trains_with_it(self):
        self.good(*self.train(attention="sharp"))

    def test_it_is_measured(self):
        result = self.document("bench", "attention", "--attention", "sharp", "--n", "64", "--rounds", "1")
        self.assertIn("sharp", str(result))


if __name__ == "__main__":
    unittest.main()
