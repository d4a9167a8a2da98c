"""One line that shows how far a run is: in a notebook, in a terminal, or in a log."""

from __future__ import annotations

import sys
import time
from typing import Any

_WIDTH = 20  # of the bar
_PAUSE = {"notebook": 0.2, "terminal": 0.1, "log": 5.0}  # seconds between two lines


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def line(numbers: dict[str, Any], accuracy: float | None) -> str:
    """How far, how fast, how long still, and the number the user cares about."""
    done = max(float(numbers["progress"]), 1e-9)
    filled = round(_WIDTH * min(done, 1.0))
    left = numbers["train_seconds"] * max(0.0, 1.0 / done - 1.0)
    speed = numbers["step"] / max(numbers["train_seconds"], 1e-9)
    scored = "" if accuracy is None else f"  acc {100 * accuracy:.1f}%"
    return (f"{'█' * filled}{'░' * (_WIDTH - filled)}  step {numbers['step']}  {speed:.3g} steps/s  "
            f"loss {numbers['loss']:.3g}{scored}  {_clock(left)} left")


class Progress:
    """Draws the line, not too often, and cleans up after itself."""

    def __init__(self) -> None:
        self._place = self._find_place()
        self._next = 0.0
        self._accuracy: float | None = None
        self._display: Any = None

    @staticmethod
    def _find_place() -> str:
        ipython = sys.modules.get("IPython")
        shell = ipython.get_ipython() if ipython is not None else None
        if shell is not None and type(shell).__name__ == "ZMQInteractiveShell":
            return "notebook"
        return "terminal" if sys.stderr.isatty() else "log"

    def report(self, kind: str, numbers: dict[str, Any]) -> None:
        if kind == "eval":
            self._accuracy = numbers["accuracy"]
        if kind != "step" or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _PAUSE[self._place]
        self._draw(line(numbers, self._accuracy))

    def _draw(self, text: str) -> None:
        if self._place == "notebook":
            from IPython.display import HTML, display

            page = HTML(f"<pre style='margin:0'>{text}</pre>")
            if self._display is None:
                self._display = display(page, display_id=True)
            else:
                self._display.update(page)
        elif self._place == "terminal":
            print(f"\r{text}\x1b[K", end="", file=sys.stderr, flush=True)
        else:
            print(text, file=sys.stderr, flush=True)

    def close(self) -> None:
        if self._place == "terminal":
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
        elif self._display is not None:
            from IPython.display import HTML

            self._display.update(HTML(""))
