"""Trains TransNormer on ListOps, and asks it for the value of expressions it has not seen.

    python examples/python/listops.py --minutes 2
"""

from __future__ import annotations

import argparse

import fovea


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--attention", default="transnormer-t2")
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--steps", type=int, default=100000)
    parser.add_argument("--examples", type=int, default=8000)
    options = parser.parse_args()
    data = fovea.listops(train=options.examples, validation=200, test=200)
    print(data)
    model = fovea.Model(options.attention, vocabulary=data.vocabulary, classes=data.classes, dropout=0.0,
                        inner_dropout=0.0, attention_dropout=0.0)
    print(model)
    result = fovea.train(model, data, minutes=options.minutes, steps=options.steps, batch=16, lr=2e-3, warmup=50,
                         length_window=16, eval_every=100, eval_examples=200)
    print(result)
    for ids, label in data.examples("test")[:5]:
        answer = int(model(ids[None]).argmax())
        print(f"length {len(ids):4d}  value {label}  answer {answer}")


if __name__ == "__main__":
    main()
