"""The operators fovea::attention and fovea::attention_backward.

A call is described by a text, so that one schema serves every mechanism and option. Its parts, with tabs between them
as compilers write arguments into comments of one line, are the literal of a dictionary, the names of the tensors that come besides q, k and v, and "records" when a backward pass may follow, or
"copies" when it may follow in a compiled graph: that writes other things where tensors lay which it makes again for its
backward pass, so the recorded call must have its own.

Eager calls go around PyTorch's dispatch of operators, which costs 0.2 ms in a forward and backward pass, as the functions
Attend and Pull; those also tell the transforms of torch.func what to do.
"""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import torch
from torch import Tensor

from fovea import _fovea
from fovea._arrays import card_of
from fovea._pattern import Pattern

LENGTHS = ("cu_seqlens", "cu_seqlens_k", "lengths", "lengths_k")
PATTERNS: WeakValueDictionary[int, Pattern] = WeakValueDictionary()


def dense(x: Tensor, heads_first: bool) -> Tensor:
    """Contiguous in the order (b, n, h, ...), whatever the mechanism left: compiled graphs rely on it."""
    plain = x.transpose(1, 2) if heads_first else x
    if plain.is_contiguous():
        return x
    return plain.contiguous().transpose(1, 2) if heads_first else plain.contiguous()


class Described:
    """A call as its text tells it."""

    def __init__(self, text: str) -> None:
        literal, names, records = text.split("\t")
        options: dict[str, Any] = literal_eval(literal)
        self.engine = _fovea.mechanism(options.pop("mechanism"), {})
        self.names = names.split(",") if names else []
        self.records = records != ""
        self.copies = records == "copies"
        self.pattern = PATTERNS[options.pop("pattern")] if "pattern" in options else None
        self.options = {"numpy": False, **options}
        self.heads_first = "heads_first" in options

    def with_arrays(self, others: list[Tensor], like: Tensor) -> dict[str, Any]:
        options = dict(self.options)
        if (card := card_of(like)) is not None:
            options["card"] = card
        if self.pattern is not None:
            options["pattern"] = self.pattern._engine
        for name, tensor in zip(self.names, others):
            if name == "weights":
                options.setdefault("weights", []).append(tensor.detach())
            elif name == "seed":
                options[name] = int(tensor.item())
            elif name in LENGTHS:
                options[name] = [int(n) for n in tensor.tolist()]
            else:
                options[name] = tensor.detach()
        return options

    def transposed(self, x: Tensor) -> Tensor:
        return x.transpose(1, 2) if self.heads_first else x

    def dense(self, x: Tensor) -> Tensor:
        return dense(x, self.heads_first)


def noted(call: str, tensors: Sequence[Tensor]) -> str:
    """The text of a call, with what its gradient needs of it."""
    if not torch.is_grad_enabled() or not any([x.requires_grad for x in tensors]):
        return call + "\t"
    return call + ("\tcopies" if torch.compiler.is_compiling() else "\trecords")


@lru_cache(maxsize=256)
def described(text: str) -> Described:
    return Described(text)


def _result(array: Any, like: Tensor) -> Tensor:
    return like.new_empty(0) if array is None else torch.from_dlpack(array)


def _record(inputs: list[Tensor], call: Described) -> Any:
    q, k, v, *others = (x.detach() for x in inputs)
    return with_room(q, lambda: _fovea.record(q, k, v, call.engine, call.with_arrays(others, q)))


def with_room(like: Tensor, call: Callable[[], Any]) -> Any:
    """What a call gives; once more where the memory that a card lacks lies unused in PyTorch's cache or in ours."""
    try:
        return call()
    except MemoryError:
        if like.device.type != "cuda":
            raise
        torch.cuda.empty_cache()
        _fovea.empty_cache()
        return call()


