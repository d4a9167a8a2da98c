#include <map>
#include <utility>
#include <vector>

#include "core/wide.h"
#include "mechanisms/score/additive_kernels.h"
#include "policy/math.h"
#include "tensor/cuda/loops.cuh"

// The score is no product: rows of weights stand in scratch for some queries of a sequence at a time, and are made
// again in backward.
namespace fovea {
namespace {

using namespace device;  // NOLINT
using kernels::AdditiveInputs;
using kernels::AdditivePairs;

// The pairs that a pattern keeps in a sequence, as Pattern::mask has them; nothing where it keeps all.
class KeptPairs {
 public:
  struct Bits {
    const std::uint64_t* bits = nullptr;  // null: all
    std::int64_t words = 0;
  };
  KeptPairs(const Context& context, const Pattern& pattern) : context_(context), pattern_(pattern) {}

  Bits of(std::int64_t queries, std::int64_t keys) {
    const Pattern::Rect all{keys - queries, keys, 0, keys};
    if (pattern_.cover(all) == Pattern::Cover::whole) return {};
    const std::int64_t words = (queries + 63) / 64;
    auto at = uploaded_.find({queries, keys});
    if (at == uploaded_.end()) {
      std::vector<std::uint64_t> bits(static_cast<std::size_t>(words * keys));
      pattern_.mask(all, static_cast<std::size_t>(words), bits);
      at = uploaded_.emplace(std::pair(queries, keys), upload(context_, bits)).first;
    }
    return {at->second.data(), words};
  }

 private:
  const Context& context_;
  const Pattern& pattern_;
  std::map<std::pair<std::int64_t, std::int64_t>, Uploaded<std::uint64_t>> uploaded_;
};

// Queries [begin, begin + count) of a sequence with its keys, all heads. An item is a query and a head.
template <class R>
struct QueryBlock {
  std::int64_t begin, count, first_query, first_key, keys;  // first ones: rows of (b n)
  KeptPairs::Bits kept;
  std::int64_t heads, kv_heads, width, d_v;
  const R *left, *right, *vector;
  Elements<R> value;
  R* p;  // (items, keys)

