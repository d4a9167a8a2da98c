"""Text from a model, token by token."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from fovea import _fovea
from fovea._arguments import settings_text
from fovea._tokenizer import Tokenizer

if TYPE_CHECKING:
    from fovea._model import Model

Stream = Callable[[int, Any], None]


class Generated:
    """What became of a prompt: ``text`` (of a text), ``ids``, ``end`` (why it stopped) and ``score`` (of beam search)."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.ids = np.asarray(values["ids"], np.int32)
        self.text = values["text"].decode("utf-8", "replace")
        self.end = str(values["end"])
        self.score = float(values["score"])

    def __repr__(self) -> str:
        return self.text or f"Generated({len(self.ids)} tokens, end {self.end!r})"


def generate(model: Model, prompts: Any, *, tokenizer: Tokenizer | str | PathLike[str] | None = None, weights: str = "f32",
             stream: Stream | None = None, **settings: Any) -> Any:
    """Continues a prompt with a language model, or translates it with an encoder-decoder model.

    ``prompts`` is a text, a row of token ids, or a list of either; the result is one Generated, or a list of them.
    Texts need a tokeniser, or its folder or file: by default the one that came with the model, else bytes. ``weights`` are
    kept as "f32", "bf16" or "int8" while tokens are made. ``stream(prompt, piece)`` hears every piece of text (or token)
    as it is made. Settings are those of the command line: max_tokens, temperature, top_k, top_p, repetition_penalty,
    beams, length_penalty, beam_stop, seed, stop, stop_ids, start, batch.

    >>> import fovea
    >>> model = fovea.Model("gpt", vocabulary=256, width=16, heads=2, inner=16)
    >>> len(fovea.generate(model, "Once", max_tokens=8).ids)
    8
    """
    if isinstance(settings.get("stop"), str):
        settings["stop"] = [settings["stop"]]
    if not isinstance(prompts, (str, list, tuple, np.ndarray)):
        raise TypeError(f"prompts cannot be {prompts!r}: a text, a row of token ids, or a list of either")
    single = isinstance(prompts, str) or _is_row(prompts)
    every: Sequence[Any] = [prompts] if single else list(prompts)
    request = settings_text({"options": settings, "weights": str(weights)})
    if all(isinstance(prompt, str) for prompt in every):
        if isinstance(tokenizer, (str, PathLike)):
            tokenizer = Tokenizer(tokenizer)
        texts = [prompt.encode("utf-8", "surrogateescape") for prompt in every]
        engine = None if tokenizer is None else tokenizer._engine
        hear = None if stream is None else lambda prompt, piece: stream(prompt, piece.decode("utf-8", "replace"))
        results = _fovea.generate_texts(model._engine, texts, engine, request, hear)
    else:
        rows = [_row(prompt) for prompt in every]
        results = _fovea.generate_ids(model._engine, rows, request, stream)
    made = [Generated(result) for result in results]
    return made[0] if single else made


def _is_row(prompts: Any) -> bool:
    return not isinstance(prompts, str) and len(prompts) > 0 and np.ndim(prompts[0]) == 0 and not isinstance(prompts[0], str)


def _row(ids: Any) -> list[int]:
    tokens = np.asarray(ids)
    if tokens.ndim != 1 or (tokens.size and tokens.dtype.kind not in "iu"):
        raise ValueError("a prompt is a text or a row of token ids")
    return [int(i) for i in tokens]
