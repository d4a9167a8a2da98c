"""Ids, offsets and decoded text against the `tokenizers` package, on tokenisers trained here."""

import json

import pytest
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors, trainers
from tokenizers import Tokenizer as Theirs

import fovea

SAMPLES = [
    "", "a", " ", "  ", "\n", "\r\n", "\t \n x", "Hello, world! It's 'quoted' don't we'll I'd they've",
    "  leading and trailing  ", "naïve café résumé", "nai\u0308ve cafe\u0301 e\u0301\u0323 o\u0323\u0302",
    "Привет, мир! Как дела?", "你好，世界。我是学生", "日本語のテキスト、カタカナ", "한국어 텍스트 한글", "مرحبا بالعالم",
    "שלום עולם", "हिन्दी में पाठ", "ไทย ภาษา", "😀 👩‍👩‍👧‍👦 🇩🇪 👍🏽 ❤️", "a\u200bb\u00a0c\u2003d\u3000e\u0085f\u180eg",
    "\0 nul \0", "1234567890 ½ ² Ⅷ ٣", "İstanbul DİYARBAKIR ıI ß ẞ ﬁ ﬀ ㎏ ① Å", "x" * 300, "word " * 50,
    "_under_score snake_case camelCase", "<unk> [UNK] [MASK] <|endoftext|> <mask>", "a[MASK]b [MASK] c  <mask>  d",
    "...!!!???", "don't\u2019s ’tis “quoted” — dash–en", "\ufeffbom \ufffd repl", "\u0301combining first",
    "tab\tsep\x0bvt\x0cff\x1c\x1d\x85", "\u0344\u0958 \u1e9b\u0323 \ufb2c \u2126 \u212b", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝟘𝟙 𠀀𠀁",
    "Ein kleines Mädchen klettert in ein Spielhaus aus Holz.", "The quick brown fox jumps over the lazy dog 123 times.",
]
CORPUS = SAMPLES * 3 + [f"the {n} quick brown foxes and {n * 7} dogs aren't lazy" for n in range(300)]
SPECIAL = ["<unk>", "<s>", "</s>", "<pad>", "<mask>"]
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")


def trained(model, trainer, **parts):
    tokenizer = Theirs(model)
    for name in ("normalizer", "pre_tokenizer"):
        if name in parts:
            setattr(tokenizer, name, parts[name])
    tokenizer.train_from_iterator(CORPUS, trainer)
    for name, part in parts.items():
        setattr(tokenizer, name, part)
    return tokenizer


def changed(tokenizer, **parts):
    copy = Theirs.from_str(tokenizer.to_str())
    for name, part in parts.items():
        setattr(copy, name, part)
    return copy


def bpe(**options):
    return trainers.BpeTrainer(vocab_size=600, special_tokens=SPECIAL, show_progress=False, **options)


CHARACTERS = trained(models.BPE(unk_token="<unk>"), bpe(limit_alphabet=150), pre_tokenizer=pre_tokenizers.Whitespace())
BYTES = trained(models.BPE(), bpe(initial_alphabet=pre_tokenizers.ByteLevel.alphabet()),
                pre_tokenizer=pre_tokenizers.ByteLevel(), decoder=decoders.ByteLevel(),
                post_processor=processors.ByteLevel(trim_offsets=True))
LETTERS = Regex(r"[aeiou]|\d+")
RAW = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)


def unigram(**parts):
    trainer = trainers.UnigramTrainer(vocab_size=400, special_tokens=SPECIAL, unk_token="<unk>", show_progress=False)
    return trained(models.Unigram(), trainer, pre_tokenizer=pre_tokenizers.Metaspace(), decoder=decoders.Metaspace(),
                   normalizer=normalizers.NFKC(), **parts)


def with_byte_tokens(tokenizer):
    document = json.loads(tokenizer.to_str())
    document["model"]["byte_fallback"] = True
    document["model"]["vocab"] += [[f"<0x{byte:02X}>", -20.0] for byte in range(256)]
    return Theirs.from_str(json.dumps(document))


def llama():
    trainer = trainers.BpeTrainer(vocab_size=800, special_tokens=SPECIAL + [f"<0x{i:02X}>" for i in range(256)],
                                  limit_alphabet=60, show_progress=False)
    made = trained(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True), trainer,
                   normalizer=normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]),
                   pre_tokenizer=pre_tokenizers.Split("▁", "merged_with_next"),
                   decoder=decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                              decoders.Strip(" ", 1, 0)]))
    document = json.loads(made.to_str())
    document["pre_tokenizer"] = None  # the whole text is one word, as in the files of Llama
    document["added_tokens"] = document["added_tokens"][:5]
    return Theirs.from_str(json.dumps(document))