  __host__ __device__ std::int64_t items() const { return count * heads; }
  __device__ std::int64_t query_row(std::int64_t item) const {  // of (b, n_q, heads)
    return (first_query + begin + item / heads) * heads + item % heads;
  }
  __device__ std::int64_t key_row(std::int64_t j, std::int64_t kv_head) const {  // of (b, n_k, kv_heads)
    return (first_key + j) * kv_heads + kv_head;
  }
  __device__ std::int64_t kv_head(std::int64_t item) const { return item % heads * kv_heads / heads; }
  __device__ bool keeps(std::int64_t item, std::int64_t j) const {
    const std::int64_t i = begin + item / heads;
    return kept.bits == nullptr || (kept.bits[j * kept.words + i / 64] >> (i % 64) & 1u) != 0;
  }
  // tanh(left_i + right_j) in channel c.
  __device__ R bent(std::int64_t item, std::int64_t j, std::int64_t c) const {
    return math::tanh(left[query_row(item) * width + c] + right[key_row(j, kv_head(item)) * width + c]);
  }
};

template <class R>
void weigh(const Context& context, const QueryBlock<R>& block) {
  each(context, block.items() * block.keys, [=] __device__(std::int64_t i) {
    const std::int64_t item = i / block.keys, j = i % block.keys;
    R score = -math::kInfinity<R>;
    if (block.keeps(item, j)) {
      score = 0;
      const R* vector = block.vector + item % block.heads * block.width;
      for (std::int64_t c = 0; c < block.width; ++c) score += vector[c] * block.bent(item, j, c);
    }
    block.p[i] = score;
  });
  rows(context, block.items(), block.keys, [=] __device__(const auto& g) {
    R* p = block.p + g.row * block.keys;
    R top = -math::kInfinity<R>, total = 0;
    for (std::int64_t j = g.lane; j < block.keys; j += g.lanes) top = larger(top, p[j]);
    top = g.max(top);
    for (std::int64_t j = g.lane; j < block.keys; j += g.lanes) {
      p[j] = p[j] == -math::kInfinity<R> ? R(0) : math::exp(p[j] - top);
      total += p[j];
    }
    total = g.sum(total);
    for (std::int64_t j = g.lane; j < block.keys; j += g.lanes) p[j] = total == 0 ? R(0) : p[j] / total;
  });
}

template <class R>
void mix(const Context& context, const QueryBlock<R>& block, const Elements<R>& o) {
  each(context, block.items() * block.d_v, [=] __device__(std::int64_t i) {
    const std::int64_t item = i / block.d_v, c = i % block.d_v;
    const R* p = block.p + item * block.keys;
    R sum = 0;
    for (std::int64_t j = 0; j < block.keys; ++j)
      if (p[j] != 0) sum += p[j] * block.value[block.key_row(j, block.kv_head(item)) * block.d_v + c];
    o.put(block.query_row(item) * block.d_v + c, sum);
  });
}

// f(block) for some queries at a time, with room for `tables` numbers for each of their pairs.
template <class R, class F>
void for_blocks(const Context& context, const AdditivePairs& pairs, const AdditiveInputs& in, std::int64_t tables,
                const F& f) {
  constexpr std::int64_t kBytes = std::int64_t{64} << 20;
  const std::int64_t n_q = in.left.dim(1), n_k = in.right.dim(1), heads = in.left.dim(2);
  KeptPairs kept(context, pairs.pattern);
  for (std::size_t s = 0; s < pairs.queries.size(); ++s) {
    const Sequences::Rows &q = pairs.queries[s], &k = pairs.keys[s];
    const std::int64_t of_query =
        std::max<std::int64_t>(1, heads * k.count * tables * static_cast<std::int64_t>(sizeof(R)));
    const std::int64_t most = std::max<std::int64_t>(1, kBytes / of_query);
    for (std::int64_t begin = 0; begin < q.count && heads > 0; begin += most) {
      const std::int64_t count = std::min(most, q.count - begin);
      const Tensor scratch =
          Tensor::empty(context, {tables, count * heads, k.count}, in.left.dtype(), Lifetime::scratch);
      f(QueryBlock<R>{begin, count, q.batch * n_q + q.begin, k.batch * n_k + k.begin, k.count,
                      kept.of(q.count, k.count), heads, in.right.dim(2), in.left.dim(3), in.value.dim(3),
                      pointer<R>(in.left), pointer<R>(in.right), pointer<R>(in.vector), elements<R>(in.value),
                      pointer<R>(scratch)});
    }
  }
}

// What the gradients of a block go to, in the wide type; ds (items, keys) follows p.
template <class R>
struct BlockVjp {
  Elements<R> d_o;
  R *left, *right, *value;
  R* vectors;  // (b, n_q, heads, a): what each query gives to the vector of its head
};

// ds_j = p_j (d_o . v_j - sum over k of p_k d_o . v_k) of every item.
template <class R>
void vjp_weights(const Context& context, const QueryBlock<R>& block, const BlockVjp<R>& to) {
  R* const ds = block.p + block.items() * block.keys;
  each(context, block.items() * block.keys, [=] __device__(std::int64_t i) {
    const std::int64_t item = i / block.keys, j = i % block.keys;
    const std::int64_t from = block.query_row(item) * block.d_v,
                       key = block.key_row(j, block.kv_head(item)) * block.d_v;
    R sum = 0;
    for (std::int64_t c = 0; c < block.d_v && block.p[i] != 0; ++c) sum += to.d_o[from + c] * block.value[key + c];
    ds[i] = sum;
  });
  rows(context, block.items(), block.keys, [=] __device__(const auto& g) {
    const std::int64_t first = g.row * block.keys;
    R mean = 0;
    for (std::int64_t j = g.lane; j < block.keys; j += g.lanes) mean += block.p[first + j] * ds[first + j];
    mean = g.sum(mean);
    for (std::int64_t j = g.lane; j < block.keys; j += g.lanes)
      ds[first + j] = block.p[first + j] == 0 ? R(0) : block.p[first + j] * (ds[first + j] - mean);
  });
}

// Of the queries and the vectors.
template <class R>
void vjp_queries(const Context& context, const QueryBlock<R>& block, const BlockVjp<R>& to) {
  const R* const ds = block.p + block.items() * block.keys;
  each(context, block.items() * block.width, [=] __device__(std::int64_t i) {
    const std::int64_t item = i / block.width, c = i % block.width;
    const R vector = block.vector[item % block.heads * block.width + c];
    R of_left = 0, of_vector = 0;
    for (std::int64_t j = 0; j < block.keys; ++j) {
      const R d = ds[item * block.keys + j];
      if (d == 0) continue;
      const R u = block.bent(item, j, c);
      of_vector += d * u;
      of_left += d * vector * (1 - u * u);
    }
    to.left[block.query_row(item) * block.width + c] = of_left;
    to.vectors[block.query_row(item) * block.width + c] = of_vector;
  });
}

// Of the keys and values, added to what other queries gave; heads that share keys follow one another.
template <class R>
void vjp_keys(const Context& context, const QueryBlock<R>& block, const BlockVjp<R>& to) {
  const R* const ds = block.p + block.items() * block.keys;
  const std::int64_t group = block.heads / block.kv_heads, columns = block.width + block.d_v;
  each(context, block.keys * block.kv_heads * columns, [=] __device__(std::int64_t i) {
    const std::int64_t j = i / columns / block.kv_heads, kv_head = i / columns % block.kv_heads, c = i % columns;
    const bool of_key = c < block.width;
    R sum = 0;
    for (std::int64_t h = kv_head * group; h < (kv_head + 1) * group; ++h)
      for (std::int64_t item = h; item < block.items(); item += block.heads) {
        const R weight = (of_key ? ds : block.p)[item * block.keys + j];
        if (weight == 0) continue;
        if (of_key) {
          const R u = block.bent(item, j, c);
          sum += weight * block.vector[h * block.width + c] * (1 - u * u);
        } else {
          sum += weight * to.d_o[block.query_row(item) * block.d_v + c - block.width];
        }
      }
    const std::int64_t row = block.key_row(j, kv_head);
    (of_key ? to.right[row * block.width + c] : to.value[row * block.d_v + c - block.width]) += sum;
  });
}

template <class R>
void vjp(const Context& context, const kernels::AttendAdditiveVjp& io) {
  const Tensor vectors = Tensor::zeros(context, io.in.left.shape(), io.in.left.dtype(), Lifetime::scratch);
  const BlockVjp<R> to{elements<R>(io.d_o), pointer<R>(io.d.left), pointer<R>(io.d.right), pointer<R>(io.d.value),
                       pointer<R>(vectors)};
  for_blocks<R>(context, *io.pairs, io.in, 2, [&](const QueryBlock<R>& block) {
    weigh(context, block);
    vjp_weights(context, block, to);
    vjp_queries(context, block, to);
    vjp_keys(context, block, to);
  });
  const auto queries = upload(context, io.pairs->queries);
  const Sequences::Rows* const list = queries.data();
  const R* const given = pointer<R>(vectors);
  R* const sums = pointer<R>(io.d.vector);
  const std::int64_t n_q = io.in.left.dim(1), columns = io.in.left.dim(2) * io.in.left.dim(3);
  rows(context, io.d.vector.numel(), n_q, [=] __device__(const auto& g) {
    const Sequences::Rows q = list[g.row / columns];
    const std::int64_t first = (q.batch * n_q + q.begin) * columns + g.row % columns;
    R sum = 0;
    for (std::int64_t i = g.lane; i < q.count; i += g.lanes) sum += given[first + i * columns];
    sum = g.sum(sum);
    if (g.lane == 0) sums[g.row] += sum;
  });
}

template <class R>
void attend(const Context& context, const kernels::AttendAdditive& io) {
  for_blocks<R>(context, *io.pairs, io.in, 1, [&](const QueryBlock<R>& block) {
    weigh(context, block);
    mix(context, block, elements<R>(io.o));
  });
}

}  // namespace

template <>
void kernels::attend_additive<Device::cuda>(const Context& context, const AttendAdditive& io) {
  visit_wide(io.o.dtype(), [&]<class R>() { attend<R>(context, io); });
}

template <>
void kernels::attend_additive_backward<Device::cuda>(const Context& context, const AttendAdditiveVjp& io) {
  visit_wide(io.in.value.dtype(), [&]<class R>() { vjp<R>(context, io); });
}

}  // namespace fovea
