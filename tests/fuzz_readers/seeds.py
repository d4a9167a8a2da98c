#!/usr/bin/env python3
"""Writes small files that each reader takes (good*) or refuses (bad*), one folder for each: what fuzzing starts from.

    tests/fuzz_readers/seeds.py FOLDER

Inputs of several files have a line "%%%%" between them.
"""

import base64
import json
import lzma
import struct
import sys
import zlib
from pathlib import Path

FIXTURE = Path(__file__).resolve().parents[1] / "fixtures/pretrained/tiny-encoder"


def joined(*parts):
    return b"\n%%%%\n".join(p if isinstance(p, bytes) else text(p) for p in parts)


def text(value):
    return value.encode() if isinstance(value, str) else json.dumps(value).encode()


def safetensors(tensors, metadata=None):
    """{name: (dtype, shape, bytes)}"""
    header, data = ({"__metadata__": metadata} if metadata else {}), b""
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    head = text(header)
    head += b" " * (-len(head) % 8)
    return struct.pack("<Q", len(head)) + head + data


def floats(*values):
    return struct.pack(f"<{len(values)}f", *values)


def png(width, height, colour=2, depth=8, interlaced=0):
    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[colour]
    row = b"\0" + bytes(range(256)) * 4
    rows = b"".join(row[:1 + (width * channels * depth + 7) // 8] for _ in range(height))

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    palette = chunk(b"PLTE", bytes(range(48))) if colour == 3 else b""
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlaced)) +
            palette + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def idx(*sizes):
    count = 1
    for size in sizes:
        count *= size
    return struct.pack(f">I{len(sizes)}I", 0x800 + len(sizes), *sizes) + bytes(i % 7 for i in range(count))


def tokenizer(model, **sections):
    whole = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
             "pre_tokenizer": None, "post_processor": None, "decoder": None, "model": model}
    return {**whole, **sections}


def charsmap():
    """One unit of a trie, and a replacement."""
    return base64.b64encode(struct.pack("<II", 4, 0) + b"x\0").decode()


WORDS = {"type": "WordLevel", "vocab": {"a": 0, "b": 1, "<unk>": 2}, "unk_token": "<unk>"}
BPE = {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "\u0120": 3, "\u0120ab": 4}, "merges": ["a b", ["\u0120", "ab"]],
       "unk_token": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": True}
