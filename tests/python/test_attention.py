"""What attention() takes and gives: layouts, strides, types, options."""

import numpy as np
import pytest
import torch
from helpers import arrays

import fovea


def softmax(scores):
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def plain(q, k, v, bias=0.0, scale=None):
    """Softmax attention over (b, n, h, d), written out."""
    scores = np.einsum("bihd,bjhd->bhij", q, k) * (q.shape[-1] ** -0.5 if scale is None else scale) + bias
    return np.einsum("bhij,bjhd->bihd", softmax(scores), v)


def causal_bias(n):
    return np.where(np.tri(n, dtype=bool), 0.0, -np.inf)


def test_softmax_is_softmax(rng):
    q, k, v = arrays(rng)
    np.testing.assert_allclose(fovea.attention(q, k, v), plain(q, k, v), atol=1e-12)
    np.testing.assert_allclose(fovea.attention(q, k, v, causal=True), plain(q, k, v, causal_bias(13)), atol=1e-12)
    np.testing.assert_allclose(fovea.attention(q, k, v, scale=0.3), plain(q, k, v, scale=0.3), atol=1e-12)


def test_heads_first(rng):
    q, k, v = arrays(rng)
    turned = [x.transpose(0, 2, 1, 3) for x in (q, k, v)]
    out = fovea.attention(*turned, layout="bhnd")
    np.testing.assert_array_equal(out.transpose(0, 2, 1, 3), fovea.attention(q, k, v))
    dense = fovea.attention(*(np.ascontiguousarray(x) for x in turned), layout="bhnd")
    np.testing.assert_array_equal(dense, out)
    grads = fovea.attention_backward(out, *turned, layout="bhnd")
    expected = fovea.attention_backward(out.transpose(0, 2, 1, 3), q, k, v)
    for found, other in zip(grads[:3], expected[:3]):
        np.testing.assert_array_equal(found.transpose(0, 2, 1, 3), other)


@pytest.mark.parametrize("view", [lambda x: x[:, ::2], lambda x: x[:, ::-1], lambda x: x[..., ::2], lambda x: x[:, :, 1:],
                                  lambda x: np.broadcast_to(x[:1], x.shape), lambda x: np.asfortranarray(x)])
def test_strides_are_honoured(view, rng):
    q, k, v = arrays(rng)
    strided = [view(x) for x in (q, k, v)]
    dense = [np.ascontiguousarray(x) for x in strided]
    np.testing.assert_array_equal(fovea.attention(*strided), fovea.attention(*dense))
    grad = rng.standard_normal(dense[0].shape)
    for a, b in zip(fovea.attention_backward(view(rng.standard_normal(q.shape)) * 0 + grad, *strided)[:3],
                    fovea.attention_backward(grad, *dense)[:3]):
        np.testing.assert_array_equal(a, b)


def test_read_only_and_overlapping_arrays(rng):
    x = arrays(rng, count=1)[0]
    x.flags.writeable = False
    np.testing.assert_allclose(fovea.attention(x, x, x), plain(x, x, x), atol=1e-12)
    long = rng.standard_normal((2, 20, 4, 8))
    q, k, v = long[:, :13], long[:, 3:16], long[:, 7:]
    np.testing.assert_allclose(fovea.attention(q, k, v), plain(q, k, v), atol=1e-12)


def test_results_live_on(rng):
    q, k, v = arrays(rng)
    out = fovea.attention(q, k, v)
    expected = plain(q, k, v)
    del q, k, v
    for _ in range(10):
        fovea.attention(*arrays(rng))
    np.testing.assert_allclose(out, expected, atol=1e-12)
    out += 1.0  # it is the caller's


def test_masks_and_biases_broadcast(rng):
    q, k, v = arrays(rng)
    keep = rng.random((13, 13)) < 0.6
    keep[:, 0] = True
    bias = np.where(keep, 0.0, -np.inf)
    np.testing.assert_allclose(fovea.attention(q, k, v, mask=keep), plain(q, k, v, bias), atol=1e-12)
    np.testing.assert_allclose(fovea.attention(q, k, v, mask=fovea.Pattern(keep)), plain(q, k, v, bias), atol=1e-12)
    heads = rng.standard_normal((4, 13, 13))
    np.testing.assert_allclose(fovea.attention(q, k, v, bias=heads), plain(q, k, v, heads), atol=1e-12)
    found = fovea.attention_backward(q, q, k, v, bias=heads)
    assert found.bias.shape == heads.shape
    step = np.zeros_like(heads)
    step[2, 5, 6] = 1e-6
    slope = (np.sum(q * plain(q, k, v, heads + step)) - np.sum(q * plain(q, k, v, heads - step))) / 2e-6
    assert abs(slope - found.bias[2, 5, 6]) < 1e-5


