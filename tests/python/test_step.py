"""attention_step: one token at a time is all at once; and T5's buckets."""

import copy
import threading

import numpy as np
import pytest
import torch
from helpers import arrays, mechanism_cases

import fovea

WIDTH = 6


def stepped(q, k, v, mechanism, cuts, state=None, **options):
    """The outputs of pieces of these lengths, one after another."""
    state = fovea.DecodeState() if state is None else state
    whole, at, outputs = options.pop("input", None), 0, []
    for n in cuts:
        piece = slice(at, at + n)
        given = {} if whole is None else {"input": whole[:, piece]}
        outputs.append(fovea.attention_step(q[:, piece], k[:, piece], v[:, piece], mechanism, state=state, **options, **given))
        at += n
    assert state.length == at
    return torch.cat(outputs, 1) if isinstance(q, torch.Tensor) else np.concatenate(outputs, axis=1)


@pytest.mark.parametrize("info", mechanism_cases())
def test_steps_are_the_whole(info, rng):
    q, k, v = arrays(rng)
    options = {"input": rng.standard_normal((2, 13, WIDTH))} if info.needs_input else {}
    mechanism = fovea.Mechanism(info.name)
    mechanism.init(heads=4, d_k=8, width=WIDTH if options else 0, max_length=13, dtype=np.float64)
    if "step" not in info.features:
        with pytest.raises(NotImplementedError, match="no step form"):
            stepped(q, k, v, mechanism, [1], **options)
        return
    whole = fovea.attention(q, k, v, mechanism, causal=True, **options)
    np.testing.assert_allclose(stepped(q, k, v, mechanism, [1] * 13, **options), whole, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(stepped(q, k, v, mechanism, [5, 1, 1, 6], **options), whole, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("mechanism", ["softmax", "norm", "window:left=4,right=0", "retnet"])
def test_sequences_of_their_own_lengths(mechanism, rng):
    q, k, v = arrays(rng, shape=(3, 13, 4, 8))
    whole = fovea.attention(q, k, v, mechanism, causal=True)
    prompts, state = [5, 2, 3], fovea.DecodeState()
    out = fovea.attention_step(q[:, :5], k[:, :5], v[:, :5], mechanism, state=state, lengths=prompts)
    assert state.lengths == prompts and state.length == 5
    for b, n in enumerate(prompts):
        np.testing.assert_allclose(out[b, :n], whole[b, :n], atol=1e-9)
        assert not out[b, n:].any()
    open_ = [0, 1, 2]
    for t in range(8):
        if t == 4:  # the second one is done, and the others change places
            state, open_ = state.select([2, 0]), [2, 0]
        at = [prompts[b] + t for b in open_]
        out = fovea.attention_step(*(x[open_, at][:, None] for x in (q, k, v)), mechanism, state=state)
        np.testing.assert_allclose(out[:, 0], whole[open_, at], atol=1e-9)
    assert state.lengths == [11, 13]
    packed = fovea.DecodeState()
    rows = [np.concatenate([x[0, :5], x[1, :2]])[None] for x in (q, k, v)]
    out = fovea.attention_step(*rows, mechanism, state=packed, cu_seqlens=[0, 5, 7])
    np.testing.assert_allclose(out[0], np.concatenate([whole[0, :5], whole[1, :2]]), atol=1e-9)
    with pytest.raises(ValueError, match="no sequence 2: the state has 2"):
        packed.select([2])


@pytest.mark.parametrize("mechanism", ["softmax", "norm"])
def test_tensors_layouts_and_types(mechanism):
    q, k, v = (torch.randn(3, 4, 10, 8, dtype=torch.bfloat16) for _ in range(3))
    state = fovea.DecodeState()
    rows = [fovea.attention_step(q[:, :, t:t + 1], k[:, :, t:t + 1], v[:, :, t:t + 1], mechanism, state=state, layout="bhnd")
            for t in range(10)]
    whole = fovea.attention(q, k, v, mechanism, causal=True, layout="bhnd")
    assert rows[0].dtype == torch.bfloat16 and rows[0].shape == (3, 4, 1, 8)
    torch.testing.assert_close(torch.cat(rows, 2), whole, atol=0.1, rtol=0.05)


def test_options_of_a_step(rng):
    q, = arrays(rng, count=1)
    k, v = arrays(rng, shape=(2, 13, 2, 8), count=2)
    for options in ({"rotary": True}, {"window": (3, 0)}, {"alibi": True}, {"scale": 0.2}, {"mask": fovea.Pattern.window(2, 0)}):
        np.testing.assert_allclose(stepped(q, k, v, "softmax", [1] * 13, **options),
                                   fovea.attention(q, k, v, causal=True, **options), atol=1e-9)


def test_memory_of_a_state(rng):
    q, k, v = arrays(rng, shape=(1, 400, 2, 8), dtype=np.float32)
    sizes = {}
    for mechanism in ("softmax", "norm", "window:left=4,right=0"):
        state = fovea.DecodeState()
        stepped(q, k, v, mechanism, [1] * 400, state=state)
        sizes[mechanism] = state.nbytes
    assert sizes["norm"] == 2 * 8 * 8 * 4 < sizes["window:left=4,right=0"] < sizes["softmax"]
    assert "400 tokens" in repr(state)


@pytest.mark.parametrize("mechanism", ["softmax", "norm"])
@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, lambda state: state.copy()])
def test_copies_go_their_own_way(mechanism, way, rng):
    q, k, v = arrays(rng)
    state = fovea.DecodeState()
    stepped(q[:, :6], k[:, :6], v[:, :6], mechanism, [6], state=state)
    other = way(state)
    for branch, shift in ((state, 0.0), (other, 1.0)):
        out = fovea.attention_step(q[:, 6:7], k[:, 6:7] + shift, v[:, 6:7] + shift, mechanism, state=branch)
        moved = [np.concatenate([x[:, :6], x[:, 6:7] + s], axis=1) for x, s in ((q, 0.0), (k, shift), (v, shift))]
        np.testing.assert_allclose(out[:, 0], fovea.attention(*moved, mechanism, causal=True)[:, -1], atol=1e-9)


