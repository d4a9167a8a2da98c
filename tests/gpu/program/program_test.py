"""The program with CUDA where there is no card to be had: an old driver, and the numbers of a build without CUDA."""

import os
import subprocess
import unittest
from pathlib import Path

from support import CliTest

CPU_PROGRAM = os.environ["FOVEA_CPU_PROGRAM"]
OLD_DRIVER = os.environ["FOVEA_OLD_DRIVER"]  # libcuda.so.1


class WithoutCard(CliTest):
    def environment(self, **changes):
        return super().environment(CUDA_VISIBLE_DEVICES="", **changes)  # the same on a machine with a card

    def test_an_old_driver_is_named(self):
        old = self.environment(LD_LIBRARY_PATH=str(Path(OLD_DRIVER).parent))
        shown = self.good("doctor", env=old).stdout
        self.assertRegex(shown, r"CUDA +kernels for [0-9a, ]+, runtime 13\.\d, driver for 12\.4\n")
        trouble = r"the driver is for CUDA 12\.4, this build for 13\.\d"
        self.assertRegex(shown, rf"\({trouble}: running on the CPU\)")
        message = self.bad(2, ["device", "--device cpu"], *self.train("run"), "--device", "cuda", env=old)
        self.assertRegex(message, "no CUDA: " + trouble)
        self.assertRegex(self.good(*self.train("run"), "--device", "auto", env=old).stderr, rf"no CUDA \({trouble}\)")

    def test_on_the_cpu_it_computes_what_a_build_without_cuda_does(self):
        for attention in ["softmax", "transnormer-t2", "performer", "reformer"]:
            for program, name, device in [(None, "auto", "auto"), (CPU_PROGRAM, "cpu", "cpu")]:
                call = self.train(f"{attention}-{name}", "--device", device, attention=attention)
                if program is None:
                    self.good(*call)
                else:
                    subprocess.run([program, *map(str, call)], cwd=self.folder, env=self.environment(), check=True,
                                   capture_output=True)
            auto, cpu = (self.snapshot(f"{attention}-{name}/last") for name in ["auto", "cpu"])
            tensors = [name for name in cpu if name.endswith(".safetensors")]
            self.assertGreaterEqual(len(tensors), 2, "weights and optimiser")
            for name in tensors:
                self.assertEqual(auto[name], cpu[name], f"{attention}: {name}")


if __name__ == "__main__":
    unittest.main()
