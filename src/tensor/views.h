#pragma once

#include "fovea/tensor.h"

namespace fovea {

// Axis 2 of x (b, n, heads, d) so many times its first entry: a view.
Tensor first_head_repeated(const Tensor& x, std::int64_t heads);

// Memory of the host and of nobody's context, aligned as doubles are.
Tensor host_tensor(const Shape& shape, DType dtype);

// Room where the host can write: of the context, where it is there.
Tensor host_room(const Context& context, const Shape& shape, DType dtype);

// The numbers where the host can read them, dense: the tensor itself, or a copy.
Tensor on_host(const Tensor& x);

// Do both begin at the same number in memory?
bool same_place(const Tensor& a, const Tensor& b);

}  // namespace fovea
