"""Models of other libraries, as small as they come, in the files that those write."""

import random
import shutil
import struct
from pathlib import Path

ENCODER = Path(__file__).resolve().parents[1] / "fixtures/pretrained/tiny-encoder"


def bert(folder):
    """BERT as transformers saves it: the sentence encoder of the fixtures without the files of such encoders."""
    folder.mkdir()
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        shutil.copy(ENCODER / name, folder)


def stories(folder):
    """stories260K.bin and tok512.bin in the layout of llama2.c: 2 layers of width 16, random weights, letters for words."""
    width, hidden, layers, heads, kv_heads, positions = 16, 24, 2, 4, 2, 512
    pieces = [b"<unk>", b"\n<s>\n", b"\n</s>\n", *(b"<0x%02X>" % i for i in range(256)), *(bytes([c]) for c in b" etaoinshrdlucmfwypvbgkjqxz.,TLO")]
    kv = width // heads * kv_heads
    generator = random.Random(7)

    def matrices(count, deviation):
        return struct.pack(f"<{count}f", *(generator.gauss(0, deviation) for _ in range(count)))
    ones = struct.pack("<f", 1.0)
    parts = [struct.pack("<7i", width, hidden, layers, heads, kv_heads, len(pieces), positions), matrices(len(pieces) * width, 0.3),
             ones * layers * width, *(matrices(layers * width * n, 0.2) for n in (width, kv, kv, width)), ones * layers * width,
             *(matrices(layers * width * hidden, 0.2) for _ in range(3)), ones * width, bytes(4 * positions * (width // heads))]
    (folder / "stories260K.bin").write_bytes(b"".join(parts))
    words = b"".join(struct.pack("<fi", -float(i), len(piece)) + piece for i, piece in enumerate(pieces))
    (folder / "tok512.bin").write_bytes(struct.pack("<i", max(map(len, pieces))) + words)
