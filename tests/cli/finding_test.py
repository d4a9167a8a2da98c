"""Finding one's way: lists, settings and their meanings, pages of help, and what shells complete."""

import fcntl
import json
import os
import pty
import re
import select
import shutil
import struct
import subprocess
import termios
import time
import unittest
from pathlib import Path

from support import PROGRAM, SMALL, CliTest

ROOT = Path(__file__).resolve().parents[2]


class Show(CliTest):
    def test_every_setting_has_a_name_a_value_and_a_meaning(self):
        settings = {row["name"]: row for row in self.document("show")}
        self.assertGreater(len(settings), 100)
        for name, row in settings.items():
            self.assertGreater(len(row["meaning"]), 5, name)
        self.assertEqual(settings["model.norm"]["choices"], ["layer", "rms", "rms_a", "batch", "instance", "group"])
        self.assertEqual(settings["train.steps"]["value"], "5000")
        self.assertIn("model.decoder.width", settings)  # of models that have one
        page = self.good("show").stdout
        self.assertLessEqual(max(map(len, page.splitlines())), 80)
        for name in settings:
            self.assertIn(" " + name.split(".", 1)[-1], page)

    def test_a_model(self):
        page = self.good("show", "gpt").stdout
        self.assertTrue(page.startswith("gpt: a small language model; 4 layers, width 256, 4 heads\n"), page[:200])
        self.assertRegex(page, r"(?m)^  layers +softmax\*4 +mechanism of each layer")
        self.assertRegex(page, r"(?m)^  decoder +none +")
        self.assertNotIn("decoder.width", page)
        self.assertLessEqual(max(map(len, page.splitlines())), 80)
        self.assertEqual(self.document("show", "gpt")["model"]["task"], "lm")
        self.assertEqual(self.document("show", "norm")["model"]["layers"], ["norm", "norm"])
        self.assertEqual(self.document("show", "gpt", "--attention", "norm")["model"]["layers"], ["norm"] * 4)
        self.bad(2, ['"gtp"', '"gpt"?'], "show", "gtp")

    def test_search(self):
        found = self.document("show", "gpt", "--find", "WARM")
        self.assertIn("train.warmup", [row["name"] for row in found])
        self.assertLess(len(found), 10)
        self.bad(2, ["qqq", "fovea show"], "show", "--find", "qqq")

    def test_values_can_be_typed_again(self):
        rows = self.document("show", "transnormer-t2", "--find", "model.")
        again = [x for row in rows if row["value"] not in ("none", "") for x in ("--set", f"{row['name']}={row['value']}")]
        self.assertGreater(len(again), 60)
        self.assertEqual(self.document("show", "transnormer-t2", *again), self.document("show", "transnormer-t2"))

    def test_a_run_and_what_train_would_do(self):
        printed = self.good(*self.train(), "--print-config").stdout
        self.assertFalse((self.folder / "run").exists())
        (self.folder / "again.json").write_text(printed)
        self.good(*self.train())
        self.good("train", "--config", "again.json", "--out", "again", "--threads", "1")
        weights = [(self.folder / run / "last/model.safetensors").read_bytes() for run in ("run", "again")]
        self.assertEqual(*weights)
        self.assertEqual(self.document("show", "run")["train"]["batch"], 8)
        self.assertEqual(self.document("show", "run/best")["model"]["width"], 16)
        self.bad(2, ["trained on", "--data listops"], "train")
        self.bad(2, ["trained on", "--data listops"], "train", "--model", "gpt")
        self.assertEqual(list(self.folder.glob("runs*")), [])


class Lists(CliTest):
    def test_models_and_data(self):
        page = self.good("list", "models").stdout
        self.assertLessEqual(max(map(len, page.splitlines())), 80)
        for model in self.document("list", "models")["models"]:
            self.assertGreater(len(model["summary"]), 10)
            self.assertRegex(page, rf"(?m)^{re.escape(model['name'])} +{model['task']} ")
        self.assertRegex(self.good("list", "data").stdout, r"(?m)^labels +\S")

    def test_columns_of_features_can_be_told_apart(self):
        lines = self.good("list").stdout.splitlines()
        last = next(i for i, line in enumerate(lines) if line.startswith("softmax ") and " x " in line)
        width = max(map(len, lines[last - 14:last]))
        columns = list(zip(*(line.ljust(width) for line in lines[last - 14:last])))
        words = ["".join(column).strip() for column in columns]
        self.assertEqual([w for w in words if w][:3], ["causal", "bidirectional", "cross"])


