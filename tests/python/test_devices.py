"""Where arrays lie: what is refused, and in which words. What a card does is in tests/gpu/python."""

import ctypes
import sys
import types

import numpy as np
import pytest
import torch
from helpers import arrays

import fovea
import fovea.torch
from fovea import _arrays, _fovea

ON_CARD, ON_OTHER = (2, 1), (10, 0)  # DLPack's numbers: CUDA's second card, ROCm's first


class Elsewhere:
    """An array that says it lies on another device."""

    def __init__(self, array, device):
        self.array, self.where = torch.from_numpy(array), device
        self.shape, self.dtype = array.shape, array.dtype

    def __dlpack_device__(self):
        return self.where

    def __dlpack__(self, **options):
        capsule = self.array.__dlpack__()
        address = ctypes.pythonapi.PyCapsule_GetPointer
        address.restype, address.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        device = address(capsule, b"dltensor") + ctypes.sizeof(ctypes.c_void_p)  # behind the pointer to the data
        ctypes.cast(device, ctypes.POINTER(ctypes.c_int32 * 2)).contents[:] = self.where
        return capsule


def refuse(exception, words, *args, **kwargs):
    with pytest.raises(exception, match=words):
        fovea.attention(*args, **kwargs)


@pytest.fixture
def with_cuda(monkeypatch):
    """The package as a build with CUDA has it; the engine is what it is."""
    monkeypatch.setattr(_fovea, "has_cuda", True)


def test_results_for_cupy_of_any_version(monkeypatch):
    """Before version 14 its arrays do not tell where their functions are."""
    cupy = types.ModuleType("cupy")
    cupy.from_dlpack, cupy.asarray = object(), lambda x: ("there", x)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    array = type("ndarray", (), {"__module__": "cupy"})()
    assert _arrays.converter(array) is cupy.from_dlpack
    assert _arrays.placer(array)(1) == ("there", 1)


def test_weights_that_cannot_be_sent_along(rng, with_cuda):
    q, k, v = (Elsewhere(x, ON_CARD) for x in arrays(rng))
    refuse(TypeError, r"weights are drawn on the CPU, .* lies\n  try     weights=\[\.\.\.\] that lie there", q, k, v, "performer")


def test_the_cpu_is_a_device():
    assert fovea.devices()[0] == "cpu"
    fovea.empty_cache()  # nothing to do without a card


def test_a_build_for_the_cpu_says_so(rng, monkeypatch):
    monkeypatch.setattr(_fovea, "has_cuda", False)
    q, k, v = (Elsewhere(x, ON_CARD) for x in arrays(rng))
    words = r"q is on cuda:1; this build of fovea runs on the CPU only\n  try     q.cpu\(\), or a build with CUDA"
    refuse(TypeError, words, q, k, v)
    with pytest.raises(TypeError, match=words):
        fovea.attention_backward(q, q, k, v)
    with pytest.raises(TypeError, match=words):
        fovea.attention_step(q, k, v, "norm", state=fovea.DecodeState())
    x = torch.empty(1, 4, 2, 8, device="meta")
    refuse(TypeError, "q is on meta; this build of fovea runs on the CPU only", x, x, x)
    with pytest.raises(TypeError, match="q is on meta"):
        fovea.torch.Attention("softmax")(x, x, x)


def test_other_devices_are_named(rng, with_cuda):
    q, k, v = (Elsewhere(x, ON_OTHER) for x in arrays(rng))
    refuse(TypeError, "q is on device 10 of DLPack; fovea runs on the CPU and on CUDA cards", q, k, v)
    x = torch.empty(1, 4, 2, 8, device="meta")
    refuse(TypeError, "q is on meta; fovea runs on the CPU and on CUDA cards", x, x, x)


def test_arrays_of_one_call_lie_on_one_device(rng):
    q, k, v = arrays(rng)
    words = r'{0} is on cuda:1, q on cpu: arrays of one call lie on one device\n  try     {0}.to\("cpu"\)'
    refuse(TypeError, words.format("k"), q, Elsewhere(k, ON_CARD), v)
    refuse(TypeError, words.format("v"), q, k, Elsewhere(v, ON_CARD))
    refuse(TypeError, words.format("bias"), q, k, v, bias=Elsewhere(np.zeros((13, 13)), ON_CARD))
    refuse(TypeError, words.format("weights"), q, k, v, "performer", weights=[Elsewhere(np.zeros((8, 8)), ON_CARD)])
    with pytest.raises(TypeError, match=words.format("grad")):
        fovea.attention_backward(Elsewhere(q, ON_CARD), q, k, v)
    refuse(TypeError, "k is neither in the memory of the CPU nor on a CUDA card", q, Elsewhere(k, ON_OTHER), v)
    with pytest.raises(TypeError, match="matrix is on cuda:1, and this function reads arrays in the memory of the CPU"):
        _fovea.Pattern.from_matrix(Elsewhere(np.ones((3, 3), np.uint8), ON_CARD))


def test_a_card_that_is_not_there(rng, with_cuda):
    if "cuda:1" in fovea.devices():
        pytest.fail("these words are for machines with one card or none")
    q, k, v = (Elsewhere(x, ON_CARD) for x in arrays(rng))
    exceptions = (NotImplementedError, ValueError)  # without a card, with another
    refuse(exceptions, "no backend for CUDA|no CUDA: |card 1 of 1", q, k, v)
    for stream in (0, 1):
        with pytest.raises(exceptions, match="no backend for CUDA|no CUDA: |card 1 of 1"):
            _fovea.attention(q, k, v, _fovea.mechanism("softmax", {}), {"card": (1, stream)})


def test_which_stream(rng, with_cuda):
    q = arrays(rng, count=1)[0]
    assert _arrays.card_of(q) is None
    assert _arrays.card_of(torch.from_numpy(q)) is None
    assert _arrays.card_of(Elsewhere(q, (1, 0))) is None
    assert _arrays.card_of(Elsewhere(q, ON_CARD)) == (1, 0)  # it has no stream that we know of


def test_the_operators_are_there_for_cards():
    for name in ("fovea::attention", "fovea::attention_backward"):
        assert torch._C._dispatch_has_kernel_for_dispatch_key(name, "CUDA")
        assert torch._C._dispatch_has_kernel_for_dispatch_key(name, "CPU")


def test_memory_is_asked_for_again_where_pytorch_keeps_it(monkeypatch):
    from fovea.torch._ops import with_room

    emptied = []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: emptied.append("torch"))
    monkeypatch.setattr(_fovea, "empty_cache", lambda: emptied.append("fovea"))

    class OnCard:
        device = torch.device("cuda", 0)

    def scarce():
        if not emptied:
            raise MemoryError
        return "done"

    assert with_room(OnCard, scarce) == "done" and emptied == ["torch", "fovea"]

    def full():
        raise MemoryError("no more")

    with pytest.raises(MemoryError, match="no more"):
        with_room(OnCard, full)
    emptied.clear()
    with pytest.raises(MemoryError):
        with_room(torch.zeros(1), full)
    assert emptied == []
