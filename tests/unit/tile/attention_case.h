#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "core/rng.h"
#include "fovea/context.h"
#include "fovea/pattern.h"
#include "plain_weight.h"
#include "policy/dropout.h"
#include "tile/contract.h"

// A tiled attention problem with all its arrays, run by the engine and by plain loops in double.
namespace fovea::tile::testing {

enum class Bias {
  none,
  dense,
  per_head_broadcast,
  per_batch_broadcast,
  keys_only,
  queries_only,
  queries_of_all_heads,
  one_per_head
};

struct Options {
  std::string name = {};
  std::int64_t batch = 1, n_q = 33, n_k = 33, heads = 2, kv_heads = 2, d_k = 8, d_v = 8;
  Pattern pattern = Pattern::full();
  TileSize tile{16, 16};
  bool usual_tiles = false;  // every piece has the tile that the engine's callers give it
  Weight weight = Weight::softmax;
  double offset = -0.7;  // of sigmoid
  int degree = 4;        // of power and taylor
  DType dtype = DType::f64;
  Bias bias = Bias::none;
  bool bias_hides = false;  // some entries are -infinity
  bool alibi = false;
  float dropout = 0.0f;
  bool d_lse = false;
  double size = 1.0;               // of the entries of q and k
  bool heads_first = false;        // memory order (batch, heads, n, dim)
  std::vector<Piece> pieces = {};  // without plans; empty: one per batch item, or one per residue class of `step`
  std::int64_t step = 1;
  std::uint64_t seed = 1;
  double tolerance = 1.0;  // factor: huge scores have large rounding errors
};
inline void PrintTo(const Options& options, std::ostream* out) { *out << options.name; }

// The rows of every batch item by their position modulo `step`: pieces that cover everything.
inline std::vector<Piece> residue_pieces(const Options& o, std::int64_t step) {
  const auto count = [&](std::int64_t first, std::int64_t n) { return first < n ? (n - 1 - first) / step + 1 : 0; };
  std::vector<Piece> pieces;
  for (std::int64_t b = 0; b < o.batch; ++b)
    for (std::int64_t k0 = 0; k0 < step; ++k0) {
      const std::int64_t q0 = ((k0 + o.n_q - o.n_k) % step + step) % step;
      pieces.push_back({b, q0, count(q0, o.n_q), k0, count(k0, o.n_k), nullptr, step, step});
    }
  return pieces;
}

// (batch, n, heads, dim) in double, and the same in the problem's dtype.
struct Field {
  std::int64_t batch = 0, n = 0, heads = 0, dim = 0;
  bool heads_first = false;
  DType dtype = DType::f64;
  std::vector<double> values;  // what the dtype holds
  std::vector<std::byte> storage;

  std::int64_t row_stride() const { return heads_first ? dim : heads * dim; }
  std::int64_t head_stride() const { return heads_first ? n * dim : dim; }
  std::size_t index(std::int64_t b, std::int64_t i, std::int64_t h, std::int64_t c = 0) const {
    return static_cast<std::size_t>(b * n * heads * dim + i * row_stride() + h * head_stride() + c);
  }
  double& at(std::int64_t b, std::int64_t i, std::int64_t h, std::int64_t c = 0) { return values[index(b, i, h, c)]; }
  double at(std::int64_t b, std::int64_t i, std::int64_t h, std::int64_t c = 0) const {
    return values[index(b, i, h, c)];
  }

