"""The wheel of `make wheel` in a clean environment: the package and the program work from there, beside PyTorch.

Without ONEDNN it has this system's oneDNN, whole; with ONEDNN=small, as `make wheel` has it, only what is called of it."""

import json
import os
import re
import signal
import subprocess
import sys
import sysconfig
import time
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
ONEDNN = os.environ.get("ONEDNN", "system")
LARGEST = 19.5e6 if ONEDNN == "system" else 15e6  # bytes: the engine 6.5 MB, this system's oneDNN 11.4

BESIDE_PYTORCH = """
import threading
import {first}
import {second}
import numpy as np, torch, fovea, fovea.torch

torch.set_num_threads(2)
fovea.set_num_threads(2)
q, k, v = (torch.randn(1, 600, 4, 32, requires_grad=True) for _ in range(3))
wrong = []

def both():
    for _ in range(10):
        ours = fovea.attention(q, k, v, causal=True)
        theirs = torch.nn.functional.scaled_dot_product_attention(*(x.transpose(1, 2) for x in (q, k, v)), is_causal=True).transpose(1, 2)
        (a,), (b,) = torch.autograd.grad(ours.sum(), q), torch.autograd.grad(theirs.sum(), q)
        product = torch.from_numpy(fovea.Model("norm", vocabulary=8, classes=2, width=64)(np.ones((4, 50), np.int32))) @ torch.ones(2, 512)
        if not (torch.allclose(ours, theirs, atol=1e-5) and torch.allclose(a, b, atol=1e-4) and product.isfinite().all()):
            wrong.append(1)

threads = [threading.Thread(target=both) for _ in range(2)]
both()
[t.start() for t in threads]
[t.join() for t in threads]
runtimes = {{line.split()[-1] for line in open("/proc/self/maps") if "libgomp" in line or "libiomp" in line}}
print(len(wrong), len(runtimes))
"""


def run(*command, **environment):
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "OMP_NUM_THREADS")}
    done = subprocess.run([str(c) for c in command], env={**clean, **environment}, cwd="/", capture_output=True, text=True, timeout=3000)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheels")
    run(ROOT / "scripts/wheel", sys.executable, WHEEL_OUT=str(folder), ONEDNN=ONEDNN, CXX="c++",  # as CMake calls it: a compiler cache has seen it all
        WHEEL_ARGS=os.environ.get("WHEEL_ARGS", "") + " --no-build-isolation")
    (made,) = folder.glob("fovea-*.whl")
    return made


@pytest.fixture(scope="module")
def clean(wheel, tmp_path_factory):
    """A new environment with the wheel; NumPy and PyTorch are those of this one."""
    folder = tmp_path_factory.mktemp("clean") / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    run(sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", folder / "bin/python", "install", "--no-deps",
        "--no-index", wheel)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder


def test_what_is_in_the_wheel(wheel):
    assert wheel.stat().st_size < LARGEST
    assert re.search(r"-manylinux_\d+_\d+_x86_64\.whl$", wheel.name), wheel.name
    assert ("-cp312-abi3-" in wheel.name) == (sys.version_info >= (3, 12)), wheel.name
    with zipfile.ZipFile(wheel) as file:
        names = file.namelist()
        assert not [name for name in names if name.endswith((".h", ".a", ".cmake"))]
        large = [entry.filename for entry in file.infolist() if entry.file_size > 1e6 and "/libdnnl" not in entry.filename]
        assert len(large) == 1 and large[0].startswith("fovea/_fovea"), large  # the engine is there once
        (script,) = [name for name in names if name.endswith(".data/scripts/fovea")]
        assert file.read(script).startswith(b"#!python")
        libraries = [name.split("/")[-1] for name in names if name.startswith("fovea.libs/")]
        assert not [name for name in libraries if re.match("libcairo|libicu|libX11", name)], libraries
        assert any(name.startswith("libgomp") for name in libraries)
        assert any(name.startswith("libdnnl") for name in libraries) == (ONEDNN == "system"), libraries
        bills = [json.loads(file.read(name)) for name in names if re.search(r"/sboms/.+\.json$", name)]
        assert bool([name for name in names if name.endswith("/licenses/onednn/THIRD-PARTY-PROGRAMS")]) == (ONEDNN != "system")
    assert {bill["bomFormat"] for bill in bills} == {"CycloneDX"}
    parts = {part["name"] for bill in bills for part in bill["components"]}
    assert {"libdnnl2" if ONEDNN == "system" else "oneDNN", "libgomp1"} <= parts, parts


