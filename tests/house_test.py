"""Tests of dev/house: what it takes for a function, and that it fails over a hard limit."""

import importlib.util
import re
import subprocess
import sys
import tempfile
import unittest
from importlib.machinery import SourceFileLoader
from pathlib import Path

DEV = Path(__file__).resolve().parent.parent / "dev"
sys.dont_write_bytecode = True
sys.path.insert(0, str(DEV))
from cxx_scan import functions_of  # noqa: E402

LOADER = SourceFileLoader("house", str(DEV / "house"))
house = importlib.util.module_from_spec(importlib.util.spec_from_loader("house", LOADER))
sys.modules["house"] = house  # dataclasses look it up
LOADER.exec_module(house)


def scan(source):
    return [(f.name, f.lines, f.parameters, f.template_parameters) for f in functions_of(source)]


class ScanTest(unittest.TestCase):
    def test_free_functions_and_parameters(self):
        self.assertEqual(scan("int f() { return 0; }\nint g(void) {}\nvoid h(int a, std::map<int, int> b) {\n}\n"),
                         [("f", 1, 0, 0), ("g", 1, 0, 0), ("h", 2, 2, 0)])

    def test_declarations_and_values_are_no_functions(self):
        self.assertEqual(scan("int f(int);\nint x{3};\nint y[] = {1, 2};\nstruct P { int a = f(1), b{2}; };\n"
                              "enum class E : int { a, b };\nconcept C = requires(T t) { t.f(); };\n"), [])

    def test_scopes_are_looked_into(self):
        source = ('namespace a::b {\nextern "C" {\nclass EXPORT __attribute__((used)) K : public B<int(int)> {\n'
                  " public:\n  K() = default;\n  int f() const {\n    return 1;\n  }\n};\n}\n}\n")
        self.assertEqual(scan(source), [("f", 3, 0, 0)])

    def test_constructors_with_member_initialisers(self):
        self.assertEqual(scan("K::K(int a) : a_(a), b_{a, 1}, c_<int>{2} {\n  go();\n}\nK::~K() {}\n"),
                         [("K::K", 3, 1, 0), ("K::~K", 1, 0, 0)])

    def test_operators(self):
        names = [row[0] for row in scan("int A::operator()(int x, int y) { return x; }\nbool operator<(A a, A b) {}\n"
                                        "operator float() const { return 0; }\n")]
        self.assertEqual(names, ["operator ( )", "operator <", "operator float"])

    def test_templates(self):
        source = "template <class A, int B = (1 > 0)>\nauto f(A a, F<A, B> b) -> decltype(a + b) requires(B < 3) {\n}\n"
        self.assertEqual(scan(source), [("f", 3, 2, 2)])

    def test_lambdas_and_local_classes_belong_to_their_function(self):
        source = "void f() {\n  auto g = [](int a) { return a; };\n  struct L { void m() {} };\n  run([&] {\n  });\n}\n"
        self.assertEqual(scan(source), [("f", 6, 0, 0)])

    def test_a_lambda_outside_is_a_function(self):
        self.assertEqual(scan("const auto f = [](int a, int b) {\n  return a + b;\n};\n"), [("f", 3, 2, 0)])

    def test_comments_literals_and_macros_hide_braces(self):
        source = ('// { it\'s\n/* { */\nconst char* s = R"x({ ")x";\n#define M(a) { \\\n  a }\nint f() {\n'
                  "  char c = '{'; const char* t = \"}\\\"{\"; int n = 1'000'000; // }\n  return v[w[0]];\n}\n")
        self.assertEqual(scan(source), [("f", 4, 0, 0)])

    def test_test_macros_have_no_parameters(self):
        self.assertEqual(scan("TEST(Suite, Case) {\n}\n"), [("TEST(Suite, Case)", 2, 0, 0)])