def test_what_a_step_refuses(rng):
    q, k, v = (x[:, :1] for x in arrays(rng))
    state = fovea.DecodeState()
    with pytest.raises(TypeError, match="state must be a DecodeState"):
        fovea.attention_step(q, k, v, state=None)
    for name, value in {"lengths_k": [1, 1], "bias": np.zeros((1, 1)), "dropout_p": 0.1, "return_lse": True}.items():
        with pytest.raises(NotImplementedError, match=f"has no {name}"):
            fovea.attention_step(q, k, v, state=state, **{name: value})
    with pytest.raises(TypeError, match="casual"):
        fovea.attention_step(q, k, v, state=state, casual=True)
    with pytest.raises(ValueError, match="4 axes"):
        fovea.attention_step(q[0], k[0], v[0], state=state)
    with pytest.raises(ValueError, match="width"):
        fovea.attention_step(q, k[..., :3], v, state=state)
    assert state.length == 0 and state.nbytes == 0  # nothing of that was remembered
    fovea.attention_step(q, k, v, state=state)
    with pytest.raises(ValueError, match='state of "softmax" cannot be moved on by "norm"'):
        fovea.attention_step(q, k, v, "norm", state=state)
    with pytest.raises(ValueError, match="1 sequences, but 2 states"):
        fovea.attention_step(*(x[:1] for x in (q, k, v)), state=state)
    for other in ([x[:, :, :2] for x in (q, k, v)], [x.astype(np.float32) for x in (q, k, v)]):
        with pytest.raises(ValueError, match="the state is of"):
            fovea.attention_step(*other, state=state)
    assert state.length == 1
    x = torch.randn(1, 1, 2, 8, requires_grad=True)
    with pytest.raises(NotImplementedError, match="no gradient"):
        fovea.attention_step(x, x, x, state=fovea.DecodeState())
    with torch.no_grad():
        assert fovea.attention_step(x, x, x, state=fovea.DecodeState()).shape == x.shape


def test_one_thread_at_a_time(rng):
    q, k, v = arrays(rng, shape=(1, 1500, 4, 64), dtype=np.float32)
    state, outcomes = fovea.DecodeState(), []

    def work():
        try:
            fovea.attention_step(q, k, v, state=state)
            outcomes.append("moved")
        except RuntimeError as error:
            outcomes.append(str(error))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(outcomes) <= {"moved", "this state is being moved on by another thread"}
    assert state.length == 1500 * outcomes.count("moved") > 0


def test_t5_buckets():
    from transformers.models.t5.modeling_t5 import T5Attention

    offsets = np.arange(-300, 301)
    for bidirectional in (True, False):
        theirs = T5Attention._relative_position_bucket(torch.from_numpy(offsets), bidirectional=bidirectional, num_buckets=32,
                                                       max_distance=128)
        np.testing.assert_array_equal(fovea.t5_bucket(offsets, bidirectional=bidirectional), theirs.numpy())
    assert fovea.t5_bucket(-3) == 3 and fovea.t5_bucket(np.int32(2**31 - 1)) == 31
    assert fovea.t5_bucket(np.array([[-2**63, 2**63 - 1]])).tolist() == [[15, 31]]
    with pytest.raises(TypeError, match="whole numbers"):
        fovea.t5_bucket(1.5)
    with pytest.raises(ValueError, match="a multiple of"):
        fovea.t5_bucket(1, buckets=3)


def test_t5_bias_is_a_diagonal_bias(rng):
    q, k, v = arrays(rng)
    table = rng.standard_normal((16, 4))
    distance = np.arange(13)[None, :] - np.arange(13)[:, None]
    bias = table[fovea.t5_bucket(distance, buckets=16)].transpose(2, 0, 1)
    np.testing.assert_allclose(fovea.attention(q, k, v, diagonal_bias=fovea.t5_bias(table, 13)),
                               fovea.attention(q, k, v, bias=bias), atol=1e-12)
    learned = torch.from_numpy(table).requires_grad_()
    fovea.attention(*(torch.from_numpy(x) for x in (q, k, v)), diagonal_bias=fovea.t5_bias(learned, 13)).sin().sum().backward()
    assert learned.grad.shape == table.shape and learned.grad.abs().max() > 0
