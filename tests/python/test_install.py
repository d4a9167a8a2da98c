"""`pip install .` into an empty folder: the package and the program work from there."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def run(*command, **environment):
    return subprocess.run(command, env={**os.environ, **environment}, cwd="/", check=True, capture_output=True,
                          text=True).stdout


def test_wheel(tmp_path):
    run(sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--disable-pip-version-check",
        "--wheel-dir", str(tmp_path / "wheels"), str(ROOT), CXX="c++")  # as CMake calls it: a compiler cache has seen it all
    (wheel,) = (tmp_path / "wheels").glob("fovea-*.whl")
    assert wheel.stat().st_size < 20e6
    names = zipfile.ZipFile(wheel).namelist()
    assert not [name for name in names if name.endswith((".h", ".a", ".cmake"))]
    run(sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--disable-pip-version-check",
        "--prefix", str(tmp_path / "prefix"), str(wheel))
    (site,) = (tmp_path / "prefix").rglob("site-packages")
    code = ("import numpy as np, fovea; q = np.ones((1, 4, 2, 8), np.float32); print(fovea.__file__, "
            "fovea.attention(q, q, q, 'norm', causal=True).shape)")
    assert run(sys.executable, "-c", code, PYTHONPATH=str(site)).strip() == f"{site}/fovea/__init__.py (1, 4, 2, 8)"
    assert run(str(tmp_path / "prefix" / "bin" / "fovea"), "list").startswith("softmax")