def compute(q: Tensor, k: Tensor, v: Tensor, others: list[Tensor], text: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Output, log-sum-exp and final state, the latter two empty unless asked for, and a ticket for the backward pass."""
    call = described(text)
    ticket = q.new_empty(0, dtype=torch.uint8, device="cpu")  # the host reads it
    if call.records:
        recorded = _record([x.clone() if call.copies else x for x in (q, k, v, *others)], call)
        ticket = torch.from_dlpack(_fovea.issue_ticket(recorded))
        arrays = recorded.arrays()
    else:
        given = (q.detach(), k.detach(), v.detach())
        arrays = with_room(q, lambda: _fovea.attention(*given, call.engine, call.with_arrays(others, q)))
    output, lse, state = (_result(array, q) for array in arrays)
    if call.copies:
        output, lse, state = output.clone(), lse.clone(), state.clone()
    return call.dense(output), call.dense(lse) if lse.ndim == 3 else lse, state.contiguous(), ticket


# A call may ask the host for memory, and reads lengths: inductor captures it in no graph of its own.
_TAGS = (torch.Tag.cudagraph_unsafe,) if hasattr(torch.Tag, "cudagraph_unsafe") else ()
attend = torch.library.custom_op("fovea::attention", compute, mutates_args=(), device_types=("cpu", "cuda"), tags=_TAGS)


@attend.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, others: list[Tensor], text: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    call = described(text)
    batch, n, heads, _ = call.transposed(q).shape
    wide = torch.float64 if q.dtype == torch.float64 else torch.float32
    output = call.transposed(q.new_empty((batch, n, heads, v.shape[-1])))
    lse = call.transposed(q.new_empty((batch, n, heads), dtype=wide)) if call.options.get("return_lse") else q.new_empty(0)
    state = q.new_empty(0)
    if call.options.get("final_state"):
        sizes = (heads, call.transposed(k).shape[2], q.shape[-1], v.shape[-1])
        state = q.new_empty((_sequences(call, batch, others), *_state_shape(text, *map(int, sizes))), dtype=wide)
    return output, lse, state, q.new_empty(1 if call.records else 0, dtype=torch.uint8, device="cpu")


def _sequences(call: Described, batch: int, others: list[Tensor]) -> int:
    for name, tensor in zip(call.names, others):
        if name == "cu_seqlens":
            return tensor.shape[0] - 1
    return len(call.options["cu_seqlens"]) - 1 if "cu_seqlens" in call.options else batch


@lru_cache(maxsize=256)
def _state_shape(text: str, heads: int, kv_heads: int, d_k: int, d_v: int) -> tuple[int, int, int]:
    """What a sequence of one token leaves behind: the shape depends on nothing else."""
    call = described(text)
    options: dict[str, Any] = {"final_state": True, "causal": True}
    sizes = [heads, kv_heads, d_k, d_v, 0, 1]
    if "weights" in call.names:
        options["weights"] = call.engine.draw_weights(sizes, False, 0)
    q, k, v = (np.zeros((1, 1, *shape), np.float32) for shape in ((heads, d_k), (kv_heads, d_k), (kv_heads, d_v)))
    shape = _fovea.attention(q, k, v, call.engine, options)[2].shape
    return int(shape[1]), int(shape[2]), int(shape[3])


def gradients(grads: list[Tensor], ticket: Tensor, inputs: list[Tensor], text: str) -> list[Tensor]:
    """Gradients of the inputs q, k, v and others, empty for those that have none; grads: of output, lse and state."""
    call = described(text)
    recorded = _fovea.find_ticket(ticket.data_ptr()) if ticket.numel() > 0 else None
    if recorded is None or recorded.used:  # a copy of the ticket, or a second pass over a kept graph
        recorded = _record(inputs, call)
    asked = (True, call.options.get("return_lse"), call.options.get("final_state"))
    given = [g.detach() if wanted else None for g, wanted in zip(grads, asked)]
    card = card_of(inputs[0])
    found = recorded.backward(*given, 0 if card is None else card[1])
    weights = iter(found.pop("weights"))
    out = [call.dense(torch.from_dlpack(found[name])) for name in "qkv"]
    for name, tensor in zip(call.names, inputs[3:]):
        array = next(weights) if name == "weights" else found.get(name)
        out.append(tensor.new_empty(0) if array is None else torch.from_dlpack(array).contiguous())
    return out


pull = torch.library.custom_op("fovea::attention_backward", gradients, mutates_args=(), device_types=("cpu", "cuda"),
                              tags=_TAGS)


@pull.register_fake
def _(grads: list[Tensor], ticket: Tensor, inputs: list[Tensor], text: str) -> list[Tensor]:
    call = described(text)
    out = [call.transposed(torch.empty_like(call.transposed(x), memory_format=torch.contiguous_format)) for x in inputs[:3]]
    for name, x in zip(call.names, inputs[3:]):
        has_grad = x.is_floating_point() and name != "mask"
        out.append(torch.empty_like(x, memory_format=torch.contiguous_format) if has_grad else x.new_empty(0))
    return out


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    q, k, v, others, ctx.text = inputs
    ctx.mark_non_differentiable(output[3])
    # The recorded call reads its results again: saved, so that PyTorch refuses when they were written to in between.
    ctx.save_for_backward(*output, q, k, v, *others)


def _pulled(ctx: Any, grads: tuple[Tensor, ...], how: Callable[..., Sequence[Tensor]]) -> list[Tensor | None]:
    _, _, _, ticket, *inputs = ctx.saved_tensors
    found = how(list(grads[:3]), ticket, inputs, ctx.text)
    return [g if x.is_floating_point() else None for g, x in zip(found, inputs)]


def _backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
    fitting = _pulled(ctx, grads, pull)
    return *fitting[:3], fitting[3:], None


def _no_second(ctx: Any, *grads: Any) -> None:
    raise NotImplementedError("fovea has no second derivatives\n  try     backward() without create_graph=True")


def _no_forward_mode(ctx: Any, *tangents: Any) -> None:
    raise NotImplementedError("fovea has no derivatives in forward mode (jvp, jacfwd, hessian)\n"
                              "  try     torch.func.vjp, jacrev or grad")


def _for_each(batch_size: int, dims: Sequence[int | None], tensors: Sequence[Tensor],
              call: Callable[[list[Tensor]], Sequence[Tensor]]) -> tuple[Any, Any]:
    """vmap: a call for every sample, so that each is what it would be alone, its random numbers too."""
    if batch_size == 0:
        raise ValueError("vmap over an axis of length 0")
    samples = [call([x if d is None else x.select(d, i) for x, d in zip(tensors, dims)]) for i in range(batch_size)]
    return tuple(torch.stack(results) for results in zip(*samples)), (0,) * len(samples[0])


attend.register_autograd(_backward, setup_context=_keep)
pull.register_autograd(_no_second, setup_context=lambda ctx, inputs, output: None)


@attend.register_vmap
def _(info: Any, dims: Any, q: Tensor, k: Tensor, v: Tensor, others: list[Tensor], text: str) -> tuple[Any, Any]:
    call = text.rpartition("\t")[0]
    return _for_each(info.batch_size, [*dims[:3], *(dims[3] or [None] * len(others))], [q, k, v, *others],
                     lambda sample: attend(*sample[:3], sample[3:], noted(call, sample)))


class Pull(torch.autograd.Function):
    """gradients() as a function of PyTorch, which may be transformed further."""

    @staticmethod
    def forward(text: str, *tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(gradients(list(tensors[:3]), tensors[3], list(tensors[4:]), text))

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def vmap(info: Any, dims: Any, text: str, *tensors: Tensor) -> tuple[Any, Any]:
        return _for_each(info.batch_size, dims[1:], tensors, lambda sample: Pull.apply(text, *sample))

    backward = staticmethod(_no_second)
    jvp = staticmethod(_no_forward_mode)


def _transformed_gradients(grads: list[Tensor], ticket: Tensor, inputs: list[Tensor], text: str) -> Sequence[Tensor]:
    return Pull.apply(text, *grads, ticket, *inputs)  # type: ignore[no-any-return,no-untyped-call]


class Attend(torch.autograd.Function):
    """compute() with its gradient."""

    @staticmethod
    def forward(text: str, q: Tensor, k: Tensor, v: Tensor, *others: Tensor) -> tuple[Tensor, ...]:
        return compute(q, k, v, list(others), text)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        text, q, k, v, *others = inputs
        _keep(ctx, (q, k, v, others, text), output)

    @staticmethod
    def vmap(info: Any, dims: Any, text: str, *tensors: Tensor) -> tuple[Any, Any]:
        call = text.rpartition("\t")[0]
        return _for_each(info.batch_size, dims[1:], tensors,
                         lambda sample: Attend.apply(noted(call, sample), *sample))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        if any([torch._C._functorch.is_legacy_batchedtensor(g) for g in grads]):  # its batches know no other's functions
            raise NotImplementedError("fovea takes no batches of gradients (is_grads_batched)\n"
                                      "  try     torch.func.vjp and torch.func.vmap")
        alone = not torch.is_grad_enabled() and not torch._C._are_functorch_transforms_active()
        return None, *_pulled(ctx, grads, gradients if alone else _transformed_gradients)

    jvp = staticmethod(_no_forward_mode)
