#include <algorithm>
#include <cmath>

#include "mechanisms/kernel/gate_mass_kernels.h"
#include "ops/work.h"

namespace fovea {
namespace {

// f(query row of (b, n_q, heads), key row of (b, n_k, kv_heads)) for every query that reads a key, in order.
template <class F>
void each_query(const kernels::GateMass& mass, std::int64_t n_q, std::int64_t n_k, const F& f) {
  for (std::size_t s = 0; s < mass.queries.size(); ++s) {
    const Sequences::Rows &q = mass.queries[s], &k = mass.keys[s];
    for (std::int64_t i = std::max<std::int64_t>(0, q.count - k.count); i < q.count; ++i)
      f(q.batch * n_q + q.begin + i, k.batch * n_k + k.begin + i + k.count - q.count);
  }
}

template <class R>
R inverse_mass(R log_kept) {
  return 1 / std::max(-std::expm1(log_kept), static_cast<R>(1e-30));
}

}  // namespace

template <>
void kernels::inverse_gate_mass<Device::cpu>(const Context&, const InverseMass& io) {
  const std::int64_t heads = io.out.dim(2), groups = io.kept.dim(2), group = heads / groups;
  visit_wide(io.kept.dtype(), [&]<class R>() {
    std::fill_n(io.out.data<R>(), io.out.numel(), R(1));
    each_query(*io.mass, io.out.dim(1), io.kept.dim(1), [&](std::int64_t query, std::int64_t key) {
      for (std::int64_t h = 0; h < heads; ++h)
        io.out.data<R>()[query * heads + h] = inverse_mass(io.kept.data<R>()[key * groups + h / group]);
    });
  });
}

template <>
void kernels::inverse_gate_mass_backward<Device::cpu>(const Context&, const InverseMassVjp& io) {
  const std::int64_t heads = io.g.dim(2), groups = io.kept.dim(2), group = heads / groups;
  visit_wide(io.kept.dtype(), [&]<class R>() {
    each_query(*io.mass, io.g.dim(1), io.kept.dim(1), [&](std::int64_t query, std::int64_t key) {
      for (std::int64_t h = 0; h < heads; ++h) {
        const R log_kept = io.kept.data<R>()[key * groups + h / group], inverse = inverse_mass(log_kept);
        io.d_kept.data<R>()[key * groups + h / group] +=
            io.g.data<R>()[query * heads + h] * inverse * inverse * std::exp(log_kept);
      }
    });
  });
}

}  // namespace fovea
