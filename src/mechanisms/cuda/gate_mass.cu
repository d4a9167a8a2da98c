#include "core/wide.h"
#include "mechanisms/kernel/gate_mass_kernels.h"
#include "ops/cuda/sequences.cuh"
#include "tensor/cuda/loops.cuh"

namespace fovea {
namespace {

using namespace device;  // NOLINT

template <class R>
__device__ R inverse_mass(R log_kept) {
  const R mass = -expm1(log_kept), least(1e-30);
  return 1 / (mass > least ? mass : least);
}

// Rows of queries and keys of the same sequences: the last query stands on the last key.
struct Partners {
  RowOwners::View of;  // the rows that are asked about
  const Sequences::Rows* others;
  std::int64_t n_others;

  // The partner of a row of (b n), as a row of the others; -1: none.
  __device__ std::int64_t operator()(std::int64_t row) const {
    const std::int64_t s = of(row);
    if (s < 0) return -1;
    const std::int64_t i = row - of.first(s) + others[s].count - of.list[s].count;
    return i < 0 || i >= others[s].count ? -1 : others[s].batch * n_others + others[s].begin + i;
  }
};

template <class R>
void write(const Context& context, const kernels::InverseMass& io) {
  const std::int64_t heads = io.out.dim(2), groups = io.kept.dim(2), group = heads / groups;
  const RowOwners queries(context, io.mass->queries, io.out.dim(1));
  const Uploaded<Sequences::Rows> keys = upload(context, io.mass->keys);
  const Partners key_of{queries.view(), keys.data(), io.kept.dim(1)};
  const R* const kept = io.kept.data<R>();
  R* const out = io.out.data<R>();
  each(context, io.out.numel(), [=] __device__(std::int64_t i) {
    const std::int64_t key = key_of(i / heads);
    out[i] = key < 0 ? R(1) : inverse_mass(kept[key * groups + i % heads / group]);
  });
}

template <class R>
void pull(const Context& context, const kernels::InverseMassPull& io) {
  const std::int64_t heads = io.g.dim(2), groups = io.kept.dim(2), group = heads / groups;
  const RowOwners keys(context, io.mass->keys, io.kept.dim(1));
  const Uploaded<Sequences::Rows> queries = upload(context, io.mass->queries);
  const Partners query_of{keys.view(), queries.data(), io.g.dim(1)};
  const R *const kept = io.kept.data<R>(), *const g = io.g.data<R>();
  R* const d_kept = io.d_kept.data<R>();
  each(context, io.kept.numel(), [=] __device__(std::int64_t i) {
    const std::int64_t query = query_of(i / groups), first = query * heads + i % groups * group;
    if (query < 0) return;
    const R inverse = inverse_mass(kept[i]), factor = inverse * inverse * exp(kept[i]);
    R sum(0);
    for (std::int64_t h = 0; h < group; ++h) sum += g[first + h] * factor;
    d_kept[i] += sum;
  });
}

}  // namespace

template <>
void kernels::inverse_gate_mass<Device::cuda>(const Context& context, const InverseMass& io) {
  visit_wide(io.kept.dtype(), [&]<class R>() { write<R>(context, io); });
}

template <>
void kernels::inverse_gate_mass_backward<Device::cuda>(const Context& context, const InverseMassPull& io) {
  visit_wide(io.kept.dtype(), [&]<class R>() { pull<R>(context, io); });
}

}  // namespace fovea
