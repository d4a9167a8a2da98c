#!/usr/bin/env python3
"""Time of one more token in transformers, GPT-2-small shape with random weights, after 1024 and 8192 others.

    bench/peers/decode.py --threads 2 [--context 1024,8192] [--tokens 16] [--json]

Every dtype with a growing and, where it helps, a fixed cache; the best of them is what `fovea bench decode --model
gpt2-small --context 1024,8192` is compared with. The cache is filled with random keys and values: the time of a step
depends on their number alone.
"""

import argparse
import json
import statistics
import time

import torch
from transformers import DynamicCache, GPT2Config, GPT2LMHeadModel, StaticCache

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


def filled_cache(kind, config, context, room, dtype):
    cache = StaticCache(config=config, max_cache_len=room) if kind == "fixed" else DynamicCache(config=config)
    for layer in range(config.n_layer):
        rows = torch.randn(1, config.n_head, context, config.n_embd // config.n_head, dtype=dtype)
        cache.update(rows, rows.clone(), layer, {"cache_position": torch.arange(context)})
    return cache


@torch.inference_mode()
def seconds_per_token(model, kind, context, tokens):
    cache = filled_cache(kind, model.config, context, context + tokens, model.dtype)
    token, times = torch.tensor([[5]]), []
    for step in range(tokens):
        start = time.perf_counter()
        at = torch.tensor([context + step])
        logits = model(token, past_key_values=cache, use_cache=True, position_ids=at[None], cache_position=at).logits
        token = logits[:, -1].argmax(-1, keepdim=True)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def measure(contexts, tokens):
    config = GPT2Config(n_positions=max(contexts) + tokens)
    torch.manual_seed(0)
    model = GPT2LMHeadModel(config).eval()
    for name, dtype in DTYPES.items():
        model = model.to(dtype)
        for kind in ("growing", "fixed"):
            for context in contexts:
                yield {"dtype": name, "cache": kind, "context": context,
                       "seconds": seconds_per_token(model, kind, context, tokens)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--context", default="1024,8192")
    parser.add_argument("--tokens", type=int, default=16)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    rows = []
    for row in measure([int(n) for n in options.context.split(",")], options.tokens):
        rows.append(row)
        if not options.json:
            print(f"{row['dtype']:5} {row['cache']:8} context {row['context']:6}  {1e3 * row['seconds']:8.2f} ms/token"
                  f"  {1 / row['seconds']:7.2f} tokens/s", flush=True)
    if options.json:
        print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
