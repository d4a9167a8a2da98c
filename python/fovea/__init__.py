"""Every attention, one engine: fused forward and backward kernels for the mechanisms of the literature.

>>> import numpy as np, fovea
>>> q = k = v = np.random.default_rng(0).standard_normal((1, 128, 4, 32), dtype=np.float32)
>>> fovea.attention(q, k, v, "norm", causal=True).shape
(1, 128, 4, 32)
"""

from fovea import _fovea
from fovea._arrays import whole
from fovea._attention import Gradients, attention, attention_backward
from fovea._generate import Generated, generate
from fovea._inspect import Inspection, approximation, inspect, inspect_attention
from fovea._mechanism import Mechanism, MechanismInfo, WeightInfo, list_mechanisms
from fovea._model import Dataset, Model, TrainResult, export_model, import_model, listops, load, load_data, train
from fovea._pattern import Pattern
from fovea._step import DecodeState, attention_step, t5_bias, t5_bucket
from fovea._tokenizer import Encoding, Tokenizer

__version__: str = _fovea.version
get_num_threads = _fovea.get_num_threads
devices = _fovea.devices
empty_cache = _fovea.empty_cache


def set_num_threads(threads: int) -> None:
    """How many threads a call uses; 0: all cores, or OMP_NUM_THREADS."""
    _fovea.set_num_threads(max(-1, min(whole(threads, "threads"), 1 << 30)))


__all__ = [
    "Dataset",
    "DecodeState",
    "Encoding",
    "Generated",
    "Gradients",
    "Inspection",
    "Mechanism",
    "MechanismInfo",
    "Model",
    "Pattern",
    "Tokenizer",
    "TrainResult",
    "WeightInfo",
    "approximation",
    "attention",
    "attention_backward",
    "attention_step",
    "devices",
    "empty_cache",
    "generate",
    "export_model",
    "get_num_threads",
    "import_model",
    "inspect",
    "inspect_attention",
    "list_mechanisms",
    "listops",
    "load",
    "load_data",
    "set_num_threads",
    "t5_bias",
    "t5_bucket",
    "train",
]
