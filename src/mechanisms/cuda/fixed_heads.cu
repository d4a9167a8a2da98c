#include "core/wide.h"
#include "mechanisms/cuda/head_rows.cuh"
#include "mechanisms/static_sparse/fixed_heads_kernels.h"
#include "tensor/cuda/loops.cuh"

// A given row is a copy of one key's value, or the mean of the values up to a key with weights 1, 8, 27, ...: a running
// sum, which a thread makes for one column of one head and sequence. Patterns that look right are those that look left
// on the sequence read backwards. Sums are f64.
namespace fovea {
namespace {

using namespace device;  // NOLINT

struct Source {
  enum class Kind : std::uint8_t { nothing, key, prefix } kind;
  std::int64_t key;  // the one, or the last of the prefix
};

// One head of one sequence, in the head's own order.
struct HeadOrder {
  Sequences::Rows q, k;
  GivenHead head;
  RowEdge edge;

  __device__ bool is_mirrored() const {
    return head == GivenHead::next || head == GivenHead::right || head == GivenHead::start;
  }
  __device__ std::int64_t row(std::int64_t i) const { return is_mirrored() ? q.count - 1 - i : i; }
  __device__ std::int64_t key_row(std::int64_t key) const {
    return k.begin + (is_mirrored() ? k.count - 1 - key : key);
  }
  // Of the i-th row; prefixes are never shorter than before.
  __device__ Source source(std::int64_t i) const {
    using Kind = Source::Kind;
    const std::int64_t place = row(i) + k.count - q.count;
    if (place < 0) return {Kind::nothing, 0};
    const std::int64_t position = is_mirrored() ? k.count - 1 - place : place;
    Source from{Kind::key, position};
    if (head == GivenHead::previous || head == GivenHead::next) from.key = position - 1;
    if (head == GivenHead::left || head == GivenHead::right) from = {Kind::prefix, position - 2};
    if (head == GivenHead::end || head == GivenHead::start) from = {Kind::prefix, k.count - 1};
    if (from.key >= 0) return from;
    if (edge == RowEdge::zero) return {Kind::nothing, 0};
    return {Kind::key, edge == RowEdge::self ? position : is_mirrored() ? k.count - 1 : 0};
  }
};

__device__ inline double cube(std::int64_t key) {
  const auto x = static_cast<double>(key + 1);
  return x * x * x;
}
// 1 + 8 + ... of the keys up to this one.
__device__ inline double cubes(std::int64_t key) {
  const double half = 0.5 * static_cast<double>(key + 1) * static_cast<double>(key + 2);
  return half * half;
}

// Lists of the call on the card.
struct CallLists {
  Uploaded<Sequences::Rows> queries, keys;
  Uploaded<GivenHead> heads;

  CallLists(const Context& context, const kernels::GivenCall& call)
      : queries(upload(context, call.queries)),
        keys(upload(context, call.keys)),
        heads(upload(context, call.given.heads)) {}
};
struct CallView {
  const Sequences::Rows *queries, *keys;
  const GivenHead* heads;
  RowEdge edge;