  static Field make(const Options& o, std::int64_t n, std::int64_t heads, std::int64_t dim, DType dtype) {
    Field f{o.batch, n, heads, dim, o.heads_first, dtype, {}, {}};
    f.values.assign(static_cast<std::size_t>(o.batch * n * heads * dim), 0.0);
    f.storage.assign(f.values.size() * size_of(dtype), std::byte{0xff});  // NaN until written
    return f;
  }
  // Rounds the values to the dtype and stores them.
  void store() {
    visit_float(dtype, [&]<class T>() {
      T* data = reinterpret_cast<T*>(storage.data());
      for (std::size_t i = 0; i < values.size(); ++i) {
        data[i] = static_cast<T>(static_cast<Wide<T>>(values[i]));
        values[i] = static_cast<double>(static_cast<Wide<T>>(data[i]));
      }
    });
  }
  void load() {
    visit_float(dtype, [&]<class T>() {
      const T* data = reinterpret_cast<const T*>(storage.data());
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(static_cast<Wide<T>>(data[i]));
    });
  }
  void fill(Random& random, double size) {
    for (double& x : values) x = (2.0 * random.uniform_double() - 1.0) * size;
    store();
  }
  In in() const { return {storage.data(), n * heads * dim, row_stride(), head_stride()}; }
  Out out() { return {storage.data(), n * heads * dim, row_stride(), head_stride()}; }
};

// Every array of a problem.
struct Arrays {
  Field q, k, v, o, lse, d_o, d_lse, dq, dk, dv;
  std::vector<double> bias, d_bias;  // in elements of the broadcast array
};

class AttentionCase {
 public:
  explicit AttentionCase(Options options) : options_(std::move(options)) {
    Options& o = options_;
    wide_ = o.dtype == DType::f64 ? DType::f64 : DType::f32;
    whole_ = o.pieces.empty();
    if (whole_) o.pieces = residue_pieces(o, o.step);
    for (Piece& piece : o.pieces) {
      const TileSize tile = o.usual_tiles ? tile_size_for<Device::cpu>(o.pattern, piece.nq, piece.nk) : o.tile;
      plans_.push_back(std::make_shared<const Plan>(compile_plan(o.pattern, piece.nq, piece.nk, tile)));
      piece.plan = plans_.back().get();
    }
    Random random(o.seed);
    a_.q = Field::make(o, o.n_q, o.heads, o.d_k, o.dtype);
    a_.k = Field::make(o, o.n_k, o.kv_heads, o.d_k, o.dtype);
    a_.v = Field::make(o, o.n_k, o.kv_heads, o.d_v, o.dtype);
    a_.d_o = Field::make(o, o.n_q, o.heads, o.d_v, o.dtype);
    a_.d_lse = Field::make(o, o.n_q, o.heads, 1, wide_);
    a_.q.fill(random, o.size);
    a_.k.fill(random, o.size);
    a_.v.fill(random, 1.0);
    a_.d_o.fill(random, 1.0);
    a_.d_lse.fill(random, 1.0);
    clear_outputs();
    if (o.alibi)
      for (std::int64_t h = 0; h < o.heads; ++h) slopes_.push_back(std::exp2(-2.3 - static_cast<double>(h)));
    make_bias(random);
  }

  Arrays& arrays() { return a_; }
  const Arrays& arrays() const { return a_; }
  const Options& options() const { return options_; }
  double scale() const { return 1.0 / std::sqrt(static_cast<double>(options_.d_k)); }

  Problem problem() const {
    const Options& o = options_;
    Problem p;
    p.dtype = o.dtype;
    p.heads = o.heads;
    p.kv_heads = o.kv_heads;
    p.d_k = o.d_k;
    p.d_v = o.d_v;
    p.pieces = o.pieces;
    p.weight = o.weight;
    p.offset = o.offset;
    p.degree = o.degree;
    p.scale = scale();
    p.alibi = slopes_.empty() ? nullptr : slopes_.data();
    p.dropout = {o.dropout, 7, 3};
    p.bias = bias_strides<const void*>();
    p.bias.data = bias_storage_.empty() ? nullptr : bias_storage_.data();
    return p;
  }

  PlainWeight plain_weight() const { return {options_.weight, options_.offset, options_.degree}; }

  void run_forward(const Context& context) {
    const bool statistic = has_statistic(options_.weight);
    const Forward io{a_.q.in(), a_.k.in(), a_.v.in(), a_.o.out(), statistic ? a_.lse.out() : Out{}};
    forward<Device::cpu>(context, problem(), io);
    a_.o.load();
    if (statistic) a_.lse.load();
  }

  void run_backward(const Context& context) {
    const bool statistic = has_statistic(options_.weight);
    Backward io{a_.q.in(),
                a_.k.in(),
                a_.v.in(),
                statistic ? a_.o.in() : In{},
                statistic ? a_.lse.in() : In{},
                a_.d_o.in(),
                options_.d_lse ? a_.d_lse.in() : In{},
                a_.dq.out(),
                a_.dk.out(),
                a_.dv.out(),
                {}};
    // What no piece reaches is the caller's; where pieces reach everything, the engine must overwrite NaN.
    std::vector<std::byte> d_bias(bias_storage_.size(), std::byte{covers() ? std::uint8_t{0xff} : std::uint8_t{0}});
    if (!d_bias.empty()) {
      io.d_bias = bias_strides<void*>();
      io.d_bias.data = d_bias.data();
    }
    backward<Device::cpu>(context, problem(), io);
    for (Field* field : {&a_.dq, &a_.dk, &a_.dv}) field->load();
    visit_float(wide_, [&]<class T>() {
      const T* data = reinterpret_cast<const T*>(d_bias.data());
      a_.d_bias.assign(data, data + a_.bias.size());
    });
  }

