#pragma once

// The loops of which kernels for a card are made. A kernel is a specialisation for Device::cuda in ops/cuda/x.cu of
// what ops/x_kernels.h declares; it is never told where it runs: stream and scratch come from the context.
//
//   R             the type of the arithmetic: float, double for f64 (visit_wide of core/wide.h)
//   Elements<R>   elements of a tensor as R, whatever float they are stored as: e[i], e.put(i, x); elements<R>(tensor)
//   pointer<T>()  the data of a tensor of a known type (i32 indices)
//
// (each, map and rows take a Queue where there is no context.)
//   each(context, count, f)            f(i) for i < count, in any order; f writes what is its own
//   map<R>(context, f, y, x...)        y = f(x...), of the shape of y. Any floats and strides; x may have fewer axes or
//                                      ones and is repeated. An undefined x is 0. f may take the index first: f(i,
//                                      x...); i counts elements of y in order. {y0, y1} as y: f gives Values<R, 2>.
//                                      With f.of_eight(i) the eight elements from i (a multiple of 8) share what that
//                                      gives (a Philox call): f(shared, i % 8, x...)
//   rows(context, count, width, f)     f(g) for every row g.row by a warp, or a block where rows are wide: lanes take
//                                      columns g.lane, g.lane + g.lanes, ...; g.sum(x), g.max(x): the same in all
//                                      lanes, to be called by all. Width only chooses the size of the group
//   held_rows(context, count, width, f)  f.run<kPacks>(g) likewise, for rows that are looked at several times: a
//   HeldRow
//                                      keeps the first packs of a dense row in registers (tensor/cuda/held_rows.cuh)
// (What f of the sums gives must be written down where it is a lambda: [=] __device__(std::int64_t i) -> R.)
//   column_sums(context, {rows, width}, f, put)  put(c, s): s = the sum over rows r of f(r, c), a number or Values
//   pack_sums<R>(context, {rows, width}, f, put)  the same for widths that are multiples of 8: f(r, c, x) gives the
//                                      numbers of the eight columns from c on
//   join_parts(context, {rows, width}, parts, put)  put(c, s) of sums that a kernel has left in parts
//   total(context, count, f, put)      put(s): s = the sum of f(i) over i < count
//   groups_of(context, keys, targets)  positions of equal keys together, each target's in order (ordered scatter);
//   add_groups<R>(context, groups, width, f, put)  put(t, c, s): s = the sum over the positions p of target t of f(p,
//   c);
//                                      not called for targets without any
//   sorted_order, exclusive_sums       sorting and running sums, CUB's, in tensor/cuda/order.h: no templates, compiled
//   once upload(context, list)              a list of the host on the card, for the length of a kernel: .data()
//   answer<T>(context, tensor)         the first element of a tensor, waited for: what a kernel returns to the host
//
// f and put are functions of the card: structs with a __device__ operator(), or [=] __device__ lambdas. nvcc wants a
// lambda to stand in a named function (not in another lambda) and to capture no structured bindings; a template's type
// comes into it by making the function a template:
//   template <class R> void run(const Context& context, const Softmax& io) { rows(context, ..., [=] __device__(auto& g)
//   {...}); } template <> void kernels::softmax<Device::cuda>(const Context& context, const Softmax& io) {
//     visit_wide(io.x.dtype(), [&]<class R>() { run<R>(context, io); });
//   }
// All sums have an order that follows from the shape alone: the same bits on every run. Sizes are int64.
// Policies are src/policy's, the same as on the host; powers and logarithms are those of policy/math.h.

#include "tensor/cuda/columns.cuh"
#include "tensor/cuda/elements.cuh"
#include "tensor/cuda/groups.cuh"
#include "tensor/cuda/map.cuh"
#include "tensor/cuda/order.h"
#include "tensor/cuda/rows.cuh"
#include "tensor/cuda/upload.h"
