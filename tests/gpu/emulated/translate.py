#!/usr/bin/env python3
"""translate.py FROM TO FILE...: CUDA sources as C++ that runs on the host beside card.h.

Two things of CUDA are not C++: the launch of a kernel becomes a call, and shared memory of a size that the launch decides a pointer to
that of the emulated card. All else, kernels included, stays as it is.
"""

import re
import sys
from pathlib import Path

LAUNCH = re.compile(r"([A-Za-z_]\w*(?:<[^<>;(){}]*>)?)\s*<<<(.*?)>>>\s*\(", re.S)
SHARED = re.compile(r"extern __shared__ (?:__align__\(\w+\) )?((?:unsigned )?\w+) (\w+)\[\];")


def translated(text):
    text = LAUNCH.sub(r"fovea::emulated::Launch(\2).of(\1)(", text)
    text = SHARED.sub(r"static \1* const \2 = reinterpret_cast<\1*>(fovea::emulated::shared_memory());", text)
    return text.replace("#pragma unroll", "// unrolled on a card:")


def main(source, target, names):
    for name in names:
        path = Path(target) / re.sub(r"\.cu$", ".cc", name)
        text = translated((Path(source) / name).read_text())
        if not path.exists() or path.read_text() != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
