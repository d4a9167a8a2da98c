#include <algorithm>
#include <vector>

#include "core/parallel.h"
#include "mechanisms/static_sparse/fixed_heads_kernels.h"

// A given row is a copy of one key's value, or the mean of the values up to a key with weights 1, 8, 27, ...: a running
// sum. Patterns that look right are those that look left on the sequence read backwards. Sums are f64: cubes of
// positions leave f32 no digits beyond a few thousand tokens.
namespace fovea {
namespace {

// What one row reads.
struct Source {
  enum class Kind : std::uint8_t { nothing, key, prefix } kind;
  std::int64_t key;  // the one, or the last of the prefix
};

bool is_mirrored(GivenHead head) {
  return head == GivenHead::next || head == GivenHead::right || head == GivenHead::start;
}

// Positions and keys are counted from the end where the head is mirrored.
Source source_of(GivenHead head, RowEdge edge, std::int64_t position, std::int64_t n) {
  using Kind = Source::Kind;
  Source from{Kind::key, position};
  if (head == GivenHead::previous || head == GivenHead::next) from.key = position - 1;
  if (head == GivenHead::left || head == GivenHead::right) from = {Kind::prefix, position - 2};
  if (head == GivenHead::end || head == GivenHead::start) from = {Kind::prefix, n - 1};
  if (from.key >= 0) return from;
  if (edge == RowEdge::zero) return {Kind::nothing, 0};
  return {Kind::key, edge == RowEdge::self ? position : is_mirrored(head) ? n - 1 : 0};
}

double cube(std::int64_t key) {
  const auto x = static_cast<double>(key + 1);
  return x * x * x;
}
// 1 + 8 + ... of the keys up to this one.
double cubes(std::int64_t key) {
  const double half = 0.5 * static_cast<double>(key + 1) * static_cast<double>(key + 2);
  return half * half;
}

// One head of one sequence: rows of v and of o (or their gradients) in the head's own order.
template <class T>
struct HeadRows {
  HeadRows(const kernels::GivenCall& call, std::size_t sequence, GivenHead head)
      : q(call.queries[sequence]), k(call.keys[sequence]), head(head), edge(call.given.edge) {}

  // Calls body(row of o, source) in the order of positions, the prefixes never shorter than before. Queries before the
  // first key read nothing.
  template <class Body>
  void each(Body&& body) const {
    for (std::int64_t i = 0; i < q.count; ++i) {
      const std::int64_t row = is_mirrored(head) ? q.count - 1 - i : i, position = row + k.count - q.count;
      const std::int64_t at = is_mirrored(head) ? k.count - 1 - position : position;
      body(q.begin + row, position < 0 ? Source{Source::Kind::nothing, 0} : source_of(head, edge, at, k.count));
    }
  }
  std::int64_t key_row(std::int64_t key) const { return k.begin + (is_mirrored(head) ? k.count - 1 - key : key); }