def bert():
    trainer = trainers.WordPieceTrainer(vocab_size=500, special_tokens=["[UNK]", "[CLS]", "[SEP]", "[MASK]"],
                                        show_progress=False)
    return trained(models.WordPiece(unk_token="[UNK]"), trainer, pre_tokenizer=pre_tokenizers.BertPreTokenizer(),
                   normalizer=normalizers.BertNormalizer(), decoder=decoders.WordPiece(),
                   post_processor=processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1)))


def with_added():
    made = changed(BYTES)
    made.add_tokens([AddedToken("<mask>", lstrip=True, rstrip=True, special=True), AddedToken("nai", single_word=True),
                     AddedToken("café", normalized=True)])
    return made


def ignoring_merges():
    document = json.loads(BYTES.to_str())
    document["model"]["ignore_merges"] = True
    return Theirs.from_str(json.dumps(document))


def text_cases():
    n, p = normalizers, pre_tokenizers
    for name in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt", "BertNormalizer", "Strip"):
        yield name, lambda name=name: changed(CHARACTERS, normalizer=getattr(n, name)())
    yield "normalizers", lambda: changed(CHARACTERS, normalizer=n.Sequence(
        [n.NFKD(), n.StripAccents(), n.Lowercase(), n.Strip(), n.Replace(Regex(r"\s+"), " "), n.Replace("e", "EE"),
         n.Prepend("__")]))
    for behaviour in ("removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"):
        for invert in (False, True):
            yield f"split-{behaviour}-{invert}", lambda b=behaviour, i=invert: changed(
                CHARACTERS, pre_tokenizer=p.Split(LETTERS, b, i))
        yield f"punctuation-{behaviour}", lambda b=behaviour: changed(CHARACTERS, pre_tokenizer=p.Punctuation(b))
    for name, stage in {
        "words": p.Whitespace(), "bert": p.BertPreTokenizer(), "spaces": p.WhitespaceSplit(), "digits": p.Digits(False),
        "each-digit": p.Digits(True), "metaspace": p.Metaspace(), "metaspace-first": p.Metaspace(prepend_scheme="first"),
        "metaspace-never": p.Metaspace(prepend_scheme="never"), "metaspace-whole": p.Metaspace(split=False),
        "delimiter": p.CharDelimiterSplit("e"), "word-regex": p.Split(Regex(r"\w+|[^\w\s]+"), "removed", True),
    }.items():
        yield f"cut-{name}", lambda stage=stage: changed(CHARACTERS, pre_tokenizer=stage)


def model_cases():
    n, p = normalizers, pre_tokenizers
    yield "byte-level", lambda: BYTES
    yield "byte-level-normalized", lambda: changed(BYTES, normalizer=n.NFC())
    yield "byte-level-regex", lambda: changed(BYTES, pre_tokenizer=p.Sequence([p.Split(Regex(LLAMA3), "isolated"), RAW]))
    yield "byte-level-inside", lambda: changed(BYTES, pre_tokenizer=p.Sequence(
        [p.Punctuation("contiguous"), p.ByteLevel(add_prefix_space=False), p.Digits(False)]))
    yield "byte-level-digits", lambda: changed(BYTES, pre_tokenizer=p.Sequence([p.Digits(True), p.ByteLevel()]))
    yield "byte-level-template", lambda: changed(BYTES, post_processor=processors.Sequence(
        [processors.ByteLevel(trim_offsets=True), processors.TemplateProcessing(
            single="<s> $A </s>", pair="<s> $A </s> $B:1 </s>:1", special_tokens=[("<s>", 1), ("</s>", 2)])]))
    yield "roberta", lambda: changed(BYTES, post_processor=processors.RobertaProcessing(("</s>", 2), ("<s>", 1)))
    yield "ignore-merges", ignoring_merges
    yield "added", with_added
    yield "unigram", unigram
    yield "unigram-whole", lambda: changed(unigram(), pre_tokenizer=p.Metaspace(split=False))
    yield "unigram-bytes", lambda: with_byte_tokens(unigram())
    yield "llama", llama
    yield "wordpiece", bert
    yield "wordlevel", lambda: trained(
        models.WordLevel(unk_token="[UNK]"), trainers.WordLevelTrainer(vocab_size=200, special_tokens=["[UNK]"],
                                                                       show_progress=False), pre_tokenizer=p.Whitespace())
    yield "suffix", lambda: trained(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"),
                                    bpe(end_of_word_suffix="</w>"), pre_tokenizer=p.BertPreTokenizer(),
                                    decoder=decoders.BPEDecoder("</w>"))
    yield "prefix", lambda: trained(models.BPE(unk_token="<unk>", continuing_subword_prefix="##"),
                                    bpe(continuing_subword_prefix="##"), pre_tokenizer=p.BertPreTokenizer())


def load(tokenizer, folder):
    tokenizer.save(str(folder / "tokenizer.json"))
    return fovea.Tokenizer(folder)


