"""What a program may be given by mistake: each gets a short text that names the field or file, an exit code that is
not 0, and loses nothing."""

import json
import lzma
import os
import shutil
import struct
import unittest

from support import SMALL, CliTest, write_data


class Settings(CliTest):
    def config(self, settings):
        text = settings if isinstance(settings, str) else json.dumps(settings)
        (self.folder / "c.json").write_text(text)
        return ["train", "--config", "c.json", "--data", "data", "--out", "run"]

    def test_misspelt_key(self):
        self.bad(3, ["c.json", "train.stps", '"steps"?'], *self.config({"train": {"stps": 3}}))
        self.bad(2, ["--set", "train.stps", "--set train.steps=3"], *self.train(), "--set", "train.stps=3")
        self.assertFalse((self.folder / "run").exists())

    def test_wrong_value(self):
        self.bad(3, ["c.json", "train.batch", "0"], *self.config({"train": {"batch": 0}}))
        self.bad(3, ["c.json", "model.layers", "list"], *self.config({"model": {"layers": 3}}))
        self.bad(2, ["train.lr"], *self.train(), "--set", "train.lr=fast")
        self.bad(2, ["NAME=VALUE"], *self.train(), "--set", "train.lr")

    def test_not_json(self):
        for text in ["", "{", "\x1b[31m", '{"train": {"steps": 5}', "[" * 200, '{"train": {"steps": 1, "steps": 2}}', "\xff\x00"]:
            told = self.bad(3, ["c.json"], *self.config(text))
            self.assertNotRegex(told, r"syntax error|json\.exception|last read|literal")
        self.bad(3, ["nowhere.json"], "train", "--config", "nowhere.json")
        self.bad(3, ["no such file", '"c.json"?'], "train", "--config", "d.json")

    def test_what_is_wrong_with_json(self):
        for text, words in [("{", "ends too early"), ('{"a": tru}', "none of true, false and null"), ('{"a": 1e999}', "too large"),
                            ('{"a": 1,}', "comma"), ('{"a": "b\nc"}', "control character"), ('{"a": "\\q"}', "means nothing")]:
            self.bad(3, ["c.json", "line" if "e999" not in text else "json", words], *self.config(text))

    def test_flags_take_no_value_and_options_have_company(self):
        self.bad(2, "--json takes no value", "list", "--json=abc")
        self.bad(2, "--quiet takes no value", "train", "--quiet=yes")
        self.bad(2, ["--prompt", "do not go together"], "generate", "x", "--prompt", "a", "--data", "data/basic_test.tsv")
        self.bad(2, ["--references needs --data"], "generate", "x", "--references", "data/basic_test.tsv")

    def test_combination(self):
        self.bad(2, ["heads", "16"], *self.train(), "--set", "model.heads=3")
        self.bad(2, ["layers[1]", '"norm"?'], *self.train(), "--set", "model.layers=softmax,nrm")
        self.bad(2, ["block", "65536"], *self.train(attention="diag:block=0"))
        self.bad(2, ["accumulation"], *self.train(), "--set", "train.accumulation=3")
        self.bad(2, ["model.layers"], *self.config({"model": {"layers": ["norm"]}}), "--attention", "softmax")
        self.bad(2, ["window", "fovea list --with window"], "bench", "attention", "--attention", "norm", "--window", "8",
                 "--n", "64", "--rounds", "1")

    def test_mechanisms(self):
        bench = ["bench", "attention", "--n", "64", "--rounds", "1"]
        self.bad(2, ['"linformer" has no causal form', "list --with causal"], *bench, "--causal", "--attention", "linformer")
        self.bad(2, ["features", "between 1 and 65536, not 0"], *bench, "--attention", "performer:features=0")
        self.bad(2, ["landmarks", "between 1"], *self.train(attention="nystrom:landmarks=0"))
        self.good(*bench, "--attention", "diag:block=4096")  # larger than the sequence: full attention
        self.good(*bench, "--attention", "nystrom:landmarks=7")  # does not divide it

    def test_settings_the_model_cannot_have(self):
        self.bad(2, ["dtype"], *self.train(), "--dtype", "f8")
        self.bad(3, ["max_length"], *self.train(), "--set", "model.max_length=4")


