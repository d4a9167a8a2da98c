#include <algorithm>
#include <vector>

#include "core/wide.h"
#include "mechanisms/static_sparse/fixed_heads_kernels.h"
#include "ops/cuda/packs.cuh"

// A given row is a copy of one key's value, or the mean of the values up to a key with weights 1, 8, 27, ... in f64.
// Running sums are those of whole stretches of keys and of the keys after the last of them. Heads that look right count
// positions and keys from the end: their own order.
namespace fovea {
namespace {

using namespace device;  // NOLINT

constexpr std::int64_t kStretch = 64;

struct GivenSequence {
  std::int64_t q_first, q_count, k_first, k_count;  // first ones: rows of (b n)
  std::int64_t stretches;                           // before its own
};

std::vector<GivenSequence> sequences_of(const kernels::GivenCall& call, std::int64_t n_q, std::int64_t n_k) {
  std::vector<GivenSequence> list;
  std::int64_t stretches = 0;
  for (std::size_t s = 0; s < call.queries.size(); ++s) {
    const Sequences::Rows &q = call.queries[s], &k = call.keys[s];
    list.push_back({q.batch * n_q + q.begin, q.count, k.batch * n_k + k.begin, k.count, stretches});
    stretches += (k.count + kStretch - 1) / kStretch;
  }
  return list;
}

// What one row reads.
struct Source {
  enum class Kind : std::uint8_t { nothing, key, prefix } kind;
  std::int64_t key;  // the one, or the last of the prefix
};

// One head of a sequence.
struct GivenRows {
  GivenSequence rows;
  GivenHead head;
  RowEdge edge;

  __device__ bool is_mirrored() const {
    return head == GivenHead::next || head == GivenHead::right || head == GivenHead::start;
  }
  __device__ bool reads_all() const { return head == GivenHead::end || head == GivenHead::start; }
  // Of the query or key at a place in the head's order; the query's is negative, or too large, where there is none.
  __device__ std::int64_t query(std::int64_t at) const {
    const std::int64_t position = is_mirrored() ? rows.k_count - 1 - at : at;
    return position - (rows.k_count - rows.q_count);
  }
  __device__ bool has_query(std::int64_t at) const { return query(at) >= 0 && query(at) < rows.q_count; }
  __device__ std::int64_t key(std::int64_t at) const { return is_mirrored() ? rows.k_count - 1 - at : at; }

  __device__ Source source(std::int64_t at) const {
    using Kind = Source::Kind;
    if (at < 0 || at >= rows.k_count) return {Kind::nothing, 0};  // before the first key
    Source from{Kind::key, at};
    if (head == GivenHead::previous || head == GivenHead::next) from.key = at - 1;
    if (head == GivenHead::left || head == GivenHead::right) from = {Kind::prefix, at - 2};
    if (reads_all()) from = {Kind::prefix, rows.k_count - 1};
    if (from.key >= 0) return from;
    if (edge == RowEdge::zero) return {Kind::nothing, 0};
    return {Kind::key, edge == RowEdge::self ? at : is_mirrored() ? rows.k_count - 1 : 0};
  }
};

__device__ double cube(std::int64_t key) {
  const auto x = static_cast<double>(key + 1);
  return x * x * x;
}
// 1 + 8 + ... of the keys up to this one.
__device__ double cubes(std::int64_t key) {
  const double half = 0.5 * static_cast<double>(key + 1) * static_cast<double>(key + 2);
  return half * half;
}

// The heads of a call on the card.
struct GivenView {
  const GivenSequence* sequences;
  const GivenHead* heads;
  std::int64_t sequence_count, head_count, q_heads, kv_heads, width;
  RowEdge edge;

  __device__ GivenRows rows(std::int64_t sequence, std::int64_t head) const {
    return {sequences[sequence], heads[head], edge};
  }
  __device__ std::int64_t kv_head(std::int64_t head) const { return head * kv_heads / q_heads; }
};

class GivenOnCard {
 public:
  // o, v: (b, n, heads, width)
  GivenOnCard(const Context& context, const kernels::GivenCall& call, const Tensor& o, const Tensor& v)
      : call_(call),
        list_(sequences_of(call, o.dim(1), v.dim(1))),
        sequences_(upload(context, list_)),
        heads_(upload(context, call.given.heads)),
        kv_heads_(v.dim(2)),
        width_(v.dim(3)) {}

