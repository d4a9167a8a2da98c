"""Models of others: import, embed and export."""

import json
import shutil
import struct
import unittest
from pathlib import Path

from support import CliTest

ENCODER = Path(__file__).resolve().parents[1] / "fixtures/pretrained/tiny-encoder"


class Pretrained(CliTest):
    def test_import_embed_export(self):
        result = self.good("import", ENCODER, "--out", "encoder")
        self.assertIn("BertModel", result.stdout)
        self.assertIn("pooler.dense.weight", result.stderr)
        (self.folder / "texts.txt").write_text("the cat sits\na cat sits\r\ntrees\n")
        shown = self.good("embed", "encoder", "--data", "texts.txt", "--neighbours", 1, "--out", "v.npy").stdout
        self.assertRegex(shown, r"^the cat sits\n   0\.\d{3}  a cat sits\n")
        data = (self.folder / "v.npy").read_bytes()
        self.assertIn(b"(3, 8, )", data)
        first = struct.unpack("<8f", data[-96:-64])
        self.assertAlmostEqual(sum(x * x for x in first), 1.0, places=5)
        self.good("embed", "encoder", "--text", "the cat sits", "--out", "v.csv")
        numbers = [float(x) for x in (self.folder / "v.csv").read_text().split(",")]
        self.assertEqual([round(x, 5) for x in numbers], [round(x, 5) for x in first])
        document = self.document("embed", "encoder", "--data", "texts.txt", "--neighbours", 2)
        self.assertEqual([row[0]["row"] for row in document["neighbours"]][:2], [1, 0])

        self.good("export", "encoder", "--out", "back")
        config = json.loads((self.folder / "back/config.json").read_text())
        self.assertEqual(config["architectures"], ["BertModel"])
        self.assertEqual(config["max_position_embeddings"], 12)
        self.assertEqual(self.document("import", "back", "--out", "again")["left_out"], [])
        self.assertEqual(self.snapshot("again"), self.snapshot("encoder"))

    def test_wrong_usage(self):
        self.good("import", ENCODER, "--out", "encoder")
        before = self.snapshot("encoder")
        self.bad(2, ['"encoder"'], "import", ENCODER, "--out", "encoder")
        self.bad(2, ['"encoder"'], "export", "encoder", "--out", "encoder")
        self.assertEqual(self.snapshot("encoder"), before)
        self.bad(2, ['"v.txt"', ".npy"], "embed", "encoder", "--text", "a", "--out", "v.txt")
        self.bad(2, ["--out FILE"], "embed", "encoder", "--text", "a")
        self.bad(2, ["no texts", "--text"], "embed", "encoder", "--out", "v.npy")
        self.bad(2, ['"maen"', '"mean"?'], "import", ENCODER, "--out", "x", "--pooling", "maen")
        self.bad(2, ['"brt"', '"bert"?'], "export", "encoder", "--out", "x", "--format", "brt")

    def test_broken_folders(self):
        broken = self.folder / "broken"
        shutil.copytree(ENCODER, broken)
        weights = broken / "model.safetensors"
        size = weights.stat().st_size
        weights.write_bytes(weights.read_bytes()[:-10])
        self.bad(3, [f"it has {size - 10} bytes, {size} are expected", "model.safetensors"], "import", "broken", "--out", "x")
        config = json.loads((broken / "config.json").read_text())
        (broken / "config.json").write_text(json.dumps({**config, "soft_cap": 3}))
        self.bad(2, ['"soft_cap"', "--ignore soft_cap"], "import", "broken", "--out", "x")
        self.bad(3, ["expected", "model.safetensors"], "import", "broken", "--out", "x", "--ignore", "soft_cap")
        self.assertFalse((self.folder / "x").exists())


if __name__ == "__main__":
    unittest.main()