ADDED = {"id": 9, "content": "<x>", "single_word": True, "lstrip": True, "rstrip": True, "normalized": True, "special": True}
TEMPLATE = {"type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<unk>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"<unk>": {"id": "<unk>", "ids": [2], "tokens": ["<unk>"]}}}


def tokenizers():
    byte_level = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    split = {"type": "Split", "pattern": {"Regex": "\\s+|[a-z]{2}"}, "behavior": "Isolated", "invert": True}
    normalizers = [{"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None,
                    "lowercase": True}, {"type": "NFD"}, {"type": "NFKC"}, {"type": "StripAccents"}, {"type": "Lowercase"},
                   {"type": "Nmt"}, {"type": "Strip", "strip_left": True, "strip_right": True},
                   {"type": "Prepend", "prepend": "_"}, {"type": "Replace", "pattern": {"String": "b"}, "content": "aa"}]
    pre = [{"type": "Whitespace"}, {"type": "WhitespaceSplit"}, {"type": "BertPreTokenizer"}, {"type": "Punctuation"},
           {"type": "Digits", "individual_digits": True}, {"type": "CharDelimiterSplit", "delimiter": "a"}, split,
           {"type": "Metaspace", "replacement": "_", "prepend_scheme": "first", "split": True}]
    decoders = [{"type": "Replace", "pattern": {"String": "_"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
                {"type": "Strip", "content": " ", "start": 1, "stop": 1}]
    unigram = {"type": "Unigram", "unk_id": 0, "byte_fallback": False,
               "vocab": [["<unk>", 0.0], ["a", -1.0], ["ab", -1.5], ["b", -2.5]]}
    wordpiece = {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                 "max_input_chars_per_word": 100, "vocab": {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "a": 3, "##b": 4}}
    bert = {"type": "BertProcessing", "sep": ["[SEP]", 2], "cls": ["[CLS]", 1]}
    roberta = {"type": "RobertaProcessing", "sep": ["b", 1], "cls": ["a", 0], "trim_offsets": True, "add_prefix_space": True}
    truncation = {"max_length": 4, "direction": "Left", "strategy": "LongestFirst", "stride": 0}
    config = {"bos_token": "a", "eos_token": {"content": "b"}}
    yield "words", joined(tokenizer(WORDS, added_tokens=[ADDED], normalizer={"type": "Sequence", "normalizers": normalizers},
                                    pre_tokenizer={"type": "Sequence", "pretokenizers": pre}, post_processor=TEMPLATE,
                                    decoder={"type": "Sequence", "decoders": decoders}, truncation=truncation), config,
                          "a b c <x> ab1b\u00e9")
    yield "bpe", joined(tokenizer(BPE, pre_tokenizer=byte_level, post_processor={
        "type": "Sequence", "processors": [byte_level, roberta]}, decoder={"type": "ByteLevel"}), {}, " ab ab\u00e9 a")
    yield "unigram", joined(tokenizer(unigram, pre_tokenizer=pre[7], normalizer={
        "type": "Precompiled", "precompiled_charsmap": charsmap()}, decoder={"type": "Metaspace", "replacement": "_"}), {},
                            "abab a")
    yield "wordpiece", joined(tokenizer(wordpiece, pre_tokenizer=pre[2], post_processor=bert,
                                        decoder={"type": "WordPiece", "prefix": "##", "cleanup": True}), {}, "ab a. x")
    yield "suffix", joined(tokenizer({**BPE, "end_of_word_suffix": "</w>", "vocab": {"a": 0, "b</w>": 1, "ab</w>": 2},
                                      "merges": ["a b</w>"]}, decoder={"type": "BPEDecoder", "suffix": "</w>"}), {}, "ab")


def llama2c_tokenizer():
    entries = [b"<unk>", b"\n<s>\n", b"\n</s>\n"] + [b"<0x%02X>" % i for i in range(256)] + [b" ", b"a", b" a", b"b", b"ab"]
    return struct.pack("<i", 8) + b"".join(struct.pack("<fi", -float(i), len(e)) + e for i, e in enumerate(entries))


def llama2c_model(width=4, inner=6, layers=2, heads=2, kv_heads=1, vocabulary=5, positions=3):
    d, tied = width // heads, vocabulary > 0
    keys, count = d * kv_heads, abs(vocabulary)
    each = width + width * width + 2 * width * keys + width * width + width + 3 * width * inner
    numbers = count * width + layers * each + width + positions * d + (0 if tied else count * width)
    return struct.pack("<7i", width, inner, layers, heads, kv_heads, vocabulary, positions) + floats(*[0.5] * numbers)


def series(rows=12, value="1.5"):
    lines = ["date,a,b"] + [f"2016-07-01 {h:02}:00:00,{h},{value}" for h in range(rows)]
    return "\n".join(lines) + "\n"


def shards(tokens=6, vocabulary=300):
    index = {"format": "fovea-tokens", "version": 1, "vocabulary": vocabulary, "bytes": 2, "tokens": tokens,
             "tokenizer": "", "shards": [{"file": "tokens-00000.bin", "tokens": 4, "largest": 299},
                                         {"file": "tokens-00001.bin", "tokens": tokens - 4, "largest": 1}]}
    return joined(index, struct.pack("<4H", 1, 2, 299, 0), struct.pack(f"<{tokens - 4}H", *[1] * (tokens - 4)))


def index_of(names):
    return {"metadata": {"total_size": 4 * len(names)}, "weight_map": names}


def own_model():
    """A model of this library."""
    return {"model": {"task": "classify", "width": 8, "heads": 2, "inner": 8, "layers": ["softmax"], "classes": 2,
                      "vocabulary": 4, "max_length": 8}}


def seeds():
    one = {"a": ("F32", [2, 1], floats(1, 2)), "b": ("BF16", [], b"\0\0"), "c": ("U8", [0, 3], b"")}
    a, b = {"x": ("F32", [1], floats(1))}, {"y.LayerNorm.gamma": ("F32", [1], floats(2))}
    fixture = [(FIXTURE / name).read_bytes() for name in
               ["config.json", "model.safetensors", "modules.json", "1_Pooling/config.json"]]
    record = bytes([3]) + bytes(range(256)) * 12
    run = {"preset": "gpt", "attention": "norm", "model": {"width": 16, "layers": ["norm*2", "softmax"]},
           "train": {"steps": 5, "batch": 2}, "data": {"source": "listops", "train": 10, "mean": [0.5]}}
    for name, content in tokenizers():
        yield "tokenizer_json", f"good-{name}", content
    twice = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
    special = {"x": {"id": "x", "ids": [1] * 2000, "tokens": ["x"]}}
    yield "tokenizer_json", "bad-growing", joined(tokenizer(WORDS, normalizer={
        "type": "Sequence", "normalizers": [twice] * 40}), {}, "aaaa")
    yield "tokenizer_json", "bad-growing-back", joined(tokenizer(WORDS, decoder={
        "type": "Sequence", "decoders": [twice] * 40}), {}, "a")
    yield "tokenizer_json", "bad-template", joined(tokenizer(WORDS, post_processor={
        **TEMPLATE, "single": [{"SpecialToken": {"id": "x", "type_id": 0}}] * 200, "special_tokens": special}), {}, "a")
    yield "vocab_json", "good", joined({"a": 0, "b": 1, "ab": 2, "<|endoftext|>": 3}, "#version: 0.2\na b\n")
    yield "vocab_json", "good-roberta", joined({"<s>": 0, "</s>": 1, "<mask>": 2, "a": 3, "b": 4, "ab": 5}, "a b\n")
    yield "vocab_json", "bad", joined({"a": 0, "b": 0}, "a b c\n")
    yield "vocab_txt", "good", text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n##b\nonce\n")
    yield "vocab_txt", "bad", text("a\nb\n")
    yield "llama2c_tokenizer", "good", llama2c_tokenizer()
    yield "llama2c_tokenizer", "bad", llama2c_tokenizer()[:-3]
    yield "llama2c_tokenizer", "bad-long", (struct.pack("<i", 1 << 20) + llama2c_tokenizer()[4:] +
                                            struct.pack("<fi", 0, 20000) + b"a" * 20000)
    yield "llama2c_model", "good", llama2c_model()
    yield "llama2c_model", "good-untied", llama2c_model(vocabulary=-5)
    yield "llama2c_model", "bad", llama2c_model(layers=1)[:-4]
    yield "llama2c_model", "bad-claims", struct.pack("<7i", 1 << 20, 1 << 20, 1000, 1, 1, 1 << 20, 1 << 20)
    yield "safetensors", "good", safetensors(one, {"format": "pt"})
    yield "safetensors", "bad", safetensors(one)[:-2]
    yield "safetensors_index", "good", joined(index_of({"x": "a.safetensors", "y.LayerNorm.gamma": "b.safetensors"}),
                                              safetensors(a), safetensors(b))
    yield "safetensors_index", "bad", joined(index_of({"x": "../a.safetensors"}), safetensors(a), safetensors(b))
    yield "safetensors_index", "bad-missing", joined(index_of({"x": "a.safetensors", "z": "b.safetensors"}), safetensors(a),
                                                     safetensors(b))
    yield "pretrained", "good", joined(*fixture)
    yield "pretrained", "good-plain", joined(*fixture[:2], "", "")
    yield "pretrained", "bad-larger", joined(fixture[0].replace(b'"vocab_size": ', b'"vocab_size": 99'), *fixture[1:])
    yield "model_json", "bad-no-weights", joined(own_model(), safetensors(one))
    yield "model_json", "bad-larger", joined({"model": {**own_model()["model"], "width": 16384, "vocabulary": 1 << 24}},
                                             safetensors(one))
    yield "run_json", "good", joined(run, {"step": 3, "seed": 1})
    yield "run_json", "bad", joined({**run, "train": {"stps": 1}}, {})
    yield "json", "good", text({"a": [1, -2.5e3, "x\u00e9\\", None, True, {"b": []}], "c": {}})
    yield "json", "bad-deep", b"[" * 100
    yield "json", "good-many-keys", text({str(i): i for i in range(3000)})
    yield "json", "bad-twice", b'{"a": 1, "a": 2}'
    yield "png", "good", png(3, 2)
    yield "png", "good-grey", png(5, 4, colour=0, depth=1)
    yield "png", "good-palette", png(5, 4, colour=3, depth=4)
    yield "png", "good-alpha", png(4, 3, colour=6, depth=16)
    yield "idx", "good", joined(idx(3, 2, 2), idx(3))
    yield "idx", "bad", joined(idx(3, 2, 2), idx(2))
    yield "cifar", "good", record * 2
    yield "cifar", "bad", record + b"x"
    yield "tsv", "good", text("Source\tTarget\n( ( ( [MAX 1 ) 2 ) ] )\t2\n")
    yield "tsv", "bad", text("Source\tTarget\n( ( ( [MAX 1 ) 2 ) ] )\t3\n")
    yield "labels", "good", text("".join(f"{i % 2}\tsome text {i}\n" for i in range(12)))
    yield "labels", "good-pairs", text("label\tsentence1\tsentence2\n" + "".join(f"{i % 2}\tone\ttwo\n" for i in range(12)))
    yield "labels", "good-parallel", text("".join(f"one {i}\tzwei {i}\n" for i in range(12)))
    yield "labels", "bad-utf16", "1\tx\n".encode("utf-16")
    yield "labels", "bad-fields", text("1\tx\n2\n")
    yield "csv", "good", text(series())
    yield "csv", "good-quoted", text(series().replace("date,a", 'date,"a ""b"",\n"'))
    yield "csv", "bad-lines", b"date\n" + b"\n" * 200000
    yield "csv", "bad-number", text(series(value="x"))
    yield "captions", "good", joined("p.png\ta red square\n" * 3, png(3, 2))
    yield "captions", "bad", joined("q.png\ta red square\n", png(3, 2))
    yield "captions", "bad-picture", joined("p.png\ta red square\n", png(3, 2)[:60])
    yield "shards", "good", shards()
    yield "shards", "bad", shards()[:-2]
    yield "text", "good", text("To be, or not to be: that is the question.\n" * 8)
    yield "text", "bad-utf16", "To be, or not to be".encode("utf-16")
    yield "text", "bad-binary", bytes(range(256))
    yield "text", "bad-latin", "Gr\u00fc\u00dfe aus K\u00f6ln".encode("latin-1")
    yield "xz", "good", lzma.compress(b"some text " * 20)
    yield "xz", "good-two", lzma.compress(b"one", preset=0) + lzma.compress(b"two", check=lzma.CHECK_SHA256)
    yield "xz", "bad-cut", lzma.compress(b"some text " * 20)[:-5]
    yield "xz", "bad-bomb", lzma.compress(bytes(66 << 20))
    yield "xz", "bad-dictionary", lzma.compress(b"x", filters=[{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 30}])


def main():
    root = Path(sys.argv[1])
    for reader, name, content in seeds():
        folder = root / reader
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


if __name__ == "__main__":
    main()
