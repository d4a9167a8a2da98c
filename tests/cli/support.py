"""Runs the program under test in a folder of its own, on a task small enough for seconds."""

import json
import os
import random
import subprocess
import tempfile
import unittest
from pathlib import Path

PROGRAM = os.environ["FOVEA_PROGRAM"]

# A model that trains in no time.
SMALL = [
    "--set", "model.width=16", "--set", "model.inner=16", "--set", "model.classifier_hidden=16",
    "--batch", "8", "--threads", "1",
]

OPERATORS = {
    "[MIN": min,
    "[MAX": max,
    "[MED": lambda a: (sorted(a)[(len(a) - 1) // 2] + sorted(a)[len(a) // 2]) // 2,
    "[SM": lambda a: sum(a) % 10,
}


def expression(generator):
    """A list without nesting, as text and value."""
    operator = generator.choice(list(OPERATORS))
    digits = [generator.randrange(10) for _ in range(generator.randint(2, 6))]
    text = "( " * (len(digits) + 1) + operator + " " + " ".join(f"{d} )" for d in digits) + " ] )"
    return text, OPERATORS[operator](digits)


def write_split(path, count, seed):
    generator = random.Random(seed)
    lines = ["Source\tTarget"] + ["%s\t%d" % expression(generator) for _ in range(count)]
    path.write_text("\n".join(lines) + "\n")


def write_data(folder):
    folder.mkdir()
    for seed, (name, count) in enumerate([("train", 64), ("val", 16), ("test", 16)]):
        write_split(folder / f"basic_{name}.tsv", count, seed)


class CliTest(unittest.TestCase):
    """Every test starts in an empty folder that holds only the small data set."""

    def setUp(self):
        self._folder = tempfile.TemporaryDirectory()
        self.addCleanup(self._folder.cleanup)
        self.folder = Path(self._folder.name)
        write_data(self.folder / "data")

    def environment(self, **changes):
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("FOVEA_", "OMP_", "GOMP_")) and k not in ("NO_COLOR", "COLUMNS")}
        return {**clean, "OMP_NUM_THREADS": "1", **changes}  # tests run side by side

    def fovea(self, *arguments, env=None, prefix=()):
        return subprocess.run([*prefix, PROGRAM, *map(str, arguments)], cwd=self.folder, capture_output=True, text=True,
                              env=env or self.environment(), timeout=300)

    def good(self, *arguments, **options):
        result = self.fovea(*arguments, **options)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def document(self, *arguments):
        """Standard output of a run with --json: one document and nothing else."""
        return json.loads(self.good(*arguments, "--json").stdout)

    def bad(self, code, words, *arguments, **options):
        """The run must fail with this exit code and name all of these words in at most three lines."""
        result = self.fovea(*arguments, **options)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        lines = result.stderr.splitlines()
        start = next((i for i, line in enumerate(lines) if line.startswith("fovea: ")), None)
        self.assertIsNotNone(start, result.stderr)
        message = lines[start:]
        self.assertLessEqual(len(message), 3, result.stderr)
        for word in [words] if isinstance(words, str) else words:
            self.assertIn(word, "\n".join(message))
        return "\n".join(message)

    def train(self, out="run", *more, attention="norm", steps=4):
        return ["train", "--attention", attention, "--data", "data", "--steps", steps, "--out", out, *SMALL, *more]

    def snapshot(self, folder):
        """Every file below a folder with its bytes: what must not change."""
        root = self.folder / folder
        return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}