  // Plain loops in double over what the arrays hold. Rows of no piece stay zero.
  Arrays reference() const {
    Arrays r = a_;
    for (Field* field : {&r.o, &r.lse, &r.dq, &r.dk, &r.dv}) std::fill(field->values.begin(), field->values.end(), 0.0);
    r.d_bias.assign(a_.bias.size(), 0.0);
    for (const Piece& piece : options_.pieces)
      for (std::int64_t h = 0; h < options_.heads; ++h)
        for (std::int64_t i = 0; i < piece.nq; ++i) reference_row(piece, h, i, r);
    return r;
  }

  // Weights of one query row, key by key.
  PlainWeight::Row weigh_row(const Piece& piece, std::int64_t h, std::int64_t i) const {
    std::vector<double> scores;
    for (std::int64_t j = 0; j < piece.nk; ++j)
      scores.push_back(options_.pattern.keep(i + piece.nk - piece.nq, j)
                           ? score(piece, h, piece.q0 + i * piece.q_step, piece.k0 + j * piece.k_step)
                           : -std::numeric_limits<double>::infinity());
    return plain_weight().weigh(std::move(scores));
  }

  // Do the pieces reach every pair of rows?
  bool covers() const { return whole_ && options_.step == 1; }

  void clear_outputs() {
    const Options& o = options_;
    a_.o = Field::make(o, o.n_q, o.heads, o.d_v, o.dtype);
    a_.lse = Field::make(o, o.n_q, o.heads, 1, wide_);
    a_.dq = Field::make(o, o.n_q, o.heads, o.d_k, o.dtype);
    a_.dk = Field::make(o, o.n_k, o.kv_heads, o.d_k, o.dtype);
    a_.dv = Field::make(o, o.n_k, o.kv_heads, o.d_v, o.dtype);
    if (whole_) return;  // everything must be overwritten: the fields hold NaN
    for (Field* f : {&a_.o, &a_.lse, &a_.dq, &a_.dk, &a_.dv}) f->store();  // zeros: rows of no piece are the caller's
  }

  // Rounds a changed bias to what the engine reads.
  void store_bias() {
    bias_storage_.resize(a_.bias.size() * size_of(wide_));
    visit_float(wide_, [&]<class T>() {
      T* data = reinterpret_cast<T*>(bias_storage_.data());
      for (std::size_t i = 0; i < a_.bias.size(); ++i) {
        data[i] = static_cast<T>(static_cast<Wide<T>>(a_.bias[i]));
        a_.bias[i] = static_cast<double>(static_cast<Wide<T>>(data[i]));
      }
    });
  }

 private:
  struct BiasSizes {
    std::int64_t batch, heads, n_q, n_k;
  };
  BiasSizes bias_sizes() const {
    const Options& o = options_;
    switch (o.bias) {
      case Bias::none: return {0, 0, 0, 0};
      case Bias::dense: return {o.batch, o.heads, o.n_q, o.n_k};
      case Bias::per_head_broadcast: return {o.batch, 1, o.n_q, o.n_k};
      case Bias::per_batch_broadcast: return {1, o.heads, o.n_q, o.n_k};
      case Bias::keys_only: return {o.batch, 1, 1, o.n_k};
      case Bias::queries_only: return {1, o.heads, o.n_q, 1};
      case Bias::queries_of_all_heads: return {1, 1, o.n_q, 1};
      case Bias::one_per_head: return {o.batch, o.heads, 1, 1};
    }
    return {};
  }
  template <class Pointer>
  BiasArray<Pointer> bias_strides() const {
    const BiasSizes s = bias_sizes();
    const auto stride = [](std::int64_t size, std::int64_t stride) { return size > 1 ? stride : 0; };
    return {nullptr, stride(s.batch, s.heads * s.n_q * s.n_k), stride(s.heads, s.n_q * s.n_k), stride(s.n_q, s.n_k),
            stride(s.n_k, 1)};
  }
  std::size_t bias_index(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
    const auto s = bias_strides<const void*>();
    return static_cast<std::size_t>(b * s.batch + h * s.head + i * s.query + j * s.key);
  }
  void make_bias(Random& random) {
    const BiasSizes s = bias_sizes();
    a_.bias.resize(static_cast<std::size_t>(s.batch * s.heads * s.n_q * s.n_k));
    for (double& x : a_.bias) {
      x = 2.0 * random.uniform_double() - 1.0;
      if (options_.bias_hides && random.uniform() < 0.3f) x = -std::numeric_limits<double>::infinity();
    }
    store_bias();
  }

