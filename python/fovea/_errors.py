"""The engine's errors as Python's: an exception by what went wrong, and arguments named as they are written in Python."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable
from difflib import get_close_matches

_TYPES: dict[str, type[BaseException]] = {
    "missing": FileNotFoundError, "argument": TypeError, "unsupported": NotImplementedError, "io": OSError,
    "out_of_memory": MemoryError, "interrupted": KeyboardInterrupt, "diverged": ArithmeticError, "internal": RuntimeError}
_WORDS = {"true": "True", "false": "False", "null": "None", "none": "None"}
_NO_PARAMETER = re.compile(r'attention "[^"]*" has no parameter "')
_NUMBER = re.compile(r"-?\d+(\.\d*)?([eE][-+]?\d+)?$")
_ASSIGNED = re.compile(r"(?:--set (?:(?:model|train|data)\.)?|(?:model|train|data)\.|fovea\.\w+ (?:options\.)?)(\w+)=(\S*[^\s;,])")


def three_lines(what: str, where: str = "", hint: str = "") -> str:
    """What was wrong, where, and what to type instead."""
    return what + (f"\n  at      {where}" if where else "") + (f"\n  try     {hint}" if hint else "")


def make(kind: str, what: str, where: str, hint: str) -> BaseException:
    """The exception of an error of the engine; `kind` is its code, or "missing" (a file), "argument" (of an unknown name)."""
    if _NO_PARAMETER.match(what):
        kind = "argument"
    if kind == "argument":
        what = what.replace("unknown key", "unknown argument")
    made = _TYPES.get(kind, ValueError)(three_lines(_in_python(what), _place(where), _advice(where, hint)))
    if isinstance(made, FileNotFoundError):
        made.errno = errno.ENOENT
    return made


def unknown(what: str, value: object, names: Iterable[str], where: str) -> ValueError:
    """A value that is none of the names there are."""
    names = list(names)
    near = get_close_matches(str(value), names, n=1)
    hint = f'{where}="{near[0]}"' if near else "one of " + ", ".join(names)
    return ValueError(three_lines(f"unknown {what} {str(value)!r}".replace("'", '"'), where, hint))


def _literal(text: str) -> str:
    """A value of the command line as Python writes it."""
    if text in _WORDS or _NUMBER.match(text) or text.startswith(('"', "...")):
        return _WORDS.get(text, text)
    return f'"{text}"'


def _in_python(text: str) -> str:
    """Words of the command line in those of Python."""
    text = _ASSIGNED.sub(lambda found: f"{found[1]}={_literal(found[2])}", text)
    text = re.sub(r"fovea list --with ([\w,-]+)",
                  lambda found: "fovea.list_mechanisms(" + ", ".join(f'"{name}"' for name in found[1].split(",")) + ")", text)
    text = re.sub(r"--ignore ([\w,]+)", lambda found: f"ignore={found[1].split(',')!r}".replace("'", '"'), text)
    return re.sub(r"(?<![\w-])--([a-z]+(?:-[a-z]+)*)(?: (?=[A-Z]))?=?", lambda found: found[1].replace("-", "_") + "=", text)


def _place(where: str) -> str:
    """Where it was: `fovea.train(lr=...)`, `block=...` of a mechanism, `source=...` of what is in no other words."""
    if of_call := re.match(r"(fovea\.\w+) (?:options\.)?(.+)$", where):
        return f"{of_call[1]}({of_call[2]}=...)"
    if setting := re.match(r"(?:attention|data|train|model\.batch)\.(\w+)$", where):
        return f"{setting[1]}=..."
    return _in_python(where)


def _advice(where: str, hint: str) -> str:
    if where.startswith("attention"):  # of a mechanism: `diag:block=64` is an argument, too
        hint = re.sub(r"^[\w-]+:(\w+)=(\S+)", lambda found: f"{found[1]}={_literal(found[2])}", hint)
    hint = re.sub(r"^ls ([^\s;]+)(?:; or listops, pathfinder: fovea list data)?$", r'os.listdir("\1")', hint)
    return _in_python(hint)