  CallView(const CallLists& lists, const kernels::GivenCall& call)
      : queries(lists.queries.data()), keys(lists.keys.data()), heads(lists.heads.data()), edge(call.given.edge) {}
  __device__ HeadOrder order(std::int64_t sequence, std::int64_t head) const {
    return {queries[sequence], keys[sequence], heads[head], edge};
  }
};

template <class R>
void apply(const Context& context, const kernels::ApplyGiven& io) {
  const CallLists lists(context, *io.call);
  const CallView call(lists, *io.call);
  const std::int64_t heads = io.o.dim(2), width = io.v.dim(3), kv_heads = io.v.dim(2), all_heads = io.call->heads;
  const Elements<R> v = elements<R>(io.v), o = elements<R>(io.o);
  const HeadRows of_v(io.v), of_o(io.o);
  each(context, lists.queries.size() * heads * width, [=] __device__(std::int64_t task) {
    const std::int64_t c = task % width, head = task / width % heads, kv = head * kv_heads / all_heads;
    const HeadOrder order = call.order(task / width / heads, head);
    const auto value = [&](std::int64_t key) { return v[of_v.at(order.k.batch, order.key_row(key), kv) + c]; };
    double sum = 0.0;
    std::int64_t summed = 0;
    for (std::int64_t i = 0; i < order.q.count; ++i) {
      const Source from = order.source(i);
      R result(0);
      if (from.kind == Source::Kind::key) result = value(from.key);
      if (from.kind == Source::Kind::prefix) {
        for (; summed <= from.key; ++summed) sum += cube(summed) * static_cast<double>(value(summed));
        result = static_cast<R>(sum / cubes(from.key));
      }
      o.put(of_o.at(order.q.batch, order.q.begin + order.row(i), head) + c, result);
    }
  });
}

// Adds the gradient of one head and column to dv (n_k of the sequence, apart by `step`).
template <class G>
__device__ void pull_head(const HeadOrder& order, const G& g, double* dv, std::int64_t step) {
  const auto add = [&](std::int64_t key, double x) { dv[(order.key_row(key) - order.k.begin) * step] += x; };
  for (std::int64_t i = 0; i < order.q.count; ++i) {
    const Source from = order.source(i);
    if (from.kind == Source::Kind::key) add(from.key, g(i));
  }
  std::int64_t i = order.q.count - 1;
  if (i < 0 || order.source(i).kind != Source::Kind::prefix) return;
  double sum = 0.0;  // of the rows whose prefix reaches the key
  for (std::int64_t key = order.source(i).key; key >= 0; --key) {
    for (; i >= 0; --i) {
      const Source from = order.source(i);
      if (from.kind != Source::Kind::prefix || from.key != key) break;
      sum += g(i) / cubes(key);
    }
    add(key, cube(key) * sum);
  }
}

template <class R>
void pull(const Context& context, const kernels::ApplyGivenPull& io) {
  const CallLists lists(context, *io.call);
  const CallView call(lists, *io.call);
  const std::int64_t heads = io.d_o.dim(2), width = io.dv.dim(3), kv_heads = io.dv.dim(2), n = io.dv.dim(1);
  const std::int64_t all_heads = io.call->heads;
  const Tensor sums = Tensor::zeros(context, io.dv.shape(), DType::f64, Lifetime::scratch);
  double* const sum = sums.data<double>();
  const Elements<R> d_o = elements<R>(io.d_o), dv = elements<R>(io.dv);
  const HeadRows of_o(io.d_o), of_v(io.dv);
  each(context, lists.keys.size() * kv_heads * width, [=] __device__(std::int64_t task) {
    const std::int64_t c = task % width, kv = task / width % kv_heads, sequence = task / width / kv_heads;
    const Sequences::Rows k = call.keys[sequence];
    const std::int64_t step = kv_heads * width;
    double* const mine = sum + (k.batch * n + k.begin) * step + kv * width + c;
    for (std::int64_t head = 0; head < heads; ++head) {
      if (head * kv_heads / all_heads != kv) continue;
      const HeadOrder order = call.order(sequence, head);
      pull_head(
          order,
          [&](std::int64_t i) {
            return static_cast<double>(d_o[of_o.at(order.q.batch, order.q.begin + order.row(i), head) + c]);
          },
          mine, step);
    }
    for (std::int64_t j = 0; j < k.count; ++j)
      dv.put(of_v.at(k.batch, k.begin + j, kv) + c, static_cast<R>(mine[j * step]));
  });
}

}  // namespace

template <>
void kernels::apply_given<Device::cuda>(const Context& context, const ApplyGiven& io) {
  visit_wide(io.v.dtype(), [&]<class R>() { apply<R>(context, io); });
}

template <>
void kernels::apply_given_backward<Device::cuda>(const Context& context, const ApplyGivenPull& io) {
  visit_wide(io.dv.dtype(), [&]<class R>() { pull<R>(context, io); });
}

}  // namespace fovea