  // The last query stands `gap` rows behind the last key.
  static double alibi_distance(const Piece& piece, std::int64_t query_row, std::int64_t key_row) {
    const std::int64_t last_query = piece.q0 + (piece.nq - 1) * piece.q_step;
    const std::int64_t last_key = piece.k0 + (piece.nk - 1) * piece.k_step;
    return std::abs(static_cast<double>((last_key - key_row) - (last_query - query_row) + piece.gap));
  }

  double score(const Piece& piece, std::int64_t h, std::int64_t qi, std::int64_t kj) const {
    const Options& o = options_;
    double s = 0;
    for (std::int64_t c = 0; c < o.d_k; ++c)
      s += a_.q.at(piece.batch, qi, h, c) * a_.k.at(piece.batch, kj, h * o.kv_heads / o.heads, c);
    s *= scale();
    if (!slopes_.empty()) s -= slopes_[static_cast<std::size_t>(h)] * alibi_distance(piece, qi, kj);
    if (!a_.bias.empty()) s += a_.bias[bias_index(piece.batch, h, qi, kj)];
    return s;
  }

  // 0, or the factor of what dropout keeps.
  double drop_factor(const Piece& piece, std::int64_t h, std::int64_t qi, std::int64_t kj) const {
    if (options_.dropout == 0) return 1.0;
    const PairDropout pairs = PairDropout::of(options_.dropout, 7, 3).at(piece.batch, h);
    return pairs.keep(qi, kj) ? PairDropout::scale(options_.dropout) : 0.0;
  }

  void reference_row(const Piece& piece, std::int64_t h, std::int64_t i, Arrays& r) const {
    const Options& o = options_;
    const std::int64_t b = piece.batch, qi = piece.q0 + i * piece.q_step, kv = h * o.kv_heads / o.heads;
    const PlainWeight::Row row = weigh_row(piece, h, i);
    r.lse.at(b, qi, h) = row.lse;
    std::vector<double> dw(row.score.size(), 0.0);
    for (std::size_t j = 0; j < dw.size(); ++j) {
      if (std::isinf(row.score[j])) continue;
      const std::int64_t kj = piece.k0 + static_cast<std::int64_t>(j) * piece.k_step;
      const double drop = drop_factor(piece, h, qi, kj), weight = row.weight[j] * drop;
      for (std::int64_t c = 0; c < o.d_v; ++c) {
        const double g = a_.d_o.at(b, qi, h, c);
        r.o.at(b, qi, h, c) += weight * a_.v.at(b, kj, kv, c);
        r.dv.at(b, kj, kv, c) += weight * g;
        dw[j] += drop * g * a_.v.at(b, kj, kv, c);
      }
    }
    const std::vector<double> ds = plain_weight().vjp(row, dw, o.d_lse ? a_.d_lse.at(b, qi, h) : 0.0);
    for (std::size_t j = 0; j < ds.size(); ++j) {
      const std::int64_t kj = piece.k0 + static_cast<std::int64_t>(j) * piece.k_step;
      if (!a_.bias.empty()) r.d_bias[bias_index(b, h, qi, kj)] += ds[j];
      for (std::int64_t c = 0; c < o.d_k; ++c) {
        r.dq.at(b, qi, h, c) += scale() * ds[j] * a_.k.at(b, kj, kv, c);
        r.dk.at(b, kj, kv, c) += scale() * ds[j] * a_.q.at(b, qi, h, c);
      }
    }
  }

  Options options_;
  DType wide_ = DType::f64;
  bool whole_ = true;  // the pieces are the batch items, complete
  std::vector<std::shared_ptr<const Plan>> plans_;
  Arrays a_;
  std::vector<double> slopes_;
  std::vector<std::byte> bias_storage_;
};

// max |ours - want| relative to the largest |want| or `floor`; infinity when a NaN or an infinity is where none should
// be.
inline double difference(const std::vector<double>& ours, const std::vector<double>& want, double floor = 1e-6) {
  double worst = 0, size = floor;
  for (double x : want)
    if (std::isfinite(x)) size = std::max(size, std::fabs(x));
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (ours[i] == want[i] || (std::isnan(ours[i]) && std::isnan(want[i]))) continue;
    const double error = std::fabs(ours[i] - want[i]) / size;
    worst = std::isfinite(error) ? std::max(worst, error) : std::numeric_limits<double>::infinity();
  }
  return worst;
}

}  // namespace fovea::tile::testing
