"""Where and with what the race was run."""

import os
import platform
import subprocess
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
MALLOC_RECYCLES = "both sides recycle memory (PyTorch through malloc settings that bench/peers/run explains)"
MALLOC_AS_IS = "fovea recycles memory, PyTorch runs on malloc as it is"


def processor():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or "unknown processor"


def openmp_libraries():
    """The OpenMP runtimes of this process. More than one means two pools of threads in each other's way."""
    paths = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines()}
    return sorted(Path(p).name for p in paths if "gomp" in Path(p).name or "iomp" in Path(p).name)


def fovea_version():
    text = (ROOT / "include/fovea/version.h").read_text()
    version = text.split('FOVEA_VERSION "')[1].split('"')[0]
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return f"{version} ({commit.stdout.strip()})" if commit.returncode == 0 else version


def setting_of(options, timing, anchor, command):
    import torch

    compiler = subprocess.run(["g++", "-dumpfullversion"], capture_output=True, text=True).stdout.strip()
    recycles = os.environ.get("MALLOC_MMAP_MAX_") == "0"
    return {
        "command": command,
        "date": time.strftime("%Y-%m-%d"),
        "machine": f"{processor()}, {os.cpu_count()} cores",
        "system": f"{platform.system()} {platform.machine()}",
        "threads": options.threads,
        "rounds": timing.rounds,
        "fovea": fovea_version(),
        "torch": f"{torch.__version__} (SDPA, eager, compile)",
        "numpy": np.__version__,
        "compiler": f"g++ {compiler}",
        "openmp": ", ".join(openmp_libraries()),
        "malloc": MALLOC_RECYCLES if recycles else MALLOC_AS_IS,
        "sgemm_gflops": f"{np.median(anchor.rates) / 1e9:.0f}" if anchor.rates else "",
    }
