"""A pattern of one's own in ten lines: documents packed in one sequence, a window inside each, and the first token for all."""

from __future__ import annotations

import numpy as np

import fovea

lengths = [700, 300, 1000, 48]
document = np.repeat(np.arange(len(lengths)), lengths)
same = fovea.Pattern(lambda query, key: document[query] == document[key], name="same document")
pattern = same & fovea.Pattern.window(64, 64) | fovea.Pattern.box((0, 2048), (0, 1))

q, k, v = np.random.default_rng(0).standard_normal((3, 1, 2048, 8, 64), dtype=np.float32)
out = fovea.attention(q, k, v, mask=pattern)

print(f"{out.shape}: {pattern.kept_pairs(2048)} of {2048 * 2048} pairs, {100 * pattern.density(2048):.1f}%")
print(pattern.blocks_of(2048))
print(fovea.Pattern.block_diagonal(12) & fovea.Pattern.window(4, 4) | fovea.Pattern.box((0, 48), (0, 1)))
