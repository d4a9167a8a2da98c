"""Generation: streams, lines, stops, seeds, interruption and what is refused."""

import json
import os
import random
import signal
import struct
import subprocess
import time
import unittest

from support import PROGRAM, CliTest

WIDTH, LENGTH = 16, 64


def shapes(stack, length, cross=False):
    """Names and shapes of what a stack of one layer has."""
    layer = f"{stack}layers.0"
    out = {}
    for norm in ["attention_norm", "feed_forward_norm"] + (["cross_norm"] if cross else []):
        out[f"{layer}.{norm}.gain"] = out[f"{layer}.{norm}.bias"] = [WIDTH]
    products = {"attention.qkv": 3 * WIDTH, "attention.out": WIDTH, "feed_forward.in": WIDTH, "feed_forward.out": WIDTH}
    if cross:
        products |= {"cross.q": WIDTH, "cross.kv": 2 * WIDTH, "cross.out": WIDTH}
    for name, width in products.items():
        out[f"{layer}.{name}.weight"], out[f"{layer}.{name}.bias"] = [WIDTH, width], [width]
    out[f"{stack}final_norm.gain"] = out[f"{stack}final_norm.bias"] = [WIDTH]
    out[f"{stack}embedding.positions"] = [length, WIDTH]
    return out


def write_safetensors(path, tensors, seed):
    generator = random.Random(seed)
    header, data = {}, b""
    for name, shape in sorted(tensors.items()):
        count = 1
        for size in shape:
            count *= size
        block = struct.pack(f"<{count}f", *(generator.gauss(0, 0.7) for _ in range(count)))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(block)]}
        data += block
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def write_model(folder, seed=1, vocabulary=256, **settings):
    """A language model of one layer, with random weights, over bytes."""
    folder.mkdir()
    config = {"task": "lm", "width": WIDTH, "heads": 2, "inner": WIDTH, "layers": ["softmax"], "causal": True,
              "vocabulary": vocabulary, "max_length": LENGTH, "positions": "learned", **settings}
    (folder / "config.json").write_text(json.dumps({"model": config}))
    tensors = {"embedding.tokens": [vocabulary, WIDTH], **shapes("", LENGTH)}
    write_safetensors(folder / "model.safetensors", tensors, seed)