  Sequences::Rows q, k;
  GivenHead head;
  RowEdge edge;
};

template <class T>
T* row_at(const Tensor& x, std::int64_t batch, std::int64_t row, std::int64_t head) {
  return x.data<T>() + batch * x.stride(0) + row * x.stride(1) + head * x.stride(2);
}

template <class T>
void apply_head(const kernels::GivenCall& call, std::size_t sequence, std::int64_t head, const Tensor& v,
                const Tensor& o) {
  const HeadRows<T> rows(call, sequence, call.given.heads[static_cast<std::size_t>(head)]);
  const std::int64_t width = v.dim(3), kv = head * v.dim(2) / call.heads;
  std::vector<double> sum(static_cast<std::size_t>(width), 0.0);
  std::int64_t summed = 0;
  rows.each([&](std::int64_t row, const Source& from) {
    T* to = row_at<T>(o, rows.q.batch, row, head);
    if (from.kind == Source::Kind::nothing) return static_cast<void>(std::fill_n(to, width, T(0)));
    if (from.kind == Source::Kind::key)
      return static_cast<void>(std::copy_n(row_at<T>(v, rows.k.batch, rows.key_row(from.key), kv), width, to));
    for (; summed <= from.key; ++summed) {
      const T* value = row_at<T>(v, rows.k.batch, rows.key_row(summed), kv);
      for (std::int64_t c = 0; c < width; ++c)
        sum[static_cast<std::size_t>(c)] += cube(summed) * static_cast<double>(value[c]);
    }
    const double share = 1.0 / cubes(from.key);
    for (std::int64_t c = 0; c < width; ++c)
      to[c] = static_cast<T>(static_cast<Wide<T>>(share * sum[static_cast<std::size_t>(c)]));
  });
}

// Adds the gradient of one head to dv (n_k, width) of its sequence.
template <class T>
void vjp_head(const kernels::GivenCall& call, std::size_t sequence, std::int64_t head, const Tensor& d_o,
              std::vector<double>& dv) {
  const HeadRows<T> rows(call, sequence, call.given.heads[static_cast<std::size_t>(head)]);
  const std::int64_t width = d_o.dim(3);
  const auto add = [&](std::int64_t key, double factor, const auto* from) {
    double* to = &dv[static_cast<std::size_t>((rows.key_row(key) - rows.k.begin) * width)];
    for (std::int64_t c = 0; c < width; ++c) to[c] += factor * static_cast<double>(from[c]);
  };
  struct Prefix {
    std::int64_t row, key;
  };
  std::vector<Prefix> prefixes;
  rows.each([&](std::int64_t row, const Source& from) {
    if (from.kind == Source::Kind::key) add(from.key, 1.0, row_at<T>(d_o, rows.q.batch, row, head));
    if (from.kind == Source::Kind::prefix) prefixes.push_back({row, from.key});
  });
  if (prefixes.empty()) return;
  std::vector<double> sum(static_cast<std::size_t>(width), 0.0);  // of the rows whose prefix reaches the key
  for (std::int64_t key = prefixes.back().key; key >= 0; --key) {
    for (; !prefixes.empty() && prefixes.back().key == key; prefixes.pop_back()) {
      const T* g = row_at<T>(d_o, rows.q.batch, prefixes.back().row, head);
      for (std::int64_t c = 0; c < width; ++c)
        sum[static_cast<std::size_t>(c)] += static_cast<double>(g[c]) / cubes(key);
    }
    add(key, cube(key), sum.data());
  }
}

// All given heads that read one head of v in one sequence.
template <class T>
void vjp_values(const kernels::GivenCall& call, std::size_t sequence, std::int64_t kv, const Tensor& d_o,
                const Tensor& dv) {
  const Sequences::Rows& k = call.keys[sequence];
  const std::int64_t width = dv.dim(3);
  std::vector<double> sum(static_cast<std::size_t>(k.count * width), 0.0);
  for (std::int64_t head = 0; head < d_o.dim(2); ++head)
    if (head * dv.dim(2) / call.heads == kv) vjp_head<T>(call, sequence, head, d_o, sum);
  for (std::int64_t j = 0; j < k.count; ++j) {
    T* to = row_at<T>(dv, k.batch, k.begin + j, kv);
    for (std::int64_t c = 0; c < width; ++c)
      to[c] = static_cast<T>(static_cast<Wide<T>>(sum[static_cast<std::size_t>(j * width + c)]));
  }
}

}  // namespace

template <>
void kernels::apply_given<Device::cpu>(const Context& context, const ApplyGiven& io) {
  const std::int64_t heads = io.o.dim(2);
  visit_float(io.v.dtype(), [&]<class T>() {
    parallel_for(context, std::ssize(io.call->queries) * heads, [&](std::int64_t task) {
      apply_head<T>(*io.call, static_cast<std::size_t>(task / heads), task % heads, io.v, io.o);
    });
  });
}

template <>
void kernels::apply_given_backward<Device::cpu>(const Context& context, const ApplyGivenVjp& io) {
  const std::int64_t heads = io.dv.dim(2);
  visit_float(io.dv.dtype(), [&]<class T>() {
    parallel_for(context, std::ssize(io.call->keys) * heads, [&](std::int64_t task) {
      vjp_values<T>(*io.call, static_cast<std::size_t>(task / heads), task % heads, io.d_o, io.dv);
    });
  });
}

}  // namespace fovea