def same(ours, theirs, text, pair=None):
    mine, other = ours.encode(text, pair), theirs.encode(text, pair)
    assert (mine.ids, mine.offsets) == (other.ids, other.offsets), (text, pair)
    assert (mine.types, mine.special) == (other.type_ids, other.special_tokens_mask), (text, pair)
    for skip in (True, False):
        assert ours.decode(mine.ids, skip_special=skip) == theirs.decode(other.ids, skip_special_tokens=skip)
    assert "".join(ours.stream(mine.ids)) == ours.decode(mine.ids)


@pytest.mark.parametrize("make", [pytest.param(make, id=name) for name, make in [*text_cases(), *model_cases()]])
def test_agrees(make, tmp_path):
    theirs = make()
    ours = load(theirs, tmp_path)
    for text in SAMPLES + ["<mask> x", "x <mask>  y", "nai ve nai", "a\u2003<mask>\u2003b"]:
        same(ours, theirs, text)
    same(ours, theirs, "first text", "the second <s>")
    same(ours, theirs, "", "only the second")
    ours.save(tmp_path / "again")
    again = Theirs.from_file(str(tmp_path / "again" / "tokenizer.json"))
    assert again.encode(CORPUS[7]).ids == theirs.encode(CORPUS[7]).ids
    assert fovea.Tokenizer(tmp_path / "again").fingerprint == ours.fingerprint
    assert ours.encode_all(SAMPLES) == [ours.encode(text).ids for text in SAMPLES]


@pytest.mark.parametrize("length", [4, 5, 6, 7, 9, 12, 40])
def test_truncates_alike(length, tmp_path):
    theirs = bert()
    ours = load(theirs, tmp_path)
    theirs.enable_truncation(length)
    for pair in [("a longer first text, by far the longest", "short"), ("short", "a longer second text here"),
                 ("both are long enough", "to be cut at the end"), ("x", None), ("a single text that is long", None)]:
        assert ours.encode(*pair, max_length=length).ids == theirs.encode(*pair).ids, pair


@pytest.mark.parametrize("vocabulary, frequency", [(256, 2), (300, 2), (1000, 0), (700, 3)])
def test_learns_the_same_merges(vocabulary, frequency, tmp_path):
    theirs = Theirs(models.BPE())
    theirs.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    theirs.train_from_iterator(CORPUS, trainers.BpeTrainer(
        vocab_size=vocabulary, min_frequency=frequency, special_tokens=["<s>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    if vocabulary == 256:  # their alphabet and special token go beyond it
        vocabulary = 257
    fovea.Tokenizer.train(CORPUS, vocabulary, special_tokens=["<s>"], min_frequency=frequency).save(tmp_path)
    ours = json.loads((tmp_path / "tokenizer.json").read_text())["model"]
    model = json.loads(theirs.to_str())["model"]
    pairs = [merge.split(" ") if isinstance(merge, str) else merge for merge in ours["merges"]]
    assert ours["vocab"] == model["vocab"]
    assert pairs == [merge.split(" ") if isinstance(merge, str) else merge for merge in model["merges"]]


def test_invalid_bytes(tmp_path):
    text = b"a\xff\xe2\x82b \xef\xbf\xbd"
    ours = load(changed(BYTES, pre_tokenizer=pre_tokenizers.ByteLevel(add_prefix_space=False), post_processor=None), tmp_path)
    for parts in ({}, {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Digits", "individual_digits": True},
            {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}]}}):
        document = json.loads((tmp_path / "tokenizer.json").read_text()) | parts
        (tmp_path / "tokenizer.json").write_text(json.dumps(document))
        ours = fovea.Tokenizer(tmp_path)
        encoding = ours.encode(text)
        assert ours.token(encoding.ids[1]) == "ÿ"
        assert encoding.offsets[:5] == [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]
        assert encoding.offsets[-1] == (6, 9)
    characters = fovea.Tokenizer.characters(["ab\ufffd "])
    encoding = characters.encode(text)
    assert encoding.ids == [2 + 0, 4, 4, 4, 3, 1, 4]
    assert encoding.offsets == [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 9)]


def test_errors(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such file"):
        fovea.Tokenizer(tmp_path / "tokenizer.json")
    with pytest.raises(ValueError, match="no tokeniser in this folder"):
        fovea.Tokenizer(tmp_path)
    with pytest.raises(TypeError, match="str or bytes"):
        fovea.Tokenizer.bytes().encode(3)
    tokenizer = fovea.Tokenizer.words(["a b"])
    assert repr(tokenizer) == "Tokenizer(3 ids)"
    assert (tokenizer.id("a"), tokenizer.id("z"), tokenizer.token(99), tokenizer.special_ids) == (1, None, "", {"unk": 0})
