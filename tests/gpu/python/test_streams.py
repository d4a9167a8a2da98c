"""In whose order the work is done: PyTorch's streams, and arrays of others by DLPack."""

import contextlib
import ctypes
import threading

import pytest
import torch
from card import near, tensors

import fovea

LONG = 50_000_000  # cycles: about 30 ms


@pytest.mark.parametrize("own", [True, False], ids=["own stream", "default stream"])
@pytest.mark.parametrize("name", ["softmax", "norm", "performer", "reformer"])
def test_work_waits_for_what_is_on_the_caller_s_stream(own, name):
    q, k, v = tensors()
    expected = fovea.attention(q, k, v, name)
    stream = torch.cuda.Stream() if own else torch.cuda.default_stream()
    torch.cuda.synchronize()
    late = torch.full_like(q, float("nan"))
    with torch.cuda.stream(stream):
        torch.cuda._sleep(LONG)
        late.copy_(q)
        out = fovea.attention(late, k, v, name) * 1
        late.fill_(float("nan"))  # after the call has read it
    stream.synchronize()
    near(out, expected, 0.0)


def test_a_call_returns_before_its_work_is_done():
    q, k, v = tensors()
    fovea.attention(q, k, v)
    torch.cuda.synchronize()
    torch.cuda._sleep(20 * LONG)
    fovea.attention(q, k, v)
    reached = torch.cuda.Event()
    reached.record()
    assert not reached.query()


def test_backward_on_a_stream_of_its_own():
    q, k, v = tensors(grad=True)
    fovea.attention(q, k, v, "norm", causal=True).square().sum().backward()
    expected = [x.grad.clone() for x in (q, k, v)]
    for x in (q, k, v):
        x.grad = None
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(LONG)
        loss = fovea.attention(q, k, v, "norm", causal=True).square().sum()
    torch.cuda.current_stream().wait_stream(stream)
    loss.backward()
    for x, other in zip((q, k, v), expected):
        near(x.grad, other, 1e-5)


def test_memory_of_results_is_used_again_only_in_order():
    q, k, v = tensors(shape=(1, 1024, 8, 64))
    expected = fovea.attention(q, k, v).sum()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    sums = []
    with torch.cuda.stream(stream):
        for i in range(30):
            out = fovea.attention(q, k, v)
            torch.cuda._sleep(LONG // 100)
            sums.append(out.sum())  # reads it late; the block is let go at once
            del out
    stream.synchronize()
    for total in sums:
        near(total, expected, 1e-3)


def test_threads_with_streams_of_their_own():
    q, k, v = tensors(shape=(1, 512, 8, 64))
    expected = {name: fovea.attention(q, k, v, name, causal=True).cpu() for name in ("softmax", "norm", "retnet")}
    torch.cuda.synchronize()
    wrong = []

    def work(name):
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(25):
                out = fovea.attention(q, k, v, name, causal=True).cpu()
                if not torch.equal(out, expected[name]):
                    wrong.append(name)

    threads = [threading.Thread(target=work, args=(name,)) for name in expected for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@contextlib.contextmanager
def short_lived_stream():
    """A stream of nobody's pool, which is gone afterwards."""
    handle = ctypes.c_void_p()
    assert int(torch.cuda.cudart().cudaStreamCreate(ctypes.addressof(handle))) == 0
    try:
        yield handle.value
    finally:
        torch.cuda.synchronize()
        assert int(torch.cuda.cudart().cudaStreamDestroy(handle.value)) == 0


@pytest.mark.parametrize("name", ["softmax", "norm", "performer"])
def test_results_outlive_their_streams(name):
    q, k, v = tensors()
    weights = [torch.randn(256, 64, device="cuda")] if name == "performer" else []
    expected = fovea.attention(q, k, v, name, weights=weights)
    kept = []
    for _ in range(10):
        with short_lived_stream() as stream:
            result = fovea.attention(Plain(q), Plain(k), Plain(v), name, weights=list(map(Plain, weights)))
            kept.append(torch.utils.dlpack.from_dlpack(result.__dlpack__(stream=stream)))
            with torch.cuda.stream(torch.cuda.ExternalStream(stream)):
                kept.append(fovea.attention(q, k, v, name, weights=weights))
    for out in kept:
        near(out, expected, 0.0)
    kept.clear()
    del out, result
    fovea.empty_cache()
    near(fovea.attention(q, k, v, name, weights=weights), expected, 0.0)


class Plain:
    """An array of some framework without streams that we know of."""

    def __init__(self, tensor):
        self.tensor, self.asked = tensor, []
        self.shape, self.dtype = tensor.shape, tensor.dtype

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()

    def __dlpack__(self, *, stream=None, **options):
        self.asked.append(stream)
        return self.tensor.__dlpack__(stream=stream, **options)


def test_other_frameworks_by_dlpack():
    q, k, v = tensors()
    plain = [Plain(x) for x in (q, k, v)]
    torch.cuda._sleep(LONG)
    q.mul_(2)
    result = fovea.attention(*plain, "norm", causal=True)
    assert all(len(x.asked) == 1 and x.asked[0] not in (None, 0) for x in plain)  # on our stream, not on any
    assert tuple(result.__dlpack_device__()) == (2, 0)
    out = torch.from_dlpack(result)
    near(out, fovea.attention(q, k, v, "norm", causal=True), 0.0)
    for stream in (None, -1, 1, 2, torch.cuda.Stream().cuda_stream):
        near(torch.utils.dlpack.from_dlpack(result.__dlpack__(stream=stream)), out, 0.0)
    with pytest.raises(ValueError, match="stream 0 has two meanings"):
        result.__dlpack__(stream=0)
    with pytest.raises(BufferError, match="no copy"):
        result.__dlpack__(copy=True)
    found = fovea.attention_backward(Plain(torch.ones_like(q)), *plain, "norm", causal=True)
    assert torch.from_dlpack(found.q).shape == q.shape
