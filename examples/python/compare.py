"""Ten mechanisms beside softmax: how fast each is, and how far its output is from softmax's. Writes a picture.

    python examples/python/compare.py --n 4096 --out compare.svg
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import fovea

MECHANISMS = ("softmax", "window", "bigbird", "logsparse", "nystrom", "linformer", "performer", "cosformer", "linear",
              "norm", "retnet")


def measure(mechanism: str, n: int) -> tuple[float, float]:
    """Seconds of a call, and the error relative to softmax."""
    q, k, v = np.random.default_rng(0).standard_normal((3, 1, n, 4, 64), dtype=np.float32)
    causal = not fovea.Mechanism(mechanism).supports("bidirectional")
    expected = fovea.attention(q, k, v, causal=causal)
    times = []
    for _ in range(3):
        begin = time.perf_counter()
        out = fovea.attention(q, k, v, mechanism, causal=causal)
        times.append(time.perf_counter() - begin)
    return min(times), float(np.linalg.norm(out - expected) / np.linalg.norm(expected))


def picture(rows: list[tuple[str, float, float]]) -> str:
    """Points: time across, error down, both on logarithmic axes."""
    times, errors = (np.log10([max(row[i], 1e-6) for row in rows]) for i in (1, 2))

    def place(x: float, values: NDArray[np.float64], size: int) -> float:
        low, high = float(values.min()), float(values.max())
        return 40 + (size - 140) * (x - low) / max(high - low, 1e-9)

    points = [f'<circle cx="{place(t, times, 640):.0f}" cy="{place(e, errors, 480):.0f}" r="5"/>'
              f'<text x="{place(t, times, 640) + 9:.0f}" y="{place(e, errors, 480) + 4:.0f}">{name}</text>'
              for (name, _, _), t, e in zip(rows, times, errors)]
    return ('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 480" font-family="sans-serif" font-size="13" '
            'fill="#0072b2"><text x="320" y="470" fill="#666">time of a call (log)</text><text x="10" y="20" '
            f'fill="#666">error against softmax (log), growing downwards</text>{"".join(points)}</svg>')


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--n", type=int, default=4096)
    parser.add_argument("--out", type=Path, default=Path("compare.svg"))
    options = parser.parse_args()
    rows = [(name, *measure(name, options.n)) for name in MECHANISMS]
    print(f"{'mechanism':<12}{'ms':>8}{'error':>8}")
    for name, seconds, error in rows:
        print(f"{name:<12}{1e3 * seconds:8.3g}{error:8.2g}")
    options.out.write_text(picture(rows))
    print(f"picture: {options.out}")


if __name__ == "__main__":
    main()
