"""tests/gpu/suite with programs that are made up: sums, failures, crashes, and what the time does not suffice for."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SUITE = Path(__file__).resolve().parent / "gpu/suite"

# Twelve tests in shards as googletest makes them. FAULTS: what some of them do.
PROGRAM = """#!{python}
import os, sys, time
FAULTS = {faults}
names = ["Suite/Some.Test/%d" % i for i in range(12)]
if "--gtest_list_tests" in sys.argv:
    print("Running main() from gtest_main.cc")
    print("Suite/Some.")
    print("\\n".join("  Test/%d  # GetParam() = %d" % (i, i) for i in range(12)))
    sys.exit()
count, index = int(os.environ["GTEST_TOTAL_SHARDS"]), int(os.environ["GTEST_SHARD_INDEX"])
failed = []
for i, name in enumerate(names):
    if i % count != index:
        continue
    print("[ RUN      ]", name, flush=True)
    fault = FAULTS.get(i)
    if fault == "dies":
        os.abort()
    if fault == "hangs":
        time.sleep(600)
    if fault == "fails":
        failed.append(name)
        print("[  FAILED  ] " + name + ", where GetParam() = 3 (0 ms)", flush=True)
    else:
        print("[       OK ] " + name + " (0 ms)", flush=True)
print("[  FAILED  ] %d test, listed below:" % len(failed) if failed else "[  PASSED  ]")
sys.exit(1 if failed else 0)
"""


class Suite(unittest.TestCase):
    def setUp(self):
        self._folder = tempfile.TemporaryDirectory()
        self.addCleanup(self._folder.cleanup)
        self.folder = Path(self._folder.name)

    def program(self, name, faults=()):
        path = self.folder / name
        path.write_text(PROGRAM.format(python=sys.executable, faults=dict(faults)))
        path.chmod(0o755)

    def suite(self, *arguments):
        done = subprocess.run([sys.executable, SUITE, "--programs", self.folder, "--jobs", "4", *arguments], text=True,
                              capture_output=True, timeout=120)
        lines = done.stdout.splitlines()
        rows = {line.split()[0]: line.split()[1:] for line in lines if line.startswith(("gpu_", "all"))}
        return done.returncode, rows, lines

    def test_all_that_pass_are_counted_and_the_table_comes_last(self):
        self.program("gpu_policy_test")
        self.program("gpu_tile_test")
        code, rows, lines = self.suite()
        self.assertEqual(code, 0)
        self.assertEqual(rows["gpu_policy_test"][:4], ["12", "12", "0", "0"])
        self.assertEqual(rows["gpu_tile_test"][:4], ["12", "12", "0", "0"])
        self.assertEqual(rows["all"][:4], ["24", "24", "0", "0"])
        self.assertTrue(lines[-1].startswith("all"))

    def test_a_test_that_fails_is_named(self):
        self.program("gpu_tile_test", {3: "fails", 8: "fails"})
        code, rows, lines = self.suite()
        self.assertEqual(code, 1)
        self.assertEqual(rows["all"][:4], ["12", "10", "2", "0"])
        self.assertIn("failed: Suite/Some.Test/3", lines)

    def test_a_program_that_dies_fails_the_test_it_was_in_and_does_not_run_the_rest(self):
        self.program("gpu_optim_test", {4: "dies"})
        code, rows, lines = self.suite()
        self.assertEqual(code, 1)
        self.assertEqual(rows["all"][:4], ["12", "4", "1", "7"])
        self.assertIn("failed: Suite/Some.Test/4", lines)

    def test_what_the_time_does_not_suffice_for_is_not_run(self):
        self.program("gpu_optim_test", {2: "hangs"})
        self.program("gpu_policy_test")
        code, rows, _ = self.suite("--minutes", "0.03")
        self.assertEqual(code, 1)
        self.assertEqual(rows["gpu_optim_test"][:4], ["12", "2", "0", "10"])
        self.assertEqual(rows["gpu_policy_test"][:4], ["12", "12", "0", "0"])

    def test_a_folder_without_programs_is_refused(self):
        done = subprocess.run([sys.executable, SUITE, "--programs", self.folder], text=True, capture_output=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("no programs in", done.stderr)


if __name__ == "__main__":
    unittest.main()
