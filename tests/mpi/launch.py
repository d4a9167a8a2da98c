"""Starts a program on several ranks of this machine, whatever it has of cores and whoever runs the test."""

import os
import subprocess

MPIRUN = os.environ["FOVEA_MPIRUN"]
# Between processes of one machine alone: networks of build machines are nobody's business.
OPTIONS = ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "btl", "self,vader",
           "--mca", "btl_vader_single_copy_mechanism", "none"]


def command(ranks, program, *arguments):
    return [MPIRUN, *OPTIONS, "-n", str(ranks), program, *map(str, arguments)]


def environment():
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("FOVEA_", "OMP_", "GOMP_"))}
    return {**clean, "OMP_NUM_THREADS": "1"}


def mpirun(ranks, program, *arguments, cwd=None, timeout=120):
    return subprocess.run(command(ranks, program, *arguments), cwd=cwd, capture_output=True, text=True,
                          timeout=timeout, env=environment())
