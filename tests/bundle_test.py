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

    def test_packed_as_one_file(self):
        made = run(BUNDLE, "--xz", PROGRAM, f"{self.folder / 'made'}/")
        self.assertEqual(made.returncode, 0, made.stderr)
        (self.folder / "elsewhere").mkdir()
        self.assertEqual(run("tar", "-C", self.folder / "elsewhere", "-xJf", self.folder / "made.tar.xz").returncode, 0)
        self.assertEqual([p.name for p in (self.folder / "elsewhere").iterdir()], ["made"])
        started = run(self.folder / "elsewhere/made/bin" / PROGRAM.name, "--gtest_list_tests", env={"PATH": os.environ["PATH"]},
                      cwd="/")
        self.assertEqual(started.returncode, 0, started.stderr)
        again = run(BUNDLE, "--xz", PROGRAM, self.folder / "made")
        self.assertIn("exists", again.stderr)

    def test_several_programs_share_their_libraries(self):
        other = self.folder / "other"
        shutil.copy(PROGRAM, other)
        self.assertEqual(run(BUNDLE, PROGRAM, other, self.folder / "made").returncode, 0)
        for name in (PROGRAM.name, "other"):
            self.assertEqual(run(self.folder / "made/bin" / name, "--gtest_list_tests", cwd="/").returncode, 0)

    def test_the_driver_of_a_card_stays_behind(self):
        (self.folder / "driver.c").write_text("int cuInit(unsigned flags) { return (int)flags; }\n")
        (self.folder / "main.c").write_text("int cuInit(unsigned); int main(void) { return cuInit(0); }\n")
        library = self.folder / "libcuda.so.1"
        built = run("cc", "-shared", "-fPIC", f"-Wl,-soname,{library.name}", "-o", library, self.folder / "driver.c")
        self.assertEqual(built.returncode, 0, built.stderr)
        built = run("cc", "-o", self.folder / "card", self.folder / "main.c", library, f"-Wl,-rpath,{self.folder}")
        self.assertEqual(built.returncode, 0, built.stderr)
        self.assertEqual(run(BUNDLE, self.folder / "card", self.folder / "made").returncode, 0)
        self.assertEqual(list((self.folder / "made/lib").iterdir()), [])

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