class Generate(CliTest):
    def setUp(self):
        super().setUp()
        write_model(self.folder / "model")

    def generate(self, *more):
        return ["generate", "model", "--threads", "1", *more]

    def text(self, *more):
        return self.document(*self.generate(*more))["results"][0]["text"]

    def raw(self, *arguments):
        """Standard output as bytes: models of bytes may say anything."""
        return subprocess.run([PROGRAM, *map(str, arguments)], cwd=self.folder, capture_output=True,
                              env=self.environment(), timeout=300)

    def test_goes_on_from_the_prompt(self):
        result = self.raw(*self.generate("--prompt", "Once", "--tokens", "8"))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue(result.stdout.startswith(b"Once"))
        self.assertIn(b"8 tokens in", result.stderr)
        self.assertIn(b"tokens/s", result.stderr)
        document = self.document(*self.generate("--prompt", "Once", "--tokens", "8"))
        self.assertEqual(document["tokens"], 8)
        self.assertEqual(len(document["results"][0]["ids"]), 8)
        self.assertEqual(document["results"][0]["end"], "max_tokens")
        self.assertEqual(result.stdout.decode("utf-8", "replace"), "Once" + document["results"][0]["text"] + "\n")
        silent = self.raw(*self.generate("--prompt", "Once", "--tokens", "8", "--out", "once.txt"))
        self.assertEqual(silent.stdout, b"")
        self.assertEqual((self.folder / "once.txt").read_bytes(), result.stdout)

    def test_seeds_decide_the_draws(self):
        draw = ["--prompt", "a", "--temperature", "1.2", "--top-k", "40", "--top-p", "0.95", "--tokens", "20"]
        self.assertEqual(self.text(*draw, "--seed", "1"), self.text(*draw, "--seed", "1"))
        self.assertNotEqual(self.text(*draw, "--seed", "1"), self.text(*draw, "--seed", "2"))

    def test_beams_and_weights(self):
        beams = self.document(*self.generate("--prompt", "a", "--beams", "3", "--tokens", "5"))
        self.assertLess(beams["results"][0]["score"], 0)
        for weights in ["f32", "bf16", "int8"]:
            self.assertEqual(len(self.document(*self.generate("--prompt", "a", "--tokens", "4", "--weights", weights))
                                 ["results"][0]["ids"]), 4)
        self.text("--prompt", "a", "--dtype", "bf16", "--tokens", "3")

    def test_stops_at_a_text(self):
        whole = self.document(*self.generate("--prompt", "a", "--tokens", "30", "--temperature", "1"))["results"][0]
        plain = [c for c in whole["text"] if c.isascii() and c.isprintable() and c != "\\"]
        self.assertTrue(plain)
        result = self.document(*self.generate("--prompt", "a", "--tokens", "30", "--temperature", "1", "--stop",
                                              plain[-1]))["results"][0]
        self.assertEqual(result["end"], "stop_text")
        self.assertEqual(result["text"], whole["text"].split(plain[-1])[0])

    def test_lines_of_a_file(self):
        (self.folder / "prompts.txt").write_text("one\ntwo\r\nthree\n")
        self.good(*self.generate("--data", "prompts.txt", "--out", "out.txt", "--tokens", "6", "--batch", "2"))
        lines = (self.folder / "out.txt").read_bytes().decode("utf-8", "replace").split("\n")
        document = self.document(*self.generate("--data", "prompts.txt", "--tokens", "6"))
        self.assertEqual([r["prompt"] for r in document["results"]], ["one", "two", "three"])
        self.assertEqual(lines[:-1], [r["text"].replace("\n", "\\n").replace("\r", "\\r") for r in document["results"]])

    def test_texts_do_not_depend_on_the_batch(self):
        (self.folder / "prompts.txt").write_text("".join("x" * (1 + i % 5) + f"{i}\n" for i in range(37)))
        for more in [["--temperature", "1.1", "--seed", "3"], ["--weights", "int8"], ["--beams", "2"]]:
            run = self.generate("--data", "prompts.txt", "--tokens", "5", *more)
            together, alone = self.document(*run), self.document(*run, "--batch", "1")
            self.assertEqual(together["results"], alone["results"])
            self.assertEqual(len(together["results"]), 37)

    def test_translates_lines(self):
        folder = self.folder / "translator"
        folder.mkdir()
        side = {"width": WIDTH, "heads": 2, "inner": WIDTH, "layers": ["softmax"], "positions": "learned"}
        config = {"task": "seq2seq", "vocabulary": 256, "max_length": LENGTH, **side,
                  "decoder": {**side, "cross": ["softmax"], "causal": True}}
        (folder / "config.json").write_text(json.dumps({"model": config}))
        tensors = {"encoder.embedding.tokens": [256, WIDTH], **shapes("encoder.", LENGTH),
                   **shapes("decoder.", LENGTH, cross=True)}
        write_safetensors(folder / "model.safetensors", tensors, 3)
        (self.folder / "lines.txt").write_text("ein\nzwei\n")
        message = self.bad(2, ["start"], "generate", "translator", "--data", "lines.txt", "--threads", "1")
        self.assertIn("--start", message)
        document = self.document("generate", "translator", "--data", "lines.txt", "--start", "1", "--tokens", "5",
                                 "--beams", "2", "--threads", "1")
        self.assertEqual([len(r["ids"]) for r in document["results"]], [5, 5])

        (self.folder / "references.txt").write_text("one\ntwo\n")
        compared = self.document("generate", "translator", "--data", "lines.txt", "--start", "1", "--tokens", "5",
                                 "--references", "references.txt", "--threads", "1")
        self.assertTrue(0 <= compared["bleu"] < 100 and 0 <= compared["chrf"] < 100)
        (self.folder / "references.txt").write_text("one\n")
        self.bad(3, ["references.txt", "1 lines, but 2 prompts"], "generate", "translator", "--data", "lines.txt",
                 "--references", "references.txt", "--threads", "1")

    def test_a_full_context_ends_the_text(self):
        document = self.document(*self.generate("--prompt", "a" * 60, "--tokens", "30"))
        self.assertEqual(document["results"][0]["end"], "context")
        self.assertEqual(document["tokens"], 5)

    def test_interruption_keeps_what_was_said(self):
        write_model(self.folder / "long", positions="none")
        path = self.folder / "long" / "model.safetensors"
        tensors = {"embedding.tokens": [256, WIDTH], **shapes("", LENGTH)}
        del tensors["embedding.positions"]
        write_safetensors(path, tensors, 1)
        process = subprocess.Popen([PROGRAM, "generate", "long", "--prompt", "a", "--tokens", "100000000", "--threads",
                                    "1"], cwd=self.folder, env=self.environment(), stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        os.set_blocking(process.stdout.fileno(), True)
        first = process.stdout.read(3)
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        rest, said = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, said)
        self.assertEqual(first[:1], b"a")
        self.assertTrue(rest.endswith(b"\n"))
        self.assertIn(b"tokens/s", said)
        self.assertIn(b"stopped after", said)


