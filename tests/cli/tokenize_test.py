"""Training tokenisers, encoding text into shards, showing tokens."""

import json
import lzma
import struct
import unittest

from support import CliTest

TEXT = "the quick brown fox jumps over the lazy dog's café 😀\n" * 200


class Tokenize(CliTest):
    def setUp(self):
        super().setUp()
        (self.folder / "corpus.txt").write_text(TEXT)
        (self.folder / "texts").mkdir()
        (self.folder / "texts" / "a.txt").write_text("the fox\n")
        (self.folder / "texts" / "b.txt.xz").write_bytes(lzma.compress(b"the dog \xff\n" + b"the dog\n" * 20))

    def trained(self):
        self.good("tokenize", "train", "--data", "corpus.txt", "--vocabulary", "300", "--out", "tok", "--quiet")

    def test_from_text_to_shards(self):
        result = self.good("tokenize", "train", "--data", "corpus.txt", "--vocabulary", "300", "--out", "tok")
        self.assertRegex(result.stdout, r"tok: \d+ ids from .*B of text")
        document = json.loads((self.folder / "tok" / "tokenizer.json").read_text())
        self.assertEqual(document["model"]["vocab"]["<|endoftext|>"], 0)
        result = self.good("tokenize", "encode", "--tokenizer", "tok", "--data", "texts", "--out", "ids", "--json")
        counted = json.loads(result.stdout)
        self.assertEqual(counted["files"], 2)
        index = json.loads((self.folder / "ids" / "index.json").read_text())
        data = (self.folder / "ids" / "tokens-00000.bin").read_bytes()
        ids = struct.unpack(f"<{len(data) // 2}H", data)
        self.assertEqual(index["tokens"], counted["tokens"])
        self.assertEqual(len(ids), counted["tokens"])
        self.assertEqual(ids.count(0), 2)  # each file ends with the end-of-text token
        self.assertEqual(ids[-1], 0)

    def test_shows_the_tokens_of_a_text(self):
        self.trained()
        page = self.good("tokenize", "text", "the fox\n<|endoftext|>", "--tokenizer", "tok").stdout
        self.assertIn('"\\n"', page)
        self.assertRegex(page, r"tokens for 21 bytes")
        tokens = json.loads(self.good("tokenize", "text", "the é", "--tokenizer", "tok", "--json").stdout)
        self.assertEqual(tokens["text"], "the é")
        self.assertEqual(tokens["tokens"][-1]["end"], 6)

    def test_nothing_is_overwritten(self):
        self.trained()
        result = self.fovea("tokenize", "train", "--data", "corpus.txt", "--out", "tok")
        self.assertEqual(result.returncode, 2)
        self.assertIn("exists", result.stderr)
        result = self.fovea("tokenize", "encode", "--tokenizer", "tok", "--data", "corpus.txt", "--out", "tok")
        self.assertEqual(result.returncode, 2)

    def test_bad_input(self):
        self.trained()
        for arguments, message in [
            (["encode", "--tokenizer", "absent", "--data", "texts", "--out", "x"], "no such file"),
            (["encode", "--tokenizer", "texts", "--data", "texts", "--out", "x"], "no tokeniser in this folder"),
            (["encode", "--tokenizer", "tok", "--data", "absent.txt", "--out", "x"], "no such file"),
            (["train", "--data", "absent", "--out", "x"], "no such file"),
        ]:
            result = self.fovea("tokenize", *arguments)
            self.assertEqual(result.returncode, 3, arguments)
            self.assertIn(message, result.stderr)
            self.assertFalse((self.folder / "x").exists())
        (self.folder / "texts" / "c.xz").write_bytes(lzma.compress(b"x" * 9999)[:50])
        result = self.fovea("tokenize", "encode", "--tokenizer", "tok", "--data", "texts", "--out", "x")
        self.assertEqual(result.returncode, 3)
        self.assertIn("cut short", result.stderr)
        self.assertFalse((self.folder / "x").exists())
        self.assertEqual(self.fovea("tokenize", "train", "--data", "corpus.txt", "--vocabulary", "9", "--out", "x").returncode, 2)


if __name__ == "__main__":
    unittest.main()
