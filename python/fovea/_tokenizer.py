"""Text to token ids and back, with the files of Hugging Face's tokenisers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from fovea import _fovea
from fovea._arguments import natural, path as path_text
from fovea._arrays import whole


class Encoding(NamedTuple):
    """The tokens of a text, or of two. Offsets count characters of a str, and bytes of a bytes."""

    ids: list[int]
    offsets: list[tuple[int, int]]
    sources: list[int]  # 0, or 1 for the second text; -1 for special tokens
    types: list[int]
    special: list[int]


def _bytes(text: str | bytes) -> bytes:
    if isinstance(text, str):
        return text.encode("utf-8", "surrogateescape")
    if isinstance(text, bytes):
        return text
    raise TypeError(f"a text is a str or bytes, not {type(text).__name__}")


class Tokenizer:
    """A tokeniser from a folder or file: tokenizer.json, vocab.json with merges.txt, vocab.txt, or a llama2.c .bin.
    Those that give the same ids by the same rules are equal.

    >>> tokenizer = Tokenizer.bytes()
    >>> tokenizer.encode("né").ids
    [110, 195, 169]
    >>> tokenizer.decode([110, 195, 169])
    'né'
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self._engine = _fovea.load_tokenizer(path_text(path, "path"))

    @classmethod
    def _of(cls, engine: Any) -> Tokenizer:
        made = cls.__new__(cls)
        made._engine = engine
        return made

    @classmethod
    def bytes(cls) -> Tokenizer:
        """The 256 bytes; the id is the byte."""
        return cls._of(_fovea.byte_tokenizer())

    @classmethod
    def characters(cls, texts: Iterable[str]) -> Tokenizer:
        """The characters of some texts; 0 is any other one."""
        return cls._of(_fovea.character_tokenizer([_bytes(text) for text in texts]))

    @classmethod
    def words(cls, texts: Iterable[str], limit: int = 0) -> Tokenizer:
        """The words between white space, the most frequent ones where there is a limit; 0 is any other one."""
        return cls._of(_fovea.word_tokenizer([_bytes(text) for text in texts], natural(limit, "limit")))

    @classmethod
    def train(cls, texts: Iterable[str], vocabulary: int = 8000, *, special_tokens: Sequence[str] = (),
              min_frequency: int = 2) -> Tokenizer:
        """Byte-level BPE, learned from texts on all threads."""
        encoded = [_bytes(text) for text in texts]
        sizes = natural(vocabulary, "vocabulary"), [str(token) for token in special_tokens], natural(min_frequency, "min_frequency")
        return cls._of(_fovea.train_tokenizer(encoded, *sizes))

    def encode(self, text: str | bytes, pair: str | bytes | None = None, *, special_tokens: bool = True,
               max_length: int = 0) -> Encoding:
        """The tokens of a text, or of two; max_length 0 keeps all of them."""
        texts = [text] if pair is None else [text, pair]
        return Encoding(*self._engine.encode([_bytes(t) for t in texts], bool(special_tokens), natural(max_length, "max_length"),
                                             isinstance(text, str)))

    def encode_all(self, texts: Iterable[str | bytes], *, special_tokens: bool = True) -> list[list[int]]:
        """The ids of many texts, on all threads."""
        return list(self._engine.encode_all([_bytes(text) for text in texts], special_tokens))

    def decode(self, ids: Iterable[int], *, skip_special: bool = True) -> str:
        return str(self._engine.decode([whole(i, "ids") for i in ids], bool(skip_special)))

    def stream(self, ids: Iterable[int], *, skip_special: bool = True) -> Iterator[str]:
        """Text as the ids come, never half a character."""
        stream = self._engine.decode_stream(skip_special)
        for i in ids:
            if piece := stream.next(whole(i, "ids")):
                yield piece
        if rest := stream.finish():
            yield rest

    def id(self, token: str) -> int | None:
        found = self._engine.id(token)
        return None if found is None else int(found)

    def token(self, id: int) -> str:
        return str(self._engine.token(whole(id, "id")))

    @property
    def special_ids(self) -> dict[str, int]:
        """Ids by role: bos, eos, pad, unk, mask, cls, sep, as far as the tokeniser has them."""
        return dict(self._engine.special_ids())

    @property
    def truncation(self) -> int:
        """The length that the tokeniser's file asks for; 0: none."""
        return int(self._engine.truncation())

    @property
    def fingerprint(self) -> str:
        return str(self._engine.fingerprint())

    def __len__(self) -> int:
        return int(self._engine.vocabulary())

    def save(self, folder: str | PathLike[str]) -> None:
        """Writes tokenizer.json, which `tokenizers` and `transformers` read too."""
        self._engine.save(path_text(folder, "folder"))

    def __getstate__(self) -> dict[str, str]:
        with TemporaryDirectory() as folder:
            self.save(folder)
            return {path.name: path.read_text("utf-8") for path in Path(folder).iterdir()}

    def __setstate__(self, files: dict[str, str]) -> None:
        with TemporaryDirectory() as folder:
            for name, text in files.items():
                (Path(folder) / name).write_text(text, "utf-8")
            self._engine = _fovea.load_tokenizer(folder)

    def __eq__(self, other: object) -> bool:
        return self.fingerprint == other.fingerprint if isinstance(other, Tokenizer) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        return f"Tokenizer({len(self)} ids)"