def test_masked_rows_are_zero(rng):
    q, k, v = arrays(rng)
    keep = np.ones((13, 13), bool)
    keep[4] = False
    k[:, 3], keep[:, 3] = np.nan, False
    out = fovea.attention(q, k, v, mask=fovea.Pattern(keep))
    assert np.isfinite(out).all() and (out[:, 4] == 0).all()


def test_windows(rng):
    q, k, v = arrays(rng)
    distance = np.arange(13)[None, :] - np.arange(13)[:, None]
    near = np.where(np.abs(distance) <= 2, 0.0, -np.inf)
    np.testing.assert_allclose(fovea.attention(q, k, v, window=2), plain(q, k, v, near), atol=1e-12)
    left = np.where((distance <= 0) & (distance >= -3), 0.0, -np.inf)
    np.testing.assert_allclose(fovea.attention(q, k, v, window=(3, 0)), plain(q, k, v, left), atol=1e-12)


def test_packed_and_padded_sequences(rng):
    q, k, v = (x[:1] for x in arrays(rng))
    pieces = [(0, 5), (5, 6), (6, 13)]
    expected = np.concatenate([plain(q[:, a:b], k[:, a:b], v[:, a:b]) for a, b in pieces], axis=1)
    for offsets in ([0, 5, 6, 13], np.array([0, 5, 6, 13]), (0, 5, 6, 13)):
        np.testing.assert_allclose(fovea.attention(q, k, v, cu_seqlens=offsets), expected, atol=1e-12)
    q, k, v = arrays(rng)
    out = fovea.attention(q, k, v, lengths=[13, 7])
    np.testing.assert_allclose(out[1, :7], plain(q[1:, :7], k[1:, :7], v[1:, :7])[0], atol=1e-12)
    assert (out[1, 7:] == 0).all()


def test_grouped_heads_and_cross_attention(rng):
    q, = arrays(rng, count=1)
    k, v = arrays(rng, shape=(2, 9, 2, 8), count=2)
    repeated = [np.repeat(x, 2, axis=2) for x in (k, v)]
    np.testing.assert_allclose(fovea.attention(q, k, v), plain(q, *repeated), atol=1e-12)


def test_lse_and_its_gradient(rng):
    q, k, v, grad = arrays(rng, count=4)
    out, lse = fovea.attention(q, k, v, return_lse=True)
    scores = np.einsum("bihd,bjhd->bihj", q, k) * 8 ** -0.5
    np.testing.assert_allclose(lse, np.log(np.exp(scores).sum(-1)), atol=1e-12)
    along = rng.standard_normal(lse.shape)
    found = fovea.attention_backward(grad, q, k, v, grad_lse=along)
    direction = rng.standard_normal(k.shape)

    def value(step):
        o, s = fovea.attention(q, k + step * direction, v, return_lse=True)
        return np.sum(o * grad) + np.sum(s * along)

    assert abs((value(1e-6) - value(-1e-6)) / 2e-6 - np.sum(found.k * direction)) < 1e-6


def test_state_carries_a_sequence_on(rng):
    q, k, v = arrays(rng)
    whole = fovea.attention(q, k, v, "norm", causal=True)
    first, state = fovea.attention(q[:, :6], k[:, :6], v[:, :6], "norm", causal=True, final_state=True)
    second = fovea.attention(q[:, 6:], k[:, 6:], v[:, 6:], "norm", causal=True, initial_state=state)
    np.testing.assert_allclose(np.concatenate([first, second], axis=1), whole, atol=1e-12)