class Examples(CliTest):
    def with_line(self, line, split="train"):
        path = self.folder / f"data/basic_{split}.tsv"
        lines = path.read_text().splitlines()
        lines[4] = line
        path.write_text("\n".join(lines) + "\n")
        return f"basic_{split}.tsv:5"

    def test_malformed_lines_are_named(self):
        for line, word in [("( [MAX 1 ) ] )", ""), ("( ( [MAX 1 ) ] )\t1\textra", ""), ("( ( ( [MAX 1 ) 12 ) ] )\t1", "12"),
                           ("( ( ( [MAX 1 ) 2 ) ] )\tx", "x"), ("( ( ( [MAX 1 ) 2 )\t2", ""), ("\t3", ""),
                           ("( ( ( [AVG 1 ) 2 ) ] )\t1", "[AVG"), ("( ( ( [MAX 1 ) 2 ) ] )\t7", "7")]:
            shutil.rmtree(self.folder / "data")
            write_data(self.folder / "data")
            place = self.with_line(line)
            self.bad(3, [place, word], *self.train())
        self.assertFalse((self.folder / "run").exists())

    def test_header_empty_and_missing_files(self):
        path = self.folder / "data/basic_val.tsv"
        text = path.read_text()
        path.write_text(text.replace("Source", "Sauce"))
        self.bad(3, ["basic_val.tsv"], *self.train())
        path.write_text("")
        self.bad(3, ["basic_val.tsv"], *self.train())
        path.unlink()
        self.bad(3, ["basic_val.tsv"], *self.train())
        self.bad(3, ["nowhere"], "train", "--data", "nowhere")

    def test_truncated_anywhere(self):
        path = self.folder / "data/basic_test.tsv"
        whole = path.read_bytes()
        for cut in range(1, len(whole), 97):
            path.write_bytes(whole[:cut])
            result = self.fovea("train", "--attention", "norm", "--data", "data", "--steps", "1", "--out", f"run{cut}",
                                *SMALL)
            self.assertIn(result.returncode, (0, 3), (cut, result.stderr))
            if result.returncode == 3:
                self.assertIn("basic_test.tsv", result.stderr)