  GivenView view() const {
    return {sequences_.data(), heads_.data(), sequences_.size(), heads_.size(), call_.heads,
            kv_heads_,         width_,        call_.given.edge};
  }
  std::int64_t longest(std::int64_t GivenSequence::*rows) const {
    std::int64_t most = 0;
    for (const GivenSequence& s : list_) most = std::max(most, s.*rows);
    return most;
  }
  // f64 (heads, stretches of all sequences, width): the sums of what stands in each stretch.
  Tensor room(const Context& context) const {
    std::int64_t stretches = 0;
    for (const GivenSequence& s : list_) stretches += (s.k_count + kStretch - 1) / kStretch;
    return Tensor::empty(context, {heads_.size(), stretches, width_}, DType::f64, Lifetime::scratch);
  }

 private:
  const kernels::GivenCall& call_;
  std::vector<GivenSequence> list_;
  Uploaded<GivenSequence> sequences_;
  Uploaded<GivenHead> heads_;
  std::int64_t kv_heads_, width_;
};

// to (heads, stretches, width): sums of term(rows, head, key, column) over the keys, in their order, before each
// stretch; after it where sums run from the end.
template <class F>
void sum_before(const Context& context, const GivenOnCard& given, bool from_end, const Tensor& to, const F& term) {
  const GivenView view = given.view();
  const std::int64_t stretches = to.dim(1), width = view.width, most = given.longest(&GivenSequence::k_count),
                     of_longest = (most + kStretch - 1) / kStretch;
  double* const sums = pointer<double>(to);
  each(context, view.head_count * view.sequence_count * of_longest * width, [=] __device__(std::int64_t i) {
    const std::int64_t c = i % width, stretch = i / width % of_longest,
                       s = i / width / of_longest % view.sequence_count,
                       head = i / width / of_longest / view.sequence_count;
    const GivenRows rows = view.rows(s, head);
    const std::int64_t begin = stretch * kStretch,
                       end = begin + kStretch < rows.rows.k_count ? begin + kStretch : rows.rows.k_count;
    if (begin >= end) return;
    double sum = 0.0;
    for (std::int64_t key = begin; key < end; ++key) sum += term(rows, head, key, c);
    sums[(head * stretches + rows.rows.stretches + stretch) * width + c] = sum;
  });
  each(context, view.head_count * view.sequence_count * width, [=] __device__(std::int64_t i) {
    const std::int64_t c = i % width, s = i / width % view.sequence_count, head = i / width / view.sequence_count;
    const GivenSequence& rows = view.sequences[s];
    const std::int64_t count = (rows.k_count + kStretch - 1) / kStretch;
    double total = 0.0;
    for (std::int64_t k = 0; k < count; ++k) {
      const std::int64_t stretch = from_end ? count - 1 - k : k;
      double& at = sums[(head * stretches + rows.stretches + stretch) * width + c];
      const double own = at;
      at = total;
      total += own;
    }
  });
}

// cube(key) v_key.
template <class R>
struct CubedValue {
  HeadRows<R> v;
  GivenView view;
  __device__ double operator()(const GivenRows& rows, std::int64_t head, std::int64_t key, std::int64_t c) const {
    const std::int64_t at = v.at(rows.rows.k_first + rows.key(key), view.kv_head(head));
    return cube(key) * static_cast<double>(v.of[at + c]);
  }
};

template <class R>
void apply(const Context& context, const kernels::ApplyGiven& io) {
  const GivenOnCard given(context, *io.call, io.o, io.v);
  const GivenView view = given.view();
  const CubedValue<R> term{HeadRows<R>(io.v), view};
  const Tensor sums = given.room(context);
  sum_before(context, given, false, sums, term);
  const double* const before = pointer<double>(sums);
  const HeadRows<R> o(io.o);
  const std::int64_t stretches = sums.dim(1), width = view.width, longest = given.longest(&GivenSequence::q_count);
  each(context, view.sequence_count * longest * view.head_count * width, [=] __device__(std::int64_t i) {
    const std::int64_t c = i % width, head = i / width % view.head_count, row = i / width / view.head_count % longest,
                       s = i / width / view.head_count / longest;
    const GivenRows rows = view.rows(s, head);
    if (row >= rows.rows.q_count) return;
    const std::int64_t position = row + rows.rows.k_count - rows.rows.q_count,
                       at = rows.is_mirrored() ? rows.rows.k_count - 1 - position : position;
    const Source from = position < 0 ? Source{Source::Kind::nothing, 0} : rows.source(at);
    R value = 0;
    if (from.kind == Source::Kind::key)
      value = term.v.of[term.v.at(rows.rows.k_first + rows.key(from.key), view.kv_head(head)) + c];
    if (from.kind == Source::Kind::prefix) {
      const std::int64_t stretch = from.key / kStretch;
      double sum = before[(head * stretches + rows.rows.stretches + stretch) * width + c];
      for (std::int64_t key = stretch * kStretch; key <= from.key; ++key) sum += term(rows, head, key, c);
      value = static_cast<R>(sum / cubes(from.key));
    }
    o.of.put(o.at(rows.rows.q_first + row, head) + c, value);
  });
}

// The gradients of the rows whose prefix ends at a key, divided by its weights.
template <class R>
struct EndingHere {
  HeadRows<R> d_o;
  __device__ double row(const GivenRows& rows, std::int64_t head, std::int64_t query, std::int64_t c) const {
    return static_cast<double>(d_o.of[d_o.at(rows.rows.q_first + query, head) + c]);
  }
  __device__ double operator()(const GivenRows& rows, std::int64_t head, std::int64_t key, std::int64_t c) const {
    double sum = 0.0;
    if (rows.reads_all()) {
      if (key < rows.rows.k_count - 1) return 0.0;
      for (std::int64_t at = 0; at < rows.rows.k_count; ++at)
        if (rows.has_query(at)) sum += row(rows, head, rows.query(at), c);
    } else if (rows.head == GivenHead::left || rows.head == GivenHead::right) {
      if (key + 2 < rows.rows.k_count && rows.has_query(key + 2)) sum = row(rows, head, rows.query(key + 2), c);
    }
    return sum / cubes(key);
  }
};

// All given heads that read one head of v.
template <class R>
void vjp(const Context& context, const kernels::ApplyGivenVjp& io) {
  const GivenOnCard given(context, *io.call, io.d_o, io.dv);
  const GivenView view = given.view();
  const EndingHere<R> term{HeadRows<R>(io.d_o)};
  const Tensor sums = given.room(context);
  sum_before(context, given, true, sums, term);
  const double* const after = pointer<double>(sums);
  const HeadRows<R> dv(io.dv);
  const std::int64_t stretches = sums.dim(1), width = view.width, longest = given.longest(&GivenSequence::k_count);
  each(context, view.sequence_count * longest * view.kv_heads * width, [=] __device__(std::int64_t i) {
    const std::int64_t c = i % width, kv = i / width % view.kv_heads, j = i / width / view.kv_heads % longest,
                       s = i / width / view.kv_heads / longest;
    if (j >= view.sequences[s].k_count) return;
    double sum = 0.0;
    for (std::int64_t head = 0; head < view.head_count; ++head) {
      if (view.kv_head(head) != kv) continue;
      const GivenRows rows = view.rows(s, head);
      const std::int64_t key = rows.key(j), stretch = key / kStretch,
                         end = (stretch + 1) * kStretch < rows.rows.k_count ? (stretch + 1) * kStretch
                                                                            : rows.rows.k_count;
      const std::int64_t readers[] = {0, 1, key, key + 1};
      for (int r = 0; r < 4; ++r) {
        const std::int64_t at = readers[r];
        if (r >= 2 && at <= 1) continue;  // asked already
        const Source from = rows.has_query(at) ? rows.source(at) : Source{Source::Kind::nothing, 0};
        if (from.kind == Source::Kind::key && from.key == key) sum += term.row(rows, head, rows.query(at), c);
      }
      if (!rows.reads_all() && rows.head != GivenHead::left && rows.head != GivenHead::right) continue;
      double reaching = after[(head * stretches + rows.rows.stretches + stretch) * width + c];
      for (std::int64_t later = key; later < end; ++later) reaching += term(rows, head, later, c);
      sum += cube(key) * reaching;
    }
    dv.of.put(dv.at(view.sequences[s].k_first + j, kv) + c, static_cast<R>(sum));
  });
}

}  // namespace

template <>
void kernels::apply_given<Device::cuda>(const Context& context, const ApplyGiven& io) {
  visit_wide(io.v.dtype(), [&]<class R>() { apply<R>(context, io); });
}

template <>
void kernels::apply_given_backward<Device::cuda>(const Context& context, const ApplyGivenVjp& io) {
  visit_wide(io.dv.dtype(), [&]<class R>() { vjp<R>(context, io); });
}

}  // namespace fovea
