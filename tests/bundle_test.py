"""scripts/bundle: a folder with a program and its libraries that works elsewhere."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUNDLE = ROOT / "scripts/bundle"
PROGRAM = Path(sys.argv.pop())  # links libraries that are not the C library's


def run(*command, **options):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, **options)


class Bundle(unittest.TestCase):
    def setUp(self):
        self._folder = tempfile.TemporaryDirectory()
        self.addCleanup(self._folder.cleanup)
        self.folder = Path(self._folder.name)

    def test_the_program_starts_from_the_moved_folder_with_its_own_libraries(self):
        made = run(BUNDLE, PROGRAM, self.folder / "made")
        self.assertEqual(made.returncode, 0, made.stderr)
        moved = self.folder / "elsewhere" / "moved here"
        moved.parent.mkdir()
        shutil.move(self.folder / "made", moved)
        libraries = {p.name for p in (moved / "lib").iterdir()}
        self.assertTrue(any(n.startswith("liblzma") for n in libraries), libraries)
        for left_out in ["libc.so", "libm.so", "libstdc++.so", "libgcc_s.so", "ld-linux"]:
            self.assertFalse([n for n in libraries if n.startswith(left_out)], libraries)
        environment = {k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"}
        started = run(moved / "bin" / PROGRAM.name, "--gtest_list_tests", env={**environment, "LD_DEBUG": "libs"})
        self.assertEqual(started.returncode, 0, started.stderr[-1000:])
        used = [line for line in started.stderr.splitlines() if "calling init" in line and "liblzma" in line]
        self.assertTrue(used)
        self.assertTrue(all(str(moved) in line for line in used), used)

    def test_links_to_the_program_start_it(self):
        self.assertEqual(run(BUNDLE, PROGRAM, self.folder / "made").returncode, 0)
        (self.folder / PROGRAM.name).symlink_to(self.folder / "made/bin" / PROGRAM.name)
        self.assertEqual(run(self.folder / PROGRAM.name, "--gtest_list_tests").returncode, 0)

    def test_refusals(self):
        self.assertIn("PROGRAM... FOLDER", run(BUNDLE, "--help").stdout)
        for words, arguments in [("needed", [PROGRAM]), ("exists", [PROGRAM, self.folder]),
                                 ("not a program", [ROOT / "README.md", self.folder / "x"])]:
            refused = run(BUNDLE, *arguments)
            self.assertEqual(refused.returncode, 2)
            self.assertIn(words, refused.stderr)
        self.assertEqual(list(self.folder.iterdir()), [])


if __name__ == "__main__":
    unittest.main()
