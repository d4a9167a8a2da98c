"""What the docs name exists: folders, files, links between pages, options of the program."""

import glob
import os
import re
import subprocess
import unittest
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FOLDERS = "src|cli|include|tests|docs|scripts|bench|cmake|python|dev|examples"
# Names that stand for any other: x.cc beside an operation x, and the files of the made-up mechanism.
MADE_UP = re.compile(r"(^|[/_<])x([._>/]|$)|sharp|[A-Z]{3,}|<")


def text_of(page):
    return page.read_text(encoding="utf-8")


def exists(name):
    name = re.sub(r":\d+$", "", name).rstrip("/.")
    if name.startswith("include/") or (ROOT / name).exists():
        return (ROOT / name).exists()
    return bool(glob.glob(str(ROOT / name))) or bool(glob.glob(str(ROOT / (name + ".*"))))


@cache
def help_of(verb):
    run = subprocess.run([os.environ["FOVEA_PROGRAM"], *verb, "--help"], capture_output=True, text=True)
    return run.stdout if run.returncode == 0 else None


def commands(page):
    """The calls of fovea in the code blocks of a page, joined over line ends."""
    for block in re.findall(r"^```(?:sh|bash|console)?\n(.*?)^```", text_of(page), re.M | re.S):
        for line in block.replace("\\\n", " ").splitlines():
            for call in re.split(r"&&|;|\|", line.split(" #")[0]):
                found = re.match(r"\s*\$?\s*(?:\S*/)?fovea ((?:[a-z]\S* ?)+)(.*)", call)
                if found:
                    yield call.strip(), found[1].split(), found[2]


class Docs(unittest.TestCase):
    def test_paths_exist(self):
        for page in PAGES:
            for name in re.findall(rf"`((?:{FOLDERS})/[\w./*<>-]+)`", text_of(page)):
                if not MADE_UP.search(name):
                    with self.subTest(page=page.name, path=name):
                        self.assertTrue(exists(name), f"{page}: {name} does not exist")

    def test_links_exist(self):
        for page in PAGES:
            for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text_of(page)):
                if "://" not in target and not target.startswith("mailto:"):
                    with self.subTest(page=page.name, link=target):
                        self.assertTrue((page.parent / target).exists(), f"{page}: {target} does not exist")

    def test_folders_of_the_table_are_all(self):
        """docs/architecture.md names every folder of src."""
        table = text_of(ROOT / "docs/architecture.md")
        for folder in sorted(p.name for p in (ROOT / "src").iterdir() if p.is_dir()):
            self.assertIn(f"`src/{folder}`", table, f"src/{folder} is missing from the table")

    def test_speeds_of_the_first_page_are_those_that_were_measured(self):
        def rows(page, columns, width):
            cells = [[c.strip() for c in line.strip("|").split("|")] for line in text_of(page).splitlines() if line.startswith("| ")]
            return {tuple(row[:2]): tuple(row[i] for i in columns) for row in cells if len(row) == width}

        for page, measured, claimed in (("bench-cpu.md", ((2, 3, 5), 8), ((2, 3, 4), 5)), ("bench-gpu.md", ((2, 3, 4, 6), 11), ((2, 3, 4, 5), 6))):
            there = rows(ROOT / "docs" / page, *measured)
            said = {key: row for key, row in rows(ROOT / "README.md", *claimed).items() if row[-1].endswith("x")}
            self.assertGreater(len(said), 4)
            for key, row in said.items():
                self.assertEqual(there[key], row, f"{page}: {key}")
        bars = re.search(r"^(\d+) of (?:the )?(\d+) bars", text_of(ROOT / "docs/bench-cpu.md"), re.M)
        self.assertIn(f"{bars[1]} of the {bars[2]} bars", text_of(ROOT / "README.md"))

    def test_options_exist(self):
        checked = 0
        for page in PAGES:
            for line, words, rest in commands(page):
                text = help_of((words[0],))
                with self.subTest(page=page.name, line=line):
                    self.assertIsNotNone(text, f"there is no verb {words[0]}")
                    if len(words) > 1:
                        text += help_of((words[0], words[1])) or ""
                    for option in re.findall(r"(?<![\w-])--[a-z][\w-]*", " ".join(words[1:]) + " " + rest):
                        checked += 1
                        self.assertIn(option, text, f"fovea {words[0]} has no {option}")
        self.assertGreater(checked, 30)


if __name__ == "__main__":
    unittest.main()
