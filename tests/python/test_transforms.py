"""torch.func on fovea's calls: against the same attention written in PyTorch."""

import pytest
import torch
from torch.autograd import forward_ad
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

import fovea
import fovea.torch

SHAPE = (2, 5, 2, 4)


def tensors(*shapes):
    torch.manual_seed(4)
    return [torch.randn(shape, dtype=torch.float64) for shape in (shapes or [SHAPE] * 3)]


def plain(q, k, v, bias=0.0):
    scores = torch.einsum("bihd,bjhd->bhij", q, k) * q.shape[-1] ** -0.5 + bias
    return torch.einsum("bhij,bjhd->bihd", scores.softmax(-1), v)


def both(transform, *inputs, **options):
    """A transform of ours and of theirs, which must be the same."""
    ours = transform(lambda *x: fovea.attention(*x[:3], **dict(zip(("bias",), x[3:])), **options))(*inputs)
    theirs = transform(plain)(*inputs)
    torch.testing.assert_close(ours, theirs)


def scalar(attend):
    return lambda *x: attend(*x).sin().sum()


def test_grad_and_vjp():
    inputs = (*tensors(), torch.randn(5, 5, dtype=torch.float64))
    both(lambda f: grad(scalar(f), argnums=(0, 1, 2, 3)), *inputs)
    both(lambda f: lambda *x: vjp(f, *x)[1](torch.ones(SHAPE, dtype=torch.float64)), *inputs)
    both(lambda f: jacrev(f, argnums=(0, 3)), *inputs)


@pytest.mark.parametrize("dims", [(0, 0, 0), (0, None, 2), (None, 3, None)])
def test_vmap(dims):
    inputs = [torch.randn(SHAPE, dtype=torch.float64) if d is None else torch.randn(SHAPE, dtype=torch.float64).unsqueeze(d)
              .expand(*SHAPE[:d], 3, *SHAPE[d:]).clone().normal_() for d in dims]
    both(lambda f: vmap(f, dims), *inputs)
    both(lambda f: grad(lambda *x: vmap(f, dims)(*x).sin().sum(), argnums=(0, 1, 2)), *inputs)
    both(lambda f: vmap(grad(scalar(f), argnums=(0, 1, 2)), dims), *inputs)


def test_vmap_of_vmap_and_of_other_arrays():
    q, k, v = tensors((3, 2, *SHAPE), (3, 2, *SHAPE), (3, 2, *SHAPE))
    bias = torch.randn(3, 5, 5, dtype=torch.float64)
    both(lambda f: vmap(vmap(f, (0, 0, 0, None)), (0, 0, 0, 0)), q, k, v, bias)
    lengths = torch.tensor([[5, 2], [4, 1], [3, 3]])
    mapped = vmap(lambda q, n: fovea.attention(q, q, q, lengths=n))(q[:, 0], lengths)
    for i in range(3):
        torch.testing.assert_close(mapped[i], fovea.attention(q[i, 0], q[i, 0], q[i, 0], lengths=lengths[i]))
    with pytest.raises(ValueError, match="length 0"):
        vmap(lambda x: fovea.attention(x, x, x))(q[:0, 0])


@pytest.mark.parametrize("name", ["softmax", "linformer", "shaw", "gla"])
def test_per_sample_gradients(name):
    torch.manual_seed(3)
    layer = fovea.torch.Attention(name, heads=2, head_dim=4, input_dim=6 if name == "gla" else 0, max_length=5,
                                  causal=name == "gla").double()
    into, out = torch.nn.Linear(6, 8).double(), torch.nn.Linear(8, 3).double()
    model = torch.nn.ModuleDict({"into": into, "layer": layer, "out": out})

    def loss(weights, x):
        def run(x):
            q = model["into"](x).unflatten(-1, (2, 4))
            options = {"input": x} if name == "gla" else {}
            return model["out"](model["layer"](q, q, q, **options).flatten(-2)).sin().sum()

        model.forward = run
        return functional_call(model, weights, (x[None],))

    weights = dict(model.named_parameters())
    x = torch.randn(3, 5, 6, dtype=torch.float64)
    each = vmap(grad(loss), (None, 0))({n: w.detach() for n, w in weights.items()}, x)
    for i in range(3):
        alone = torch.autograd.grad(loss(weights, x[i]), list(weights.values()))
        for (n, _), g in zip(weights.items(), alone):
            torch.testing.assert_close(each[n][i], g)


def test_random_numbers_follow_vmap_s_argument():
    q = torch.randn(SHAPE)

    def dropped(x):
        return fovea.attention(q, q, q, dropout_p=0.5) + 0 * x

    with pytest.raises(RuntimeError, match="randomness"):
        vmap(dropped)(torch.zeros(2))
    one, other = vmap(dropped, randomness="different")(torch.zeros(2))
    assert not torch.equal(one, other)
    one, other = vmap(dropped, randomness="same")(torch.zeros(2))
    assert torch.equal(one, other)


def test_forward_mode_is_refused():
    q, k, v = tensors()
    with pytest.raises(NotImplementedError, match="forward mode"):
        jvp(lambda x: fovea.attention(x, k, v), (q,), (q,))
    with pytest.raises(NotImplementedError, match="forward mode"):
        jacfwd(lambda x: fovea.attention(q, x, v, "norm"))(k)
    with pytest.raises(NotImplementedError, match="forward mode"), forward_ad.dual_level():
        fovea.attention(q, k, forward_ad.make_dual(v, v))
    with forward_ad.dual_level():  # what has no tangent is left alone
        torch.testing.assert_close(fovea.attention(q, k, v), plain(q, k, v))
    _, tangent = jvp(lambda x: x * fovea.attention(q, k, v), (q,), (q,))
    torch.testing.assert_close(tangent, q * plain(q, k, v))


def test_second_derivatives_are_refused():
    q, k, v = tensors()
    with pytest.raises(NotImplementedError, match="second derivatives"):
        grad(lambda x: grad(scalar(fovea.attention))(x, k, v).sum())(q)
    with pytest.raises(NotImplementedError, match="forward mode"):
        hessian(scalar(fovea.attention))(q, k, v)
    x = q.requires_grad_()
    with pytest.raises(NotImplementedError, match="torch.func.vmap"):
        torch.autograd.grad(fovea.attention(x, k, v), x, torch.ones(3, *SHAPE, dtype=torch.float64), is_grads_batched=True)


def test_layers_follow_the_generator():
    torch.manual_seed(6)
    one, other = (fovea.torch.Attention("linformer", heads=2, head_dim=4, max_length=8) for _ in range(2))
    torch.manual_seed(6)
    again = fovea.torch.Attention("linformer", heads=2, head_dim=4, max_length=8)
    name = one.weight_names[0]
    assert torch.equal(getattr(one, name), getattr(again, name))
    assert not torch.equal(getattr(one, name), getattr(other, name))
    mechanism = fovea.Mechanism("linformer", seed=3)
    first, second = (fovea.torch.Attention(mechanism, heads=2, head_dim=4, max_length=8) for _ in range(2))
    assert torch.equal(getattr(first, name), getattr(second, name)) and mechanism._weights is None
