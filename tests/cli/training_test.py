"""Training, evaluation, comparison, interruption and resuming."""

import csv
import json
import os
import signal
import subprocess
import time
import unittest
from pathlib import Path

from support import PROGRAM, SMALL, CliTest


class Train(CliTest):
    def test_train_then_eval(self):
        result = self.document(*self.train(steps=20))
        self.assertEqual(result["steps"], 20)
        self.assertTrue(0 <= result["accuracy"] <= 1)
        self.assertGreater(result["parameters"], 0)
        files = self.snapshot("run")
        for name in ["run.json", "result.json", "metrics.csv", "best/model.safetensors", "last/state.json"]:
            self.assertIn(name, files)
        again = self.document("eval", "run")
        self.assertEqual(again["accuracy"], result["accuracy"])
        self.assertAlmostEqual(again["loss"], result["loss"], places=5)
        self.assertIn("accuracy", self.good("eval", "run/last", "--split", "validation").stdout)
        self.assertIn("accuracy", self.good("eval", "run", "--data", "data").stdout)

    def test_config_then_set_then_option(self):
        config = {"attention": "linear", "train": {"lr": 0.5, "batch": 3, "steps": 2, "schedule": "constant"},
                  "data": {"source": "data"}}
        (self.folder / "run.json").write_text(json.dumps(config))
        self.good("train", "--config", "run.json", "--set", "train.lr=0.25", "--set", "train.batch=5", "--batch", "7",
                  "--out", "run", "--threads", "1")
        written = json.loads((self.folder / "run/run.json").read_text())
        self.assertEqual(written["train"]["lr"], 0.25)
        self.assertEqual(written["train"]["batch"], 7)
        self.assertEqual(written["model"]["layers"], ["linear", "linear"])
        self.assertEqual(written["data"]["source"], os.path.realpath(self.folder / "data"))

    def test_written_settings_repeat_the_run(self):
        self.good(*self.train("first", steps=6))
        self.good("train", "--config", "first/run.json", "--out", "second", "--threads", "1")
        same = lambda run: (self.folder / run / "last/model.safetensors").read_bytes()
        self.assertEqual(same("first"), same("second"))

    def test_counts_the_steps_that_overflow(self):
        wild = ["--dtype", "f16", "--set", "model.init_deviation=1.5"]
        result = self.good(*self.train("run", *wild, steps=20))
        skipped = json.loads((self.folder / "run/result.json").read_text())["skipped"]
        self.assertTrue(0 < skipped < 20, skipped)
        self.assertIn(f"{skipped} skipped", result.stderr)
        self.assertIn(f"skipped: {skipped} of 20 steps", result.stdout)
        calm = self.good(*self.train("calm", steps=20))
        self.assertNotIn("skipped", calm.stderr + calm.stdout)

    def test_profile_adds_up_to_the_steps(self):
        result = self.document(*self.train(steps=20), "--profile")
        profile = result["profile"]
        self.assertEqual(profile["steps"], 20)
        rows = sum(row["forward_seconds"] + row["backward_seconds"] for row in profile["rows"])
        whole = rows + profile["input_seconds"] + profile["update_seconds"]
        self.assertAlmostEqual(whole / profile["seconds"], 1, delta=0.02)
        self.assertAlmostEqual(profile["seconds"] / result["train_seconds"], 1, delta=0.02)
        self.assertGreater(rows, 0.3 * whole)
        places = {row["place"] for row in profile["rows"]}
        self.assertTrue({"model.embedding", "model.layers[0].attention", "model.layers[1].feed_forward"} <= places, places)

    def test_health_watches_and_changes_nothing(self):
        plain = self.document(*self.train("plain", steps=12))
        watched = self.document(*self.train("watched", "--set", "train.log_every=4", attention="transnormer-t2", steps=12), "--health")
        again = self.document(*self.train("again", steps=12), "--health")
        self.assertEqual(again["loss"], plain["loss"])
        self.assertIsNone(plain["health"])
        health = watched["health"]
        self.assertEqual((health["steps"], health["looked"]), (12, 4))  # steps 1, 4, 8 and 12
        parts = [part["place"] for part in health["parts"]]
        self.assertTrue({"model.embedding", "model.layers[0]", "model.layers[1]"} <= set(parts), parts)
        first, second = health["attention"]
        self.assertEqual([first["theory"], second["theory"]], ["softmax", "norm"])
        self.assertLessEqual(first["derivative"], 0.25)
        for layer in (first, second):
            self.assertTrue(0 < layer["gradient"] <= layer["gradient_bound"], layer)
        with open(self.folder / "watched/health.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual(sorted({int(row["step"]) for row in rows}), [1, 4, 8, 12])
        self.assertEqual(len(rows), 4 * (len(parts) + 2))
        page = (self.folder / "watched/report.html").read_text()
        for word in ["relative deviation", "largest logit", "Norms of gradients", "health.csv"]:
            self.assertIn(word, page)
        self.assertFalse((self.folder / "plain/health.csv").exists())
        self.bad(2, ["--profile", "--health"], *self.train("both"), "--profile", "--health")

    def test_health_names_the_layer_that_goes_wrong(self):
        result = self.good(*self.train("wild", "--set", "model.init_deviation=6", attention="softmax", steps=6), "--health")
        self.assertRegex(result.stderr, r"model\.layers\[0\]\.attention: (logits up to|saturated rows: )")
        self.assertRegex(result.stdout, r"step 1: model\.layers\[0\]\.attention: ")

    def test_profile_is_a_table_by_layer_and_by_operation(self):
        text = self.good(*self.train(steps=4), "--profile").stdout
        for word in ["one step of 4", "layer", "operation", "forward", "backward", "memory kept", "linear", "(update)",
                     "model.layers[1].attention"]:
            self.assertIn(word, text)
        plain = self.good(*self.train("plain", steps=4)).stdout
        self.assertNotIn("one step of", plain)
        self.assertIsNone(json.loads((self.folder / "plain/result.json").read_text()).get("profile"))

    def test_quiet_and_json(self):
        result = self.good(*self.train(), "--quiet", "--json")
        self.assertEqual(result.stderr, "")
        json.loads(result.stdout)


class Resume(CliTest):
    def interrupt(self, arguments, until, times=1, sent=signal.SIGINT):
        """Starts, waits for a file, presses Ctrl-C; gives the exit code and what was said."""
        process = subprocess.Popen([PROGRAM, *map(str, arguments)], cwd=self.folder, env=self.environment(), text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        deadline = time.time() + 400
        while not (self.folder / until).exists() and process.poll() is None and time.time() < deadline:
            time.sleep(0.02)
        for _ in range(times):
            process.send_signal(sent)
            time.sleep(0.3 if times > 1 else 0)
        _, text = process.communicate(timeout=400)
        return process.returncode, text

    def test_interrupted_run_goes_on_as_if_it_had_not_stopped(self):
        long = ["--set", "train.checkpoint_every=5", "--set", "train.schedule=constant"]
        code, text = self.interrupt(self.train("run", *long, steps=100000), "run/last/state.json")
        self.assertEqual(code, 130, text)
        self.assertIn("fovea train --resume run", text)
        step = json.loads((self.folder / "run/last/state.json").read_text())["step"]
        self.assertGreater(step, 0)
        self.good("train", "--resume", "run", "--steps", step + 5, "--threads", "1")
        self.good(*self.train("straight", *long, steps=step + 5))
        for name in ["last/model.safetensors", "last/optimizer.safetensors"]:
            self.assertEqual((self.folder / "run" / name).read_bytes(), (self.folder / "straight" / name).read_bytes())

    def test_closed_terminal_and_polite_kill_save_too(self):
        for sent in [signal.SIGHUP, signal.SIGTERM]:
            code, text = self.interrupt(self.train(sent.name, steps=100000), f"{sent.name}/metrics.csv", sent=sent)
            self.assertEqual(code, 130, text)
            self.assertTrue((self.folder / sent.name / "last/state.json").exists())

    def test_pipe_that_nobody_reads_saves_too(self):
        process = subprocess.Popen([PROGRAM, *map(str, self.train(steps=100000))], cwd=self.folder,
                                   env=self.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        process.stderr.close()
        self.assertEqual(process.wait(timeout=400), 130)
        self.assertTrue((self.folder / "run/last/state.json").exists())

    def test_run_that_goes_on_belongs_to_its_process(self):
        process = subprocess.Popen([PROGRAM, *map(str, self.train(steps=100000))], cwd=self.folder,
                                   env=self.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while not (self.folder / "run/metrics.csv").exists() and process.poll() is None:
            time.sleep(0.02)
        self.bad(2, [f"process {process.pid} on ", "run"], "train", "--resume", "run")
        self.bad(2, [f"process {process.pid} on ", "run"], *self.train())
        self.assertIsNone(process.poll())
        process.send_signal(signal.SIGKILL)
        process.wait()
        self.good("train", "--resume", "run", "--steps", 4, "--threads", "1")

    def test_killed_before_the_first_checkpoint(self):
        never = ["--set", "train.checkpoint_every=0", "--set", "train.eval_every=0"]
        code, _ = self.interrupt(self.train("run", *never, steps=100000), "run/metrics.csv", sent=signal.SIGKILL)
        self.assertEqual(code, -signal.SIGKILL)
        self.assertFalse((self.folder / "run/last").exists())
        self.good("train", "--resume", "run", "--steps", 6, "--threads", "1")
        self.good(*self.train("straight", *never, steps=6))
        same = lambda run: (self.folder / run / "last/model.safetensors").read_bytes()
        self.assertEqual(same("run"), same("straight"))
        self.interrupt(self.train("again", *never, steps=100000), "again/metrics.csv", sent=signal.SIGKILL)
        self.good(*self.train("again", *never, steps=6))
        self.assertEqual(same("again"), same("straight"))

    def test_comparison_killed_while_it_makes_its_data(self):
        arguments = ["lra", "listops", "--attention", "norm", "--out", "cmp", "--threads", "1", "--set", "data.train=90000"]
        code, _ = self.interrupt(arguments, "cmp/.lock", sent=signal.SIGKILL)
        self.assertEqual(code, -signal.SIGKILL)
        self.good("lra", "listops", "--attention", "norm", "--data", "data", "--steps", 2, "--out", "cmp", *SMALL)

    def test_finished_run_is_left_as_it_is(self):
        result = self.document(*self.train(steps=6))
        before = self.snapshot("run")
        again = self.good("train", "--resume", "run", "--threads", "1")
        self.assertIn("finished before", again.stderr)
        self.assertNotIn("nan", again.stdout)
        self.assertEqual(self.snapshot("run"), before)
        more = self.document("train", "--resume", "run", "--steps", "9", "--threads", "1")
        self.assertEqual(more["steps"], 9)
        self.assertGreater(more["tokens"], result["tokens"])
        self.assertGreaterEqual(more["peak_memory"], result["peak_memory"])

    def test_measurements_of_a_killed_run_are_those_of_the_whole(self):
        self.good(*self.train(steps=6))
        whole = json.loads((self.folder / "run/result.json").read_text())
        (self.folder / "run/result.json").unlink()  # as if killed while it was tested
        again = self.document("train", "--resume", "run", "--threads", "1")
        for key in ["tokens", "steps", "peak_memory", "zones", "train_seconds", "loss", "accuracy"]:
            self.assertEqual(again[key], whole[key], key)

    def test_run_does_not_depend_on_the_folder_it_was_started_in(self):
        self.good(*self.train(steps=3))
        elsewhere = self.folder / "elsewhere"
        elsewhere.mkdir()
        subprocess.run([PROGRAM, "train", "--resume", "../run", "--steps", "5", "--threads", "1"], cwd=elsewhere, check=True,
                       env=self.environment(), capture_output=True)
        subprocess.run([PROGRAM, "eval", "../run"], cwd=elsewhere, check=True, env=self.environment(), capture_output=True)

    def test_older_checkpoint_is_offered_for_a_damaged_one(self):
        often = ["--set", "train.checkpoint_every=3", "--set", "train.schedule=constant"]
        self.good(*self.train("run", *often, steps=9))
        path = self.folder / "run/last/optimizer.safetensors"
        data = bytearray(path.read_bytes())
        data[-1] ^= 0x40
        path.write_bytes(data)
        self.bad(3, ["damaged", "optimizer.safetensors", "run/step-6"], "train", "--resume", "run", "--steps", "12",
                 "--threads", "1")
        self.good("train", "--resume", "run/step-6", "--steps", "12", "--threads", "1")
        self.good(*self.train("straight", *often, steps=12))
        same = lambda run: (self.folder / run / "last/model.safetensors").read_bytes()
        self.assertEqual(same("run"), same("straight"))

    def test_second_interrupt_stops_at_once(self):
        code, text = self.interrupt(self.train("run", steps=100000), "run/metrics.csv", times=5)
        self.assertEqual(code, 130, text)

    def test_comparison_can_go_on(self):
        arguments = ["lra", "listops", "--attention", "norm,linear", "--data", "data", "--steps", 1000, "--out", "cmp",
                     *SMALL, "--set", "train.checkpoint_every=20"]
        code, text = self.interrupt(arguments, "cmp/linear/last/state.json")
        self.assertEqual(code, 130, text)
        self.assertIn("fovea compare --resume cmp", text)
        finished = (self.folder / "cmp/norm/result.json").read_bytes()
        results = self.document("lra", "listops", "--resume", "cmp", "--threads", "1")["results"]
        self.assertEqual([r["name"] for r in results], ["norm", "linear"])
        self.assertEqual([r["steps"] for r in results], [1000, 1000])
        self.assertEqual((self.folder / "cmp/norm/result.json").read_bytes(), finished)


class Busy(CliTest):
    def waiting_of(self, **environment):
        """What a running program has in its environment about waiting."""
        process = subprocess.Popen([PROGRAM, *map(str, self.train(f"run{len(environment)}", steps=100000))], cwd=self.folder,
                                   env=self.environment(**environment), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        while not (self.folder / f"run{len(environment)}/metrics.csv").exists() and process.poll() is None:
            time.sleep(0.02)
        words = Path(f"/proc/{process.pid}/environ").read_bytes().decode().split("\0")
        return [word for word in words if word.startswith(("GOMP_SPINCOUNT=", "OMP_WAIT_POLICY="))]

    def test_waiting_threads_soon_leave_their_core(self):
        self.assertEqual(self.waiting_of(), ["GOMP_SPINCOUNT=3000"])
        self.assertEqual(self.waiting_of(OMP_WAIT_POLICY="active"), ["OMP_WAIT_POLICY=active"])


class Compare(CliTest):
    def compare(self, *more):
        return ["lra", "listops", "--attention", "softmax,diag:block=4,weights=rela,transnormer-t1", "--data", "data",
                "--steps", 20, "--out", "cmp", *SMALL, *more]

    def test_table_report_and_pictures(self):
        result = self.good(*self.compare())
        self.assertIn("majority", result.stderr)
        for name in ["softmax", "diag:block=4,weights=rela", "transnormer-t1", "accuracy", "steps/s", "parameters"]:
            self.assertIn(name, result.stdout)
        files = self.snapshot("cmp")
        for name in ["report.html", "results.csv", "accuracy.png", "loss-by-time.png", "diag-block-4-weights-rela/run.json"]:
            self.assertIn(name, files)
        self.assertTrue(files["accuracy.png"].startswith(b"\x89PNG"))
        page = files["report.html"].decode()
        self.assertIn("prefers-color-scheme", page)
        self.assertNotRegex(page, r'(src|href)="https?:')

    def test_the_report_leads_to_what_the_models_read(self):
        self.good(*self.compare())
        page = (self.folder / "cmp/inspect.html").read_text()
        self.assertTrue('href="inspect.html"' in (self.folder / "cmp/report.html").read_text(), "no link")
        for name in ["softmax", "transnormer-t1", '"tokens":["[M']:
            self.assertTrue(name in page, name)

    def test_profile_is_in_the_page(self):
        text = self.good(*self.compare("--profile")).stdout
        self.assertEqual(text.count("one step of 20"), 3)
        page = (self.folder / "cmp/report.html").read_text()
        for word in ["softmax: profile", "model.layers[0].feed_forward", "transnormer-t1-profile.csv"]:
            self.assertIn(word, page)

    def test_document(self):
        document = self.document(*self.compare())
        self.assertEqual(len(document["results"]), 3)
        self.assertTrue(0 < document["majority_share"] < 1)

    def test_settings_are_those_of_minutes_not_of_days(self):
        self.good(*self.compare("--set", "train.checkpoint_every=7"))
        for name in ["softmax", "transnormer-t1"]:
            train = json.loads((self.folder / "cmp" / name / "run.json").read_text())["train"]
            wanted = {"lr": 2e-3, "warmup": 50, "clip_norm": 1.0, "length_window": 16, "checkpoint_every": 7}
            self.assertEqual({key: train[key] for key in wanted}, wanted)

    def test_data_keep_their_own_name(self):
        folder = self.folder / "reviews"
        folder.mkdir()
        for name, count in [("train", 40), ("dev", 8), ("test", 8)]:
            lines = [f"{'pos' if i % 3 else 'neg'}\tit was {'good' if i % 3 else 'bad'} {i}" for i in range(count)]
            (folder / f"{name}.tsv").write_text("\n".join(lines) + "\n")
        result = self.good("lra", "listops", "--attention", "norm", "--data", "reviews", "--steps", "3", "--out", "cmp", *SMALL)
        page = (self.folder / "cmp/report.html").read_text()
        self.assertIn("reviews", page)
        self.assertNotIn("trained on ListOps", page)
        self.assertNotIn("<title>ListOps", page)
        self.assertIn("taken for labels", result.stderr)

    def test_names(self):
        self.bad(2, ["twice"], "lra", "listops", "--attention", "norm,norm", "--data", "data")
        self.bad(2, ['"nrm"', '"norm"?'], "lra", "listops", "--attention", "softmax,nrm", "--data", "data")
        self.assertEqual(os.listdir(self.folder), ["data"])


class Data(CliTest):
    def test_written_files_can_be_trained_on(self):
        counts = ["--train", "4", "--validation", "2", "--test", "2", "--seed", "3"]
        self.good("data", "listops", "--out", "lo", *counts)
        lines = (self.folder / "lo/basic_train.tsv").read_text().splitlines()
        self.assertEqual(lines[0], "Source\tTarget")
        self.assertEqual(len(lines), 5)
        self.good("data", "listops", "--out", "again", *counts, "--threads", "1")
        self.assertEqual(self.snapshot("lo"), self.snapshot("again"))
        self.good("train", "--attention", "norm", "--data", "lo", "--steps", "1", "--out", "run", *SMALL)

    def test_plain_file_names(self):
        for name in ["train", "val", "test"]:
            (self.folder / f"data/basic_{name}.tsv").rename(self.folder / f"data/{name}.tsv")
        self.good(*self.train())

    def test_does_not_overwrite(self):
        before = self.snapshot("data")
        self.bad(2, ["not empty", "--out"], "data", "listops", "--out", "data", "--train", "4")
        self.assertEqual(self.snapshot("data"), before)


if __name__ == "__main__":
    unittest.main()
