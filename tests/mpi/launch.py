"""Starts a program on several ranks of this machine, whatever it has of cores and whoever runs the test."""

import os
import subprocess

MPIRUN = os.environ["FOVEA_MPIRUN"]


def mpirun(ranks, program, *arguments, cwd=None, timeout=120):
    # Between processes of one machine alone: networks of build machines are nobody's business.
    options = ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "btl", "self,vader",
               "--mca", "btl_vader_single_copy_mechanism", "none"]
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "GOMP_"))}
    return subprocess.run([MPIRUN, *options, "-n", str(ranks), program, *map(str, arguments)], cwd=cwd,
                          capture_output=True, text=True, timeout=timeout, env={**clean, "OMP_NUM_THREADS": "1"})