class Refused(CliTest):
    def setUp(self):
        super().setUp()
        write_model(self.folder / "model")

    def test_settings(self):
        run = ["generate", "model", "--prompt", "a", "--threads", "1"]
        self.bad(2, ["temperature 0", "top_k"], *run, "--top-k", "5")
        self.bad(2, "beam search", *run, "--beams", "2", "--temperature", "1")
        self.bad(2, ["int9", "int8"], *run, "--weights", "int9")
        self.bad(2, "--tokens", *run, "--tokens", "0")
        self.bad(2, "", "generate", "model", "--prompt", "a", "--data", "x")
        self.bad(2, "folder", "generate")

    def test_prompts(self):
        self.bad(3, ["65 tokens, but the model takes 64", "shorter"], "generate", "model", "--prompt", "a" * 65)
        self.bad(2, "without tokens", "generate", "model")
        self.bad(3, "missing.txt", "generate", "model", "--data", "missing.txt")
        (self.folder / "empty.txt").write_text("")
        self.bad(3, ["no lines", "empty.txt"], "generate", "model", "--data", "empty.txt")

    def test_models(self):
        self.bad(3, ["no folder", "nothing"], "generate", "nothing", "--prompt", "a")
        write_model(self.folder / "small", vocabulary=65)
        self.bad(3, ["no tokenizer.json", "65"], "generate", "small", "--prompt", "a")
        (self.folder / "model" / "model.safetensors").write_bytes(b"short")
        self.bad(3, "model.safetensors", "generate", "model", "--prompt", "a")


class BenchDecode(CliTest):
    def test_rows_and_pictures(self):
        small = ["--set", "model.width=16", "--set", "model.heads=2", "--set", "model.inner=16", "--threads", "1"]
        run = ["bench", "decode", "--model", "gpt", "--attention", "norm,softmax", "--tokens", "2", *small]
        rows = self.document(*run, "--context", "512", "--out", "report")["rows"]
        self.assertEqual([(r["attention"], r["context"]) for r in rows],
                         [("norm", 256), ("norm", 512), ("softmax", 256), ("softmax", 512)])
        self.assertEqual(rows[0]["bytes"], rows[1]["bytes"])
        self.assertGreater(rows[3]["bytes"], rows[2]["bytes"])
        for name in ["report.html", "decode-time.png", "decode-memory.png", "decode.csv"]:
            self.assertIn(name, self.snapshot("report"))
        self.assertIn("tokens/s", self.good(*run, "--context", "64,32").stdout)
        self.bad(2, "--context", *run, "--context", "0")

    def test_sequences_together(self):
        small = ["--set", "model.width=16", "--set", "model.heads=2", "--set", "model.inner=16", "--threads", "1"]
        run = ["bench", "decode", "--model", "gpt", "--attention", "norm,softmax", "--tokens", "2", "--context", "40", *small]
        rows = self.document(*run, "--batch", "1,3", "--out", "report")["rows"]
        self.assertEqual([(r["attention"], r["batch"]) for r in rows],
                         [("norm", 1), ("norm", 3), ("softmax", 1), ("softmax", 3)])
        for one, three in zip(rows[::2], rows[1::2]):
            self.assertEqual(three["bytes"], 3 * one["bytes"])
            self.assertAlmostEqual(three["tokens_per_second"] * three["seconds"], 3)
        self.assertIn("batch", self.good(*run, "--batch", "2").stdout)
        self.bad(2, "--batch", *run, "--batch", "0")


if __name__ == "__main__":
    unittest.main()
