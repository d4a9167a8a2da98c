"""A causal linear mechanism token by token: the state is all that is kept, however long the stream."""

from __future__ import annotations

from typing import Any

import numpy as np

import fovea

rng = np.random.default_rng(0)
tokens = 2000
q, k, v = rng.standard_normal((3, 1, tokens, 4, 32), dtype=np.float32)

state: Any = None  # (1, heads, width of a key, width of a value)
rows = []
for t in range(tokens):
    now = slice(t, t + 1)
    out, state = fovea.attention(q[:, now], k[:, now], v[:, now], "norm", causal=True, initial_state=state, final_state=True)
    rows.append(out)

whole = fovea.attention(q, k, v, "norm", causal=True)
difference = np.abs(np.concatenate(rows, axis=1) - whole).max()
print(f"{tokens} tokens one by one: state {state.shape}, {state.nbytes / 1e3:.0f} kB at every length; "
      f"largest difference from all at once {difference:.1e}")
assert difference < 1e-4