class Checkpoints(CliTest):
    def setUp(self):
        super().setUp()
        self.good(*self.train())
        self.model = self.folder / "run/best/model.safetensors"

    def spoil(self, data):
        self.model.write_bytes(data)
        return self.bad(3, ["model.safetensors"], "eval", "run")

    def test_safetensors(self):
        whole = self.model.read_bytes()
        size = struct.unpack("<Q", whole[:8])[0]
        header = json.loads(whole[8:8 + size])
        body = whole[8 + size:]

        def rebuilt(changed, data=body):
            text = json.dumps(changed).encode()
            return struct.pack("<Q", len(text)) + text + data

        names = [n for n in header if n != "__metadata__"]
        for cut in [0, 4, 8, 8 + size // 2, 8 + size, len(whole) - 1]:
            self.spoil(whole[:cut])
        self.spoil(struct.pack("<Q", 1 << 60) + whole[8:])
        self.spoil(rebuilt({**header, names[0]: {**header[names[0]], "dtype": "F99"}}))
        self.spoil(rebuilt({**header, names[0]: header[names[1]]}))
        self.spoil(rebuilt({**header, names[0]: {**header[names[0]], "data_offsets": [0, len(body) + 8]}}))
        missing = {n: v for n, v in header.items() if n != names[0]}
        self.spoil(rebuilt(missing))
        self.model.write_bytes(whole)
        self.good("eval", "run")

    def test_numbers_that_are_damaged_or_none(self):
        whole = self.model.read_bytes()
        size = struct.unpack("<Q", whole[:8])[0]
        header = json.loads(whole[8:8 + size])
        last = max((n for n in header if n != "__metadata__"), key=lambda n: header[n]["data_offsets"][1])
        for value in [struct.pack("<I", struct.unpack("<I", whole[-4:])[0] ^ 0x40000000), struct.pack("<f", float("nan"))]:
            self.model.write_bytes(whole[:-4] + value)
            self.bad(3, ["damaged", f'"{last}"', "model.safetensors"], "eval", "run")
        (self.model.parent / "checksums.json").unlink()
        self.bad(3, ["not finite", f'"{last}"', "model.safetensors"], "eval", "run")
        self.bad(3, ["not finite", "model.safetensors"], "train", "--resume", "run/best", "--steps", "9")
        self.model.write_bytes(whole[:8 + size] + struct.pack("<f", 3e38) * ((len(whole) - 8 - size) // 4))
        self.assertIn("loss 2.3026", self.good("eval", "run").stdout)  # ten logits of the same size: log 10

    def test_config_of_a_checkpoint(self):
        path = self.folder / "run/best/config.json"
        whole = path.read_text()
        path.write_text(whole[:len(whole) // 2])
        self.bad(3, ["config.json"], "eval", "run")
        path.write_text(whole.replace('"width": 16', '"width": 32'))
        self.bad(3, ["damaged", "config.json"], "eval", "run")
        (path.parent / "checksums.json").unlink()
        self.bad(3, ["more parameters than were stored", "model.safetensors", "config.json"], "eval", "run")
        path.unlink()
        self.bad(3, ["config.json"], "eval", "run")

    def test_checkpoint_of_another_architecture(self):
        self.good(*self.train("other", attention="softmax"))
        shutil.rmtree(self.folder / "run/last")
        shutil.copytree(self.folder / "other/last", self.folder / "run/last")
        before = self.snapshot("run")
        self.bad(3, ["layers", "run/last"], "train", "--resume", "run", "--steps", "9", "--threads", "1")
        after = self.snapshot("run")
        self.assertEqual({k: v for k, v in before.items() if k.startswith(("best", "last"))},
                         {k: v for k, v in after.items() if k.startswith(("best", "last"))})

    def test_folders_that_hold_no_run(self):
        self.bad(3, ["data", "run.json"], "train", "--resume", "data")
        self.bad(3, ["nowhere"], "eval", "nowhere")
        self.bad(3, ["comparison.json"], "lra", "listops", "--resume", "run")

    def test_a_finished_run_is_not_overwritten(self):
        before = self.snapshot("run")
        self.bad(2, ["not empty", "--resume run"], *self.train())
        self.assertEqual(self.snapshot("run"), before)


class Files(CliTest):
    """Things that stand where a file should."""

    def test_names_that_are_nearly_right(self):
        (self.folder / "input.txt").write_text("to be or not to be\n" * 99)
        self.bad(3, ["no such file", '"input.txt"?'], "train", "--data", "inptu.txt")
        self.bad(3, ["no such file", '"data/basic_val.tsv"?'], "train", "--data", "data/basic_vla.tsv")
        self.bad(3, ["no such file", "ls ."], "train", "--data", "quite/another/thing.txt")
        self.bad(3, ["no such file", '"listops"?'], "train", "--data", "listop")
        self.bad(3, ["no folder", '"data"?'], "generate", "daat", "--prompt", "x")
        self.bad(3, ["found a file"], "data", "listops", "--out", "input.txt", "--train", "1", "--validation", "1", "--test", "1")
        self.bad(3, ['"byts"', "--set data.tokenizer=bytes"], "train", "--data", "input.txt", "--set", "data.tokenizer=byts")

    def shards(self):
        (self.folder / "words.txt").write_text("to be or not to be, that is the question\n" * 50)
        self.good("tokenize", "train", "--data", "words.txt", "--out", "tok", "--vocabulary", "270", "--threads", "1")
        self.good("tokenize", "encode", "--tokenizer", "tok", "--data", "words.txt", "--out", "ids", "--threads", "1")
        shard = self.folder / "ids/tokens-00000.bin"
        shard.unlink()
        return shard, ["train", "--data", "ids", "--steps", "1", "--out", "run", "--threads", "1"]

    def test_a_pipe_as_a_shard(self):
        shard, command = self.shards()
        os.mkfifo(shard)
        self.bad(3, ["tokens-00000.bin", "ordinary file"], *command)

    def test_a_loop_of_links_as_a_shard(self):
        shard, command = self.shards()
        shard.symlink_to(shard.name)
        self.bad(1, ["tokens-00000.bin", "leads back to itself"], *command)

    def test_names_that_are_too_long(self):
        self.bad(1, ["xxx", "shorter name"], *self.train("x" * 300))
        self.bad(1, ["xxx", "shorter name"], "data", "listops", "--out", "x" * 300)
        self.bad(1, ["xxx", "shorter name"], "train", "--data", "x" * 300)

    def test_text_that_is_none(self):
        train = ["train", "--data", "a.txt", "--steps", "1", "--out", "run", "--threads", "1"]
        for content, word in [("to be or not to be\n".encode("utf-16") * 9, "UTF-16"), (bytes(range(256)) * 9, "byte 0 is zero"),
                              ("Gr\u00fc\u00dfe\n".encode("latin-1") * 99, "not UTF-8")]:
            (self.folder / "a.txt").write_bytes(content)
            self.bad(3, ["a.txt", word, "iconv"], *train)
            self.bad(3, ["a.txt", word], "tokenize", "train", "--data", "a.txt", "--out", "tok")

    def test_packed_files_that_grow_too_much(self):
        (self.folder / "a.txt.xz").write_bytes(lzma.compress(b"to be or not to be\n" * (5 << 20)))
        train = ["train", "--data", "a.txt.xz", "--steps", "1", "--out", "run", "--threads", "1"]
        limited = ["bash", "-c", 'ulimit -v 3000000; exec "$@"', "limited"]
        self.bad(3, ["a.txt.xz", "more than 100 times its size", "xz -d"], *train, prefix=limited)
        self.bad(3, ["a.txt.xz", "more than the 20000000 bytes", "memory"], *train, "--memory-limit", "20MB", prefix=limited)


class System(CliTest):
    def test_out_of_memory(self):
        self.bad(1, ["limit is 1 MB"], *self.train("run", "--set", "model.inner=65536"), "--memory-limit", "2MB")
        self.bad(1, ["limit"], "bench", "attention", "--n", "4096", "--memory-limit", "1MB")

    def test_output_folder_is_a_file(self):
        (self.folder / "file").write_text("mine")
        self.bad(2, ["file", "--out"], *self.train("file"))
        self.bad(1, ["file"], *self.train("file/inside"))
        self.assertEqual((self.folder / "file").read_text(), "mine")

    def test_read_only_folder(self):
        # /proc refuses new folders even to root.
        self.bad(1, ["/proc/fovea"], *self.train("/proc/fovea"))

    def test_full_disk(self):
        """A limit on file sizes makes writes fail as a full disk does; the old checkpoint must survive."""
        self.good(*self.train())
        before = self.snapshot("run/last")
        limited = ["bash", "-c", 'trap "" XFSZ; ulimit -f 8; exec "$@"', "limited"]
        self.bad(1, ["cannot write", "last"], "train", "--resume", "run", "--steps", "9", "--threads", "1", prefix=limited)
        self.assertEqual(self.snapshot("run/last"), before)
        self.good("train", "--resume", "run", "--steps", "9", "--threads", "1")

    def test_full_disk_for_data(self):
        limited = ["bash", "-c", 'trap "" XFSZ; ulimit -f 1; exec "$@"', "limited"]
        self.bad(1, ["basic_train.tsv"], "data", "listops", "--out", "lo", "--train", "20", "--validation", "1", "--test",
                 "1", prefix=limited)
        self.assertEqual([p.name for p in (self.folder / "lo").rglob("*")], [])


if __name__ == "__main__":
    unittest.main()
