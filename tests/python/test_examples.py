"""The examples run, each as a user would run it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import fovea

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples" / "python"
ARGUMENTS = {
    "compare.py": (["--n", "256"], "performer"),
    "custom_pattern.py": ([], "of 4194304 pairs"),
    "listops.py": (["--steps", "4", "--examples", "64"], "answer"),
    "stream.py": ([], "largest difference"),
    "torch_model.py": (["--steps", "5"], "step    5"),
}


def test_none_is_left_out():
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(ARGUMENTS)


@pytest.mark.parametrize("name", ARGUMENTS)
def test_runs(name, tmp_path):
    arguments, words = ARGUMENTS[name]
    path = os.pathsep.join(str(Path(p).resolve()) for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p)
    result = subprocess.run([sys.executable, str(EXAMPLES / name), *arguments], cwd=tmp_path, capture_output=True,
                            text=True, check=False, env={**os.environ, "PYTHONPATH": path})
    assert result.returncode == 0, result.stderr
    assert words in result.stdout


def test_types():
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--cache-dir", os.devnull,
               *map(str, sorted(EXAMPLES.glob("*.py")))]
    package = Path(fovea.__file__).resolve().parent.parent
    result = subprocess.run(command, capture_output=True, text=True, check=False,
                            env={**os.environ, "MYPYPATH": str(package)})
    assert result.returncode == 0, result.stdout
