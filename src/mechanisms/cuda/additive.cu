#include "core/wide.h"
#include "mechanisms/score/additive_kernels.h"
#include "policy/math.h"
#include "tensor/cuda/loops.cuh"

// The score is no product, so it has loops of its own: the pairs of the heads that share a head of keys, in one
// sequence after another, are written down, and made again in backward.
namespace fovea {
namespace {

using namespace device;  // NOLINT

// One sequence and one head of keys with those of queries that read it.
template <class R>
struct Part {
  std::int64_t n_q, n_k, heads, kv_heads, a, d_v;
  std::int64_t first_head, group, kv_head;
  std::int64_t q_row, k_row;  // first rows of the sequence, of (b n)
  const R *left, *right, *vector;
  Elements<R> value;
  const std::uint64_t* mask;  // null: every pair is kept; bit i of the words of key j is query i
  std::int64_t words;

  __device__ std::int64_t query(std::int64_t i, std::int64_t h) const { return (q_row + i) * heads + first_head + h; }
  __device__ std::int64_t key(std::int64_t j) const { return (k_row + j) * kv_heads + kv_head; }
  __device__ bool keeps(std::int64_t i, std::int64_t j) const {
    return mask == nullptr || (mask[j * words + i / 64] >> (i % 64) & 1) != 0;
  }
  __device__ R bent(std::int64_t i, std::int64_t j, std::int64_t h, std::int64_t c) const {
    return math::tanh(left[query(i, h) * a + c] + right[key(j) * a + c]);
  }
  __device__ R factor(std::int64_t h, std::int64_t c) const { return vector[(first_head + h) * a + c]; }
  std::int64_t pairs() const { return group * n_q * n_k; }
};

// f(part) for all of them. Masks are made by the host from the pattern.
template <class R, class F>
void for_parts(const Context& context, const kernels::AdditiveInputs& in, const kernels::AdditivePairs& pairs,
               const F& f) {
  Part<R> part{};
  part.heads = in.left.dim(2), part.kv_heads = in.right.dim(2), part.a = in.left.dim(3), part.d_v = in.value.dim(3);
  part.group = part.heads / part.kv_heads;
  part.left = in.left.data<R>(), part.right = in.right.data<R>(), part.vector = in.vector.data<R>();
  part.value = elements<R>(in.value);
  for (std::size_t s = 0; s < pairs.queries.size(); ++s) {
    const Sequences::Rows &q = pairs.queries[s], &k = pairs.keys[s];
    part.n_q = q.count, part.n_k = k.count;
    part.q_row = q.batch * in.left.dim(1) + q.begin, part.k_row = k.batch * in.right.dim(1) + k.begin;
    const Pattern::Rect all{k.count - q.count, k.count, 0, k.count};
    part.words = (q.count + 63) / 64;
    std::vector<std::uint64_t> bits;
    if (q.count > 0 && k.count > 0 && pairs.pattern.cover(all) != Pattern::Cover::whole) {
      bits.resize(static_cast<std::size_t>(part.words * k.count));
      pairs.pattern.mask(all, static_cast<std::size_t>(part.words), bits);
    }
    const Uploaded<std::uint64_t> mask = upload(context, bits);
    part.mask = bits.empty() ? nullptr : mask.data();
    for (part.kv_head = 0; part.kv_head < part.kv_heads; ++part.kv_head) {
      part.first_head = part.kv_head * part.group;
      f(part, static_cast<std::int64_t>(s));
    }
  }
}

// p (group, n_q, n_k): the softmax weights; all 0 in rows without keys.
template <class R>
void weigh(const Context& context, const Part<R>& part, R* p) {
  each(context, part.pairs(), [=] __device__(std::int64_t pair) {
    const std::int64_t j = pair % part.n_k, i = pair / part.n_k % part.n_q, h = pair / part.n_k / part.n_q;
    R score = -math::kInfinity<R>;
    if (part.keeps(i, j)) {
      score = 0;
      for (std::int64_t c = 0; c < part.a; ++c) score += part.factor(h, c) * part.bent(i, j, h, c);
    }
    p[pair] = score;
  });
  rows(context, part.group * part.n_q, part.n_k, [=] __device__(const auto& g) {
    R* const row = p + g.row * part.n_k;
    R top = -math::kInfinity<R>, sum(0);
    for (std::int64_t j = g.lane; j < part.n_k; j += g.lanes) top = larger(row[j], top);
    top = g.max(top);
    for (std::int64_t j = g.lane; j < part.n_k; j += g.lanes) {
      row[j] = row[j] == -math::kInfinity<R> ? R(0) : math::exp(row[j] - top);
      sum += row[j];
    }
    sum = g.sum(sum);
    for (std::int64_t j = g.lane; j < part.n_k && sum != 0; j += g.lanes) row[j] /= sum;
  });
}

template <class R>
void write_output(const Context& context, const Part<R>& part, const R* p, const Elements<R>& o) {
  each(context, part.group * part.n_q * part.d_v, [=] __device__(std::int64_t e) {
    const std::int64_t c = e % part.d_v, row = e / part.d_v, i = row % part.n_q, h = row / part.n_q;
    R sum(0);
    for (std::int64_t j = 0; j < part.n_k; ++j) {
      const R weight = p[row * part.n_k + j];
      if (weight != 0) sum += weight * part.value[part.key(j) * part.d_v + c];
    }
    o.put(part.query(i, h) * part.d_v + c, sum);
  });
}

template <class R>
void attend(const Context& context, const kernels::AttendAdditive& io) {
  const Elements<R> o = elements<R>(io.o);
  for_parts<R>(context, io.in, *io.pairs, [&](const Part<R>& part, std::int64_t) {
    const DeviceScratch scratch(launch_of(context), sizeof(R) * static_cast<std::size_t>(part.pairs()));
    auto* const p = static_cast<R*>(scratch.data());
    weigh(context, part, p);
    write_output(context, part, p, o);
  });
}

// ds_ij = p_ij (d_o . v_j - sum over k of p_ik d_o . v_k).
template <class R>
void pull_scores(const Context& context, const Part<R>& part, const R* p, const Elements<R>& d_o, R* ds) {
  rows(context, part.group * part.n_q, part.n_k, [=] __device__(const auto& g) {
    const std::int64_t at = part.query(g.row % part.n_q, g.row / part.n_q) * part.d_v;
    R mean(0);
    for (std::int64_t j = g.lane; j < part.n_k; j += g.lanes) {
      const R weight = p[g.row * part.n_k + j];
      R dot(0);
      for (std::int64_t c = 0; c < part.d_v && weight != 0; ++c)
        dot += d_o[at + c] * part.value[part.key(j) * part.d_v + c];
      ds[g.row * part.n_k + j] = dot;
      mean += weight * dot;
    }
    mean = g.sum(mean);
    for (std::int64_t j = g.lane; j < part.n_k; j += g.lanes) {
      const R weight = p[g.row * part.n_k + j];
      ds[g.row * part.n_k + j] = weight == 0 ? R(0) : weight * (ds[g.row * part.n_k + j] - mean);
    }
  });
}

template <class R>
void pull_values(const Context& context, const Part<R>& part, const R* p, const Elements<R>& d_o, R* d_value) {
  each(context, part.n_k * part.d_v, [=] __device__(std::int64_t e) {
    const std::int64_t j = e / part.d_v, c = e % part.d_v;
    R sum(0);
    for (std::int64_t row = 0; row < part.group * part.n_q; ++row) {
      const R weight = p[row * part.n_k + j];
      if (weight != 0) sum += weight * d_o[part.query(row % part.n_q, row / part.n_q) * part.d_v + c];
    }
    d_value[part.key(j) * part.d_v + c] += sum;
  });
}

// Of the score by left_i or right_j at column c, without the vector: 1 - tanh^2.
template <class R>
void pull_sides(const Context& context, const Part<R>& part, const R* ds, const kernels::AdditiveInputs& d) {
  R *const d_left = d.left.data<R>(), *const d_right = d.right.data<R>();
  each(context, part.group * part.n_q * part.a, [=] __device__(std::int64_t e) {
    const std::int64_t c = e % part.a, row = e / part.a, i = row % part.n_q, h = row / part.n_q;
    R sum(0);
    for (std::int64_t j = 0; j < part.n_k; ++j) {
      const R pulled = ds[row * part.n_k + j], t = pulled == 0 ? R(1) : part.bent(i, j, h, c);
      sum += pulled * (1 - t * t);
    }
    d_left[part.query(i, h) * part.a + c] += part.factor(h, c) * sum;
  });
  each(context, part.n_k * part.a, [=] __device__(std::int64_t e) {
    const std::int64_t j = e / part.a, c = e % part.a;
    R sum(0);
    for (std::int64_t row = 0; row < part.group * part.n_q; ++row) {
      const std::int64_t i = row % part.n_q, h = row / part.n_q;
      const R pulled = ds[row * part.n_k + j], t = pulled == 0 ? R(1) : part.bent(i, j, h, c);
      sum += pulled * (1 - t * t) * part.factor(h, c);
    }
    d_right[part.key(j) * part.a + c] += sum;
  });
}

// d_vector (heads, a) of the sequence: a block for each head and column.
template <class R>
void pull_vector(const Context& context, const Part<R>& part, const R* ds, R* d_vector) {
  const std::int64_t pairs = part.n_q * part.n_k;
  rows(context, part.group * part.a, pairs, [=] __device__(const auto& g) {
    const std::int64_t h = g.row / part.a, c = g.row % part.a;
    R sum(0);
    for (std::int64_t e = g.lane; e < pairs; e += g.lanes) {
      const R pulled = ds[h * pairs + e];
      if (pulled != 0) sum += pulled * part.bent(e / part.n_k, e % part.n_k, h, c);
    }
    sum = g.sum(sum);
    if (g.lane == 0) d_vector[(part.first_head + h) * part.a + c] += sum;
  });
}

template <class R>
void pull(const Context& context, const kernels::PullAdditive& io) {
  const Elements<R> d_o = elements<R>(io.d_o);
  for_parts<R>(context, io.in, *io.pairs, [&](const Part<R>& part, std::int64_t sequence) {
    const std::size_t bytes = sizeof(R) * static_cast<std::size_t>(part.pairs());
    const DeviceScratch weights(launch_of(context), bytes), scores(launch_of(context), bytes);
    auto *const p = static_cast<R*>(weights.data()), *const ds = static_cast<R*>(scores.data());
    weigh(context, part, p);
    pull_scores(context, part, p, d_o, ds);
    pull_values(context, part, p, d_o, io.d.value.data<R>());
    pull_sides(context, part, ds, io.d);
    pull_vector(context, part, ds, io.d.vector.data<R>() + sequence * part.heads * part.a);
  });
}

}  // namespace

template <>
void kernels::attend_additive<Device::cuda>(const Context& context, const AttendAdditive& io) {
  visit_wide(io.o.dtype(), [&]<class R>() { attend<R>(context, io); });
}

template <>
void kernels::attend_additive_backward<Device::cuda>(const Context& context, const PullAdditive& io) {
  visit_wide(io.in.value.dtype(), [&]<class R>() { pull<R>(context, io); });
}

}  // namespace fovea