class HouseTest(unittest.TestCase):
    def house(self, files, *options):
        with tempfile.TemporaryDirectory() as root:
            for name, text in files.items():
                path = Path(root) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            return subprocess.run([sys.executable, str(DEV / "house"), "--root", root, *options],
                                  capture_output=True, text=True, check=False)

    @staticmethod
    def function(lines):
        return "void f() {\n" + "".join(f"  g({i});\n" for i in range(lines - 2)) + "}\n"

    def test_a_small_tree_passes(self):
        result = self.house({"src/a.cc": self.function(10)})
        self.assertEqual(result.returncode, 0, result.stdout)
        self.assertIn("lines per function", result.stdout)

    def test_an_empty_tree_passes(self):
        self.assertEqual(self.house({}).returncode, 0)

    def test_the_hard_limit_is_exact(self):
        self.assertEqual(self.house({"src/a.cc": self.function(80)}).returncode, 0)
        result = self.house({"src/a.cc": self.function(81)})
        self.assertEqual(result.returncode, 1)
        self.assertIn("src/a.cc:1 f", result.stdout)

    def test_kernels_may_be_longer(self):
        for name in ("src/tile/cpu/a.cc", "src/ops/a_cpu.cc", "src/simd/a-inl.h", "src/ops/a_cuda.cu"):
            self.assertEqual(self.house({name: self.function(150)}).returncode, 0, name)
            self.assertEqual(self.house({name: self.function(151)}).returncode, 1, name)

    def test_long_files_fail(self):
        self.assertEqual(self.house({"cli/a.cc": "int a;\n" * 601}).returncode, 1)

    def test_many_parameters_fail(self):
        parameters = ", ".join(f"int a{i}" for i in range(9))
        self.assertEqual(self.house({"src/a.cc": f"void f({parameters}) {{}}\n"}).returncode, 1)

    def test_copies_fail_and_are_named(self):
        files = {"src/a.cc": self.function(30), "src/b.cc": "int b;\n" + self.function(30)}
        result = self.house(files, "--list")
        self.assertEqual(result.returncode, 1)
        self.assertIn("src/a.cc:1 and src/b.cc:2", result.stdout)

    def test_includes_point_down(self):
        order = {"src/CMakeLists.txt": "fovea_folder(core)\nfovea_folder(ops HEADERS a.h)\nfovea_folder(nn)\n"}
        down = {"src/ops/a.cc": '#include "core/a.h"\n#include "ops/b.h"\n#include "fovea/nn.h"\n#include <nn/a.h>\n'}
        self.assertEqual(self.house(order | down).returncode, 0)
        result = self.house(order | {"src/ops/cpu/a.cc": '#include "core/a.h"\n#include "nn/a.h"\n'})
        self.assertEqual(result.returncode, 1)
        self.assertIn('src/ops/cpu/a.cc:2 #include "nn/a.h"', result.stdout)

    def test_pointers_stay_with_the_kernels(self):
        for line in ("x.data<T>()[0] = 1;", "f(x.raw());", "x.template data<float>();"):
            self.assertEqual(self.house({"src/ops/cpu/a.cc": f"void f() {{ {line} }}\n"}).returncode, 0)
            result = self.house({"src/ops/a.cc": f"void f() {{ {line} }}\n"})
            self.assertEqual(result.returncode, 1)
            self.assertIn("src/ops/a.cc:1", result.stdout)
            self.assertEqual(self.house({"src/mechanisms/tiled.cc": f"void f() {{ {line} }}\n"}).returncode, 1)

    def test_python_is_measured_too(self):
        result = self.house({"dev/a.py": "def f(a, b):\n" + "    a += 1\n" * 90})
        self.assertEqual(result.returncode, 1)
        self.assertIn("dev/a.py:1 f", result.stdout)

    def test_python_parameters_by_name_only_are_not_counted(self):
        names = ", ".join(f"a{i}" for i in range(9))
        self.assertEqual(self.house({"dev/a.py": f"def f({names}):\n    pass\n"}).returncode, 1)
        self.assertEqual(self.house({"dev/a.py": f"def f(x, *, {names}):\n    pass\n"}).returncode, 0)

    def test_contributing_tells_the_limits(self):
        rows = [[cell.strip() for cell in line.split("|")[1:-1]]
                for line in (DEV.parent / "CONTRIBUTING.md").read_text(encoding="utf-8").splitlines()
                if line.startswith("|")]
        limits = house.House(DEV.parent).limits()
        self.assertGreater(len(limits), 5)
        for limit in limits:
            with self.subTest(limit=limit.title):
                row = next((row for row in rows if row[0].startswith(limit.title.split(",")[0])), None)
                self.assertIsNotNone(row, "is not in the table")
                self.assertEqual([float(re.match(r"[\d.]+", cell)[0]) for cell in row[1:]], [limit.aim, limit.hard])
                if limit.title == "pointers above kernels":
                    self.assertEqual(set(re.findall(r"`(?:src/)?(\w+)`", row[0])), set(house.POINTER_FREE))

    def test_the_aim_is_listed_on_request_only(self):
        files = {"src/a.cc": self.function(50)}
        self.assertNotIn("src/a.cc", self.house(files).stdout)
        self.assertIn("over the aim: lines per function 50", self.house(files, "--list").stdout)


if __name__ == "__main__":
    unittest.main()
