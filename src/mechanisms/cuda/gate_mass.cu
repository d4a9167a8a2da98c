#include "core/wide.h"
#include "mechanisms/kernel/gate_mass_kernels.h"
#include "ops/cuda/listed_rows.cuh"

namespace fovea {
namespace {

using namespace device;  // NOLINT

// Which key every query reads: the one at its end of the sequence.
class ReadKeys {
 public:
  // queries, keys: (b, n, ...)
  ReadKeys(const Context& context, const kernels::GateMass& mass, const Shape& queries, const Shape& keys)
      : queries_(context, mass.queries, queries), keys_(upload(context, mass.keys)), n_k_(keys.dim(1)) {}

  std::int64_t count() const { return queries_.rows(); }

  struct Pair {
    std::int64_t query, key;  // rows of (b n_q) and (b n_k); key -1: none
  };
  struct View {
    ListedRows::View queries;
    const Sequences::Rows* keys;
    std::int64_t n_k;

    __device__ Pair at(std::int64_t place) const {
      const ListedSequence& q = queries.sequence(place);
      const Sequences::Rows& k = keys[q.number];
      const std::int64_t i = place - q.before, j = i + k.count - q.count;
      return {q.first + i, j < 0 ? -1 : k.batch * n_k + k.begin + j};
    }
  };
  View view() const { return {queries_.view(), keys_.data(), n_k_}; }

 private:
  ListedRows queries_;
  Uploaded<Sequences::Rows> keys_;
  std::int64_t n_k_;
};

template <class R>
__device__ R inverse_mass(R log_kept) {
  const R mass = -expm1(log_kept), least = static_cast<R>(1e-30);
  return 1 / (mass < least ? least : mass);
}

template <class R>
void invert(const Context& context, const kernels::InverseMass& io) {
  const ReadKeys reads(context, *io.mass, io.out.shape(), io.kept.shape());
  const ReadKeys::View view = reads.view();
  const R* const kept = pointer<R>(io.kept);
  R* const out = pointer<R>(io.out);
  const std::int64_t heads = io.out.dim(2), groups = io.kept.dim(2), group = heads / groups;
  io.out.fill(1.0);
  each(context, reads.count() * heads, [=] __device__(std::int64_t i) {
    const auto [query, key] = view.at(i / heads);
    const std::int64_t h = i % heads;
    if (key >= 0) out[query * heads + h] = inverse_mass(kept[key * groups + h / group]);
  });
}

// A key is read by one query of its sequence.
template <class R>
void vjp(const Context& context, const kernels::InverseMassVjp& io) {
  const ReadKeys reads(context, *io.mass, io.g.shape(), io.kept.shape());
  const ReadKeys::View view = reads.view();
  const R *const kept = pointer<R>(io.kept), *const g = pointer<R>(io.g);
  R* const d_kept = pointer<R>(io.d_kept);
  const std::int64_t heads = io.g.dim(2), groups = io.kept.dim(2), group = heads / groups;
  each(context, reads.count() * groups, [=] __device__(std::int64_t i) {
    const auto [query, key] = view.at(i / groups);
    if (key < 0) return;
    const std::int64_t at = key * groups + i % groups;
    const R inverse = inverse_mass(kept[at]);
    R sum = 0;
    for (std::int64_t h = i % groups * group; h < (i % groups + 1) * group; ++h) sum += g[query * heads + h];
    d_kept[at] += sum * inverse * inverse * exp(kept[at]);
  });
}

}  // namespace

template <>
void kernels::inverse_gate_mass<Device::cuda>(const Context& context, const InverseMass& io) {
  visit_wide(io.kept.dtype(), [&]<class R>() { invert<R>(context, io); });
}

template <>
void kernels::inverse_gate_mass_backward<Device::cuda>(const Context& context, const InverseMassVjp& io) {
  visit_wide(io.kept.dtype(), [&]<class R>() { vjp<R>(context, io); });
}

}  // namespace fovea