class Pages(CliTest):
    def test_help_is_help(self):
        for verb in [[], ["train"], ["bench", "attention"]]:
            self.assertEqual(self.good("help", *verb).stdout, self.good(*verb, "--help").stdout)
        self.bad(2, ['"trian"', '"train"?'], "help", "trian")

    def test_the_version_names_the_commit(self):
        text = self.good("--version").stdout
        self.assertRegex(text, r"^fovea \d+\.\d+\.\d+( \([0-9a-f]{7,}\+? of \d{4}-\d\d-\d\d\))?\n$")
        if (ROOT / ".git").exists():
            commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "HEAD"], capture_output=True, text=True).stdout
            self.assertTrue(commit.startswith(text.split("(")[1].split("+")[0].split(" ")[0]), text)

    def test_manual_page(self):
        page = self.folder / "fovea.1"
        page.write_text(self.good("help", "--man").stdout)
        shown = subprocess.run(["groff", "-man", "-Tascii", "-ww", "-P-c", page], capture_output=True, text=True)
        self.assertEqual(shown.stderr, "")
        text = re.sub(".\x08", "", shown.stdout)
        for word in ["fovea bench attention", "--print-config", "EXIT STATUS", "Trains a model for any task"]:
            self.assertIn(word, re.sub(r"\s+", " ", text))


class OnATerminal(CliTest):
    def test_lines_are_broken_between_words(self):
        """On one of 50 columns; a file has them whole."""
        pid, terminal = pty.fork()
        if pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 50, 0, 0))
            os.environ.update(TERM="xterm")
            os.execv(PROGRAM, [str(PROGRAM), "train"])
        shown = b""
        try:
            while piece := os.read(terminal, 65536):
                shown += piece
        except OSError:  # it has ended
            pass
        os.waitpid(pid, 0)
        os.close(terminal)
        lines = shown.decode().split("\r\n")
        self.assertLessEqual(max(map(len, lines)), 50, lines)
        whole = self.fovea("train").stderr
        self.assertGreater(max(map(len, whole.splitlines())), 50)
        self.assertEqual(" ".join(lines).split(), whole.split())
        self.assertIn("          ", "\n".join(lines), "what goes on stands below")


def typed(shell, setup, line, folder):
    """What an interactive shell shows once `line` was typed and Tab pressed twice."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.environ.update(PS1="$ ", TERM="dumb", HISTFILE="/dev/null", PATH=f"{Path(PROGRAM).parent}:{os.environ['PATH']}")
        os.execvp(shell[0], shell)
    shown = b""

    def read_until(what, seconds):
        nonlocal shown
        end = time.time() + seconds
        while time.time() < end and what not in shown:
            if select.select([terminal], [], [], 0.1)[0]:
                try:
                    shown += os.read(terminal, 65536)
                except OSError:
                    break
    try:
        os.write(terminal, setup.encode() + b"\necho re''ady\n")
        read_until(b"ready\r\n", 20)
        shown = b""
        os.write(terminal, line.encode() + b"\t\t")
        read_until(b"\0", 2)
    finally:
        os.close(terminal)
        os.kill(pid, 9)
        os.waitpid(pid, 0)
    return shown.decode(errors="replace")


class Completion(CliTest):
    def scripts(self):
        for shell in ("bash", "zsh", "fish"):
            (self.folder / f"fovea.{shell}").write_text(self.good("completion", shell).stdout)

    def test_bash(self):
        self.scripts()
        shell = ["bash", "--noprofile", "--norc", "-i"]
        complete = lambda line: typed(shell, "source fovea.bash", line, self.folder)
        self.assertIn("--model gpt2-small", complete("fovea train --model gpt2"))
        self.assertIn("--set model.norm_groups=", complete("fovea train --set model.norm_gr"))
        self.assertIn("model.norm=instance", complete("fovea train --set model.norm=ins"))
        self.assertIn("roberta", complete("fovea show rob"))

    def test_zsh(self):
        self.assertTrue(shutil.which("zsh"), "scripts/bootstrap installs it")
        self.scripts()
        complete = lambda line: typed(["zsh", "-f", "-i"], "autoload -U compinit; compinit -u -D; source fovea.zsh", line,
                                      self.folder)
        self.assertIn("--model gpt2-small", complete("fovea train --model gpt2"))
        self.assertIn("model.norm_groups=", complete("fovea train --set model.norm_gr"))
        self.assertIn("model.norm=instance", complete("fovea train --set model.norm=ins"))
        self.assertIn("doctor", complete("fovea doc"))

    def test_fish(self):
        self.assertTrue(shutil.which("fish"), "scripts/bootstrap installs it")
        self.scripts()

        def complete(line):
            command = ["fish", "--no-config", "-c", f"source fovea.fish; complete -C '{line}'"]
            result = subprocess.run(command, cwd=self.folder, capture_output=True, text=True,
                                    env={**os.environ, "HOME": str(self.folder)})
            self.assertEqual(result.stderr, "")
            return [row.split("\t")[0] for row in result.stdout.splitlines()]
        self.assertEqual(complete("fovea train --model gpt2"), ["gpt2-small"])
        self.assertIn("model.width=", complete("fovea train --set model.wi"))
        self.assertEqual(complete("fovea train --set model.norm=ins"), ["model.norm=instance"])
        self.assertIn("doctor", complete("fovea doc"))


if __name__ == "__main__":
    unittest.main()