def test_dropout_is_a_function_of_the_seed(rng):
    q, k, v = arrays(rng)
    one, same, other = (fovea.attention(q, k, v, dropout_p=0.5, seed=s) for s in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert np.abs(one - other).max() > 0.01
    mean = np.mean([fovea.attention(q, k, v, dropout_p=0.3, seed=s) for s in range(3000)], axis=0)
    assert np.abs(mean - plain(q, k, v)).max() < 0.1


def test_positions(rng):
    q, k, v = arrays(rng)
    distance = np.abs(np.arange(13)[None, :] - np.arange(13)[:, None])
    slopes = np.array([2.0 ** (-2 * (h + 1)) for h in range(4)])
    np.testing.assert_allclose(fovea.attention(q, k, v, alibi=True),
                               plain(q, k, v, -slopes[:, None, None] * distance), atol=1e-6)
    angle = np.arange(13)[:, None] * 10000.0 ** (-np.arange(0, 8, 2) / 8)
    turn = np.exp(1j * angle)[None, :, None, :]

    def rotated(x):
        z = (x[..., 0::2] + 1j * x[..., 1::2]) * turn
        return np.stack([z.real, z.imag], axis=-1).reshape(x.shape)

    np.testing.assert_allclose(fovea.attention(q, k, v, rotary=True), plain(rotated(q), rotated(k), v), atol=1e-9)


def test_parameters_reach_the_mechanism(rng):
    q, k, v = arrays(rng)
    block = np.arange(13) // 4
    same = np.where(block[:, None] == block[None, :], 0.0, -np.inf)
    np.testing.assert_allclose(fovea.attention(q, k, v, "diag", block=4), plain(q, k, v, same), atol=1e-12)
    np.testing.assert_allclose(fovea.attention(q, k, v, "diag:block=4"), plain(q, k, v, same), atol=1e-12)
    np.testing.assert_allclose(fovea.attention(q, k, v, fovea.Mechanism("diag", block=4)), plain(q, k, v, same), atol=1e-12)


def test_numbers_of_any_library(rng):
    q, k, v = arrays(rng)
    np.testing.assert_array_equal(fovea.attention(q, k, v, window=np.int64(2)), fovea.attention(q, k, v, window=2))
    np.testing.assert_array_equal(fovea.attention(q, k, v, window=np.array([3, 0])), fovea.attention(q, k, v, window=(3, 0)))
    np.testing.assert_array_equal(fovea.attention(q, k, v, window=(np.int32(3), torch.tensor(0))),
                                  fovea.attention(q, k, v, window=(3, 0)))
    np.testing.assert_array_equal(fovea.attention(q, k, v, causal=np.True_, scale=np.float32(0.5), alibi=np.False_),
                                  fovea.attention(q, k, v, causal=True, scale=0.5))
    np.testing.assert_array_equal(fovea.attention(q, k, v, rotary=(np.float32(100), np.True_, np.int8(4))),
                                  fovea.attention(q, k, v, rotary=(100.0, True, 4)))
    np.testing.assert_array_equal(fovea.attention(q, k, v, dropout_p=np.float64(0.5), seed=np.uint32(3)),
                                  fovea.attention(q, k, v, dropout_p=0.5, seed=3))
    np.testing.assert_array_equal(fovea.attention(q, k, v, "taylor", order=2), fovea.attention(q, k, v, "taylor", order="2"))
    assert fovea.Mechanism("taylor", order=np.int64(4)) == fovea.Mechanism("taylor:order=4")
    tensors = [torch.from_numpy(x).requires_grad_() for x in (q, k, v)]
    torch.testing.assert_close(fovea.attention(*tensors, window=np.int64(2), scale=np.float32(0.5)),
                               fovea.attention(*tensors, window=2, scale=0.5))


def test_queries_stand_on_the_last_keys_or_on_the_first(rng):
    q, k, v = arrays(rng)
    last = plain(q[:, :5], k, v, np.where(np.tri(13, dtype=bool)[8:], 0.0, -np.inf))
    first = plain(q[:, :5], k, v, np.where(np.tri(5, 13, dtype=bool), 0.0, -np.inf))
    np.testing.assert_allclose(fovea.attention(q[:, :5], k, v, causal=True), last, atol=1e-12)
    np.testing.assert_allclose(fovea.attention(q[:, :5], k, v, causal=True, align="bottom-right"), last, atol=1e-12)
    np.testing.assert_allclose(fovea.attention(q[:, :5], k, v, causal=True, align="top-left"), first, atol=1e-12)
    tensors = [torch.from_numpy(x).requires_grad_() for x in (q[:, :5], k, v)]
    np.testing.assert_allclose(fovea.attention(*tensors, causal=True, align="top-left").detach().numpy(), first, atol=1e-12)
    behind = plain(q, k[:, :5], v[:, :5], np.where(np.tri(13, 5, dtype=bool), 0.0, -np.inf))  # they see every key
    np.testing.assert_allclose(fovea.attention(q, k[:, :5], v[:, :5], causal=True, align="top-left"), behind, atol=1e-12)
    with pytest.raises(ValueError, match=r'unknown alignment "left"[\s\S]*top-left'):
        fovea.attention(q, k, v, causal=True, align="left")