def test_package_and_program(clean):
    code = ("import numpy as np, fovea; q = np.ones((1, 4, 2, 8), np.float32); print(fovea.__file__, "
            "fovea.attention(q, q, q, 'norm', causal=True).shape)")
    (site,) = clean.glob("lib/python*/site-packages")
    assert run(clean / "bin/python", "-c", code).strip() == f"{site}/fovea/__init__.py (1, 4, 2, 8)"
    assert run(clean / "bin/fovea", "list").startswith("softmax")
    assert json.loads(run(clean / "bin/fovea", "list", "softmax", "--json"))["name"] == "softmax"
    failed = subprocess.run([clean / "bin/fovea", "list", "softmx"], capture_output=True, text=True, cwd="/")
    assert failed.returncode == 2 and failed.stderr.startswith('fovea: unknown attention "softmx"') and "softmax" in failed.stderr
    head = subprocess.run(f"{clean}/bin/fovea list | head -1", shell=True, capture_output=True, text=True, cwd="/")
    assert head.stdout.startswith("softmax") and head.stderr == ""


def test_products_are_those_of_numpy(clean):
    """In f32 and bf16, of shapes that go to each of oneDNN's ways: whole, batched, one row, transposed."""
    code = ("import numpy as np, fovea; r = np.random.default_rng(1)\n"
            "for b, m, k, n in [(1, 64, 64, 64), (3, 17, 33, 65), (1, 1, 128, 7), (2, 512, 96, 3)]:\n"
            "    q, v = (r.standard_normal((b, m, 2, k)).astype('f') for _ in range(2))\n"
            "    o = fovea.attention(q, q, v, 'softmax'); s = np.einsum('bihd,bjhd->bhij', q, q) / k**.5\n"
            "    w = np.exp(s - s.max(-1, keepdims=True)); w /= w.sum(-1, keepdims=True)\n"
            "    assert np.abs(o - np.einsum('bhij,bjhd->bihd', w, v)).max() < 1e-5\n"
            "a = fovea.Model('transformer', vocabulary=9, classes=3, width=96, seed=1); x = r.integers(1, 9, (5, 77)).astype('i')\n"
            "one, all_ = a(x[:1]), a(x); assert np.abs(one - all_[:1]).max() < 1e-4 and np.isfinite(all_).all(); print('right')")
    assert run(clean / "bin/python", "-c", code).strip() == "right"


def test_the_program_is_a_process_of_its_own(clean, tmp_path):
    """Ctrl-C saves and says how to go on, as without Python; what is started from it is the program again."""
    (tmp_path / "a.txt").write_text("to be or not to be, that is the question. " * 400)
    command = [clean / "bin/fovea", "train", "--data", tmp_path / "a.txt", "--steps", "100000", "--threads", "1", "--out", tmp_path / "run",
               "--set", "model.width=16", "--set", "model.heads=2", "--set", "model.inner=16", "--set", "train.log_every=1"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd="/",
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))  # who runs the tests may ignore it
    while not (tmp_path / "run/metrics.csv").exists() or (tmp_path / "run/metrics.csv").read_text().count("\n") < 3:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.2)
    assert os.readlink(f"/proc/{process.pid}/exe").endswith("/site-packages/fovea/bin/fovea")
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=300)[1]
    assert process.returncode == 130 and "--resume" in said, said
    assert "complete" in run(clean / "bin/fovea", "completion", "bash")
    assert run(clean / "bin/fovea", "--version").startswith("fovea ")


def test_a_program_without_its_engine_says_so(clean, tmp_path):
    (program,) = clean.glob("lib/python*/site-packages/fovea/bin/fovea")
    (tmp_path / "bin").mkdir()
    alone = tmp_path / "bin/fovea"
    alone.write_bytes(program.read_bytes())
    alone.chmod(0o755)
    done = subprocess.run([alone, "list"], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("fovea: the engine of the Python package does not load") and "pip install" in done.stderr


def test_onednn_that_cannot_be_fetched_is_told():
    script = ROOT / "scripts/onednn"
    for source in (["/nowhere"], [str(ROOT)]):
        done = subprocess.run([script, *source], capture_output=True, text=True)
        assert done.returncode == 2 and done.stderr.startswith("onednn: ") and "  try     " in done.stderr, done.stderr


def test_training_from_the_wheel_writes_its_page(clean, tmp_path):
    (tmp_path / "a.txt").write_text("to be or not to be, that is the question. " * 100)
    run(clean / "bin/fovea", "train", "--data", tmp_path / "a.txt", "--steps", "2", "--threads", "1", "--out", tmp_path / "run",
        "--set", "model.width=16", "--set", "model.heads=2", "--set", "model.inner=16", "--set", "model.layers=norm")
    assert (tmp_path / "run/report.html").exists()
    assert (tmp_path / "run/loss.png").exists() or (tmp_path / "run/loss.svg").exists()


@pytest.mark.parametrize("order", [("torch", "fovea"), ("fovea", "torch")])
def test_two_openmp_runtimes_in_one_process(clean, order):
    code = BESIDE_PYTORCH.format(first=order[0], second=order[1])
    wrong, runtimes = map(int, run(clean / "bin/python", "-c", code).split())
    assert (wrong, runtimes) == (0, 2)
