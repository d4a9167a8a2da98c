#include "unit/scan/harness.h"

#include <algorithm>

namespace fovea::scan::test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::size_t count(std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
  return static_cast<std::size_t>(a * b * c * d);
}

template <class T>
std::vector<T> convert(const std::vector<double>& from) {
  std::vector<T> to(from.size());
  for (std::size_t i = 0; i < from.size(); ++i) to[i] = static_cast<T>(static_cast<Wide<T>>(from[i]));
  return to;
}

template <class T>
std::vector<double> widen(const std::vector<T>& from) {
  return std::vector<double>(from.begin(), from.end());
}

template <class ArrayType, class Vector>
ArrayType view(Vector& data, std::int64_t rows, std::int64_t heads, std::int64_t dim) {
  return {data.data(), rows * heads * dim, heads * dim, dim};
}

double feature(Map map, double x) {
  switch (map) {
    case Map::identity: return x;
    case Map::elu_plus_one: return x > 0 ? x + 1 : std::exp(x);
    case Map::elu: return x > 0 ? x : std::expm1(x);
    case Map::relu: return x > 0 ? x : 0;
  }
  return 0;
}

// Clears what no piece covers to NaN.
void keep_pieces(const Case& setup, std::vector<double>& data, std::int64_t rows, bool queries) {
  if (data.empty()) return;
  const std::size_t row_size = data.size() / static_cast<std::size_t>(setup.batch * rows);
  std::vector<double> kept(data.size(), kNan);
  for (const Piece& p : setup.pieces) {
    const std::int64_t first = p.batch * rows + (queries ? p.q0 : p.k0);
    std::copy_n(data.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(first) * row_size),
                static_cast<std::size_t>(queries ? p.nq : p.nk) * row_size,
                kept.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(first) * row_size));
  }
  data = kept;
}

}  // namespace

Problem Case::problem(DType dtype) const {
  return {.dtype = dtype,
          .heads = heads,
          .kv_heads = kv_heads,
          .d_k = d_k,
          .d_v = d_v,
          .pieces = pieces,
          .causal = causal,
          .map = map,
          .decay = decay,
          .log_decay = log_decay.empty() ? nullptr : log_decay.data(),
          .denominator = denominator,
          .denominator_eps = eps,
          .rms_norm = rms_norm,
          .norm_eps = eps,
          .chunk = chunk};
}

std::string Case::text() const {
  std::string out = "heads " + std::to_string(heads) + "/" + std::to_string(kv_heads) + " d " + std::to_string(d_k) +
                    "," + std::to_string(d_v) + " map " + std::to_string(static_cast<int>(map)) +
                    (causal ? " causal" : "") + " decay " + std::to_string(static_cast<int>(decay)) + " denominator " +
                    std::to_string(static_cast<int>(denominator)) + (rms_norm ? " norm" : "") +
                    (states ? " states" : "") + " chunk " + std::to_string(chunk) + " pieces";
  for (const Piece& p : pieces) out += " " + std::to_string(p.nq) + "x" + std::to_string(p.nk);
  return out;
}

Case single(std::int64_t nq, std::int64_t nk) {
  Case setup;
  setup.rows_q = nq;
  setup.rows_k = nk;
  setup.pieces = {{0, 0, nq, 0, nk}};
  return setup;
}

std::vector<Case> all_forms(std::int64_t nq, std::int64_t nk) {
  std::vector<Case> out;
  for (Map map : {Map::identity, Map::elu_plus_one, Map::elu, Map::relu})
    for (int order = 0; order < 5; ++order)  // both ways, causal, causal with decay per head, step, channel
      for (int normaliser = 0; normaliser < 4; ++normaliser)
        for (bool states : {false, true})
          for (std::int64_t kv_heads : {4, 2}) {
            Case s = single(nq, nk);
            s.heads = 4;
            s.kv_heads = kv_heads;
            s.map = map;
            s.causal = order > 0;
            s.decay = static_cast<Decay>(std::max(0, order - 1));
            if (s.decay == Decay::head) s.log_decay = {-0.1, -60.0, -1.5, 0.0};
            s.denominator = static_cast<Denominator>(normaliser % 3);
            if (s.denominator != Denominator::none && (map == Map::identity || map == Map::elu)) continue;
            s.rms_norm = normaliser == 3;
            s.eps = s.denominator == Denominator::clamp ? 3.7 : 0.3;
            s.states = states;
            s.save_state = kv_heads == 2;
            out.push_back(s);
          }
  return out;
}

Values random_values(const Case& s, std::uint64_t seed, double mean_of_v) {
  Random random(seed);
  const auto normal = [&](std::size_t n, double mean) {
    std::vector<double> out(n);
    for (double& x : out) {
      x = random.normal();
      x = mean + (std::abs(x) < 1e-3 ? 1e-3 : x);  // differences must not reach over the corner of a map
    }
    return out;
  };
  const std::size_t state =
      count(static_cast<std::int64_t>(s.pieces.size()), s.kv_heads, s.d_k, state_width(s.problem(DType::f64)));
  Values values;
  values.q = normal(count(s.batch, s.rows_q, s.heads, s.d_k), 0);
  values.k = normal(count(s.batch, s.rows_k, s.kv_heads, s.d_k), 0);
  values.v = normal(count(s.batch, s.rows_k, s.kv_heads, s.d_v), mean_of_v);
  values.d_o = normal(count(s.batch, s.rows_q, s.heads, s.d_v), 0);
  values.initial = normal(s.states ? state : 0, 0);
  values.d_final = normal(s.states ? state : 0, 0);
  values.log_decay.resize(count(s.batch, s.rows_k, s.kv_heads, decay_columns(s.problem(DType::f64))));
  for (double& g : values.log_decay) {
    const double kind = random.uniform();
    g = kind < 0.02 ? -60.0 : kind < 0.04 ? -1000.0 : -5.0 * random.uniform() * random.uniform();
  }
  if (s.denominator != Denominator::none) {  // a sum of positive features
    const auto width = static_cast<std::size_t>(s.d_v + 1);
    for (std::size_t i = width - 1; i < values.initial.size(); i += width)
      values.initial[i] = std::abs(values.initial[i]);
  }
  keep_pieces(s, values.q, s.rows_q, true);
  keep_pieces(s, values.d_o, s.rows_q, true);
  keep_pieces(s, values.k, s.rows_k, false);
  keep_pieces(s, values.v, s.rows_k, false);
  keep_pieces(s, values.log_decay, s.rows_k, false);
  return values;
}

template <class T>
Results run_engine(const Context& context, const Case& s, const Values& values) {
  using R = Wide<T>;
  const Problem problem = s.problem(dtype_of<T>);
  const std::vector<T> q = convert<T>(values.q), k = convert<T>(values.k), v = convert<T>(values.v);
  const std::vector<T> d_o = convert<T>(values.d_o);
  const std::vector<R> initial = convert<R>(values.initial), d_final = convert<R>(values.d_final);
  const std::vector<R> log_decay = convert<R>(values.log_decay);
  const T nan = static_cast<T>(std::numeric_limits<Wide<T>>::quiet_NaN());
  std::vector<T> o(d_o.size(), nan), dq(q.size(), nan), dk(k.size(), nan), dv(v.size(), nan);
  std::vector<R> final(initial.size(), kNan), d_initial(initial.size(), kNan);
  std::vector<R> d_log_decay(log_decay.size(), kNan);
  const std::int64_t decays = decay_columns(problem);
  const std::int64_t columns = statistic_columns(problem);
  std::vector<R> statistic(count(s.batch, s.rows_q, columns, 1), kNan);
  const auto statistic_view = [&]<class A>(A) {
    return columns == 0 ? A{} : A{statistic.data(), s.rows_q * columns, columns, 1};
  };
  const auto pointer = [&](auto& state) { return s.states ? state.data() : nullptr; };

  forward<Device::cpu>(context, problem,
                       {.q = view<In>(q, s.rows_q, s.heads, s.d_k),
                        .k = view<In>(k, s.rows_k, s.kv_heads, s.d_k),
                        .v = view<In>(v, s.rows_k, s.kv_heads, s.d_v),
                        .log_decay = view<In>(log_decay, s.rows_k, s.kv_heads, decays),
                        .o = view<Out>(o, s.rows_q, s.heads, s.d_v),
                        .statistic = statistic_view(Out{}),
                        .initial_state = pointer(initial),
                        .final_state = pointer(final)});
  backward<Device::cpu>(context, problem,
                        {.q = view<In>(q, s.rows_q, s.heads, s.d_k),
                         .k = view<In>(k, s.rows_k, s.kv_heads, s.d_k),
                         .v = view<In>(v, s.rows_k, s.kv_heads, s.d_v),
                         .log_decay = view<In>(log_decay, s.rows_k, s.kv_heads, decays),
                         .o = view<In>(o, s.rows_q, s.heads, s.d_v),
                         .statistic = statistic_view(In{}),
                         .d_o = view<In>(d_o, s.rows_q, s.heads, s.d_v),
                         .initial_state = pointer(initial),
                         .final_state = s.save_state ? pointer(final) : nullptr,
                         .d_final_state = pointer(d_final),
                         .dq = view<Out>(dq, s.rows_q, s.heads, s.d_k),
                         .dk = view<Out>(dk, s.rows_k, s.kv_heads, s.d_k),
                         .dv = view<Out>(dv, s.rows_k, s.kv_heads, s.d_v),
                         .d_log_decay = view<Out>(d_log_decay, s.rows_k, s.kv_heads, decays),
                         .d_initial_state = pointer(d_initial)});
  return {widen(o),  widen(statistic), widen(final),     widen(dq),
          widen(dk), widen(dv),        widen(d_initial), widen(d_log_decay)};
}
template Results run_engine<float>(const Context&, const Case&, const Values&);
template Results run_engine<double>(const Context&, const Case&, const Values&);
template Results run_engine<bf16>(const Context&, const Case&, const Values&);
template Results run_engine<f16>(const Context&, const Case&, const Values&);

namespace {

// One piece and one query head by the definition: y_i = sum over channels a and keys j of f(q_ia) f(k_ja) v_j times the
// decay of the steps behind j, plus S^T f(q_i) with that of all steps. Keys and steps up to i + nk - nq when causal,
// all of them when not.
class Definition {
 public:
  Definition(const Case& setup, const Values& values) : s_(setup), x_(values) {}

  double q(const Piece& p, std::int64_t i, std::int64_t h, std::int64_t a) const {
    return feature(s_.map, x_.q[index(p.batch * s_.rows_q + p.q0 + i, s_.heads, h, s_.d_k, a)]);
  }
  double k(const Piece& p, std::int64_t j, std::int64_t g, std::int64_t a) const {
    return feature(s_.map, x_.k[index(p.batch * s_.rows_k + p.k0 + j, s_.kv_heads, g, s_.d_k, a)]);
  }
  double v(const Piece& p, std::int64_t j, std::int64_t g, std::int64_t w) const {
    return w == s_.d_v ? 1.0 : x_.v[index(p.batch * s_.rows_k + p.k0 + j, s_.kv_heads, g, s_.d_v, w)];
  }
  double initial(std::size_t piece, std::int64_t g, std::int64_t a, std::int64_t w) const {
    if (!s_.states) return 0;
    const std::int64_t width = state_width(s_.problem(DType::f64));
    return x_.initial[index(static_cast<std::int64_t>(piece) * s_.kv_heads + g, s_.d_k, a, width, w)];
  }
  // e^g of step t
  double decay(const Piece& p, std::int64_t t, std::int64_t g, std::int64_t a) const {
    if (s_.decay == Decay::none) return 1;
    if (s_.decay == Decay::head) return std::exp(s_.log_decay[static_cast<std::size_t>(g)]);
    const std::int64_t columns = decay_columns(s_.problem(DType::f64));
    return std::exp(x_.log_decay[index(p.batch * s_.rows_k + p.k0 + t, s_.kv_heads, g, columns, a % columns)]);
  }

  std::vector<double> row(std::size_t piece, std::int64_t i, std::int64_t h) const {
    const Piece& p = s_.pieces[piece];
    const std::int64_t g = h * s_.kv_heads / s_.heads, at = i + p.nk - p.nq;
    const std::int64_t width = state_width(s_.problem(DType::f64));
    std::vector<double> y(static_cast<std::size_t>(width), 0.0);
    if (s_.causal && at < 0) return y;
    for (std::int64_t a = 0; a < s_.d_k; ++a) {
      const auto add = [&](double factor, const auto& of_column) {
        for (std::int64_t w = 0; w < width; ++w) y[static_cast<std::size_t>(w)] += factor * of_column(w);
      };
      double weight = q(p, i, h, a);
      for (std::int64_t j = s_.causal ? at : p.nk - 1; j >= 0; --j) {
        add(weight * k(p, j, g, a), [&](std::int64_t w) { return v(p, j, g, w); });
        weight *= decay(p, j, g, a);
      }
      add(weight, [&](std::int64_t w) { return initial(piece, g, a, w); });
    }
    return y;
  }

  static std::size_t index(std::int64_t row, std::int64_t n1, std::int64_t i1, std::int64_t n2, std::int64_t i2) {
    return static_cast<std::size_t>((row * n1 + i1) * n2 + i2);
  }

 private:
  const Case& s_;
  const Values& x_;
};

void finish_row(const Case& s, std::vector<std::vector<double>>& rows) {
  double squares = 0;
  for (std::vector<double>& y : rows) {
    if (s.denominator != Denominator::none) {
      const double sum = y.back();
      const double d = s.denominator == Denominator::add ? sum + s.eps : std::max(sum, s.eps);
      for (double& x : y) x /= d;
      y.pop_back();
    }
    for (double x : y) squares += x * x;
  }
  if (!s.rms_norm) return;
  for (std::vector<double>& y : rows)
    for (double& x : y) x /= std::sqrt(squares / static_cast<double>(s.heads * s.d_v) + s.eps);
}

}  // namespace

Results run_definition(const Case& s, const Values& values) {
  const Definition definition(s, values);
  const std::int64_t width = state_width(s.problem(DType::f64));
  Results out;
  out.o.assign(values.d_o.size(), kNan);
  out.final.assign(values.initial.size(), kNan);
  for (std::size_t n = 0; n < s.pieces.size(); ++n) {
    const Piece& p = s.pieces[n];
    for (std::int64_t i = 0; i < p.nq; ++i) {
      std::vector<std::vector<double>> rows;
      for (std::int64_t h = 0; h < s.heads; ++h) rows.push_back(definition.row(n, i, h));
      finish_row(s, rows);
      for (std::int64_t h = 0; h < s.heads; ++h)
        for (std::int64_t w = 0; w < s.d_v; ++w)
          out.o[Definition::index(p.batch * s.rows_q + p.q0 + i, s.heads, h, s.d_v, w)] =
              rows[static_cast<std::size_t>(h)][static_cast<std::size_t>(w)];
    }
    for (std::int64_t g = 0; s.states && g < s.kv_heads; ++g)
      for (std::int64_t a = 0; a < s.d_k; ++a)
        for (std::int64_t w = 0; w < width; ++w) {
          double sum = definition.initial(n, g, a, w);
          for (std::int64_t j = 0; j < p.nk; ++j)
            sum = definition.decay(p, j, g, a) * sum + definition.k(p, j, g, a) * definition.v(p, j, g, w);
          out.final[Definition::index(static_cast<std::int64_t>(n) * s.kv_heads + g, s.d_k, a, width, w)] = sum;
        }
  }
  return out;
}

double loss(const Case& setup, const Values& values) {
  const Results results = run_definition(setup, values);
  double sum = 0;
  for (std::size_t i = 0; i < results.o.size(); ++i)
    if (!std::isnan(results.o[i])) sum += results.o[i] * values.d_o[i];
  for (std::size_t i = 0; i < results.final.size(); ++i) sum += results.final[i] * values.d_final[i];
  return sum;
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double most = 0, scale = 0.1;  // a gradient that cancels altogether is judged by itself
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(b[i]) != !std::isfinite(a[i])) return std::numeric_limits<double>::infinity();
    if (std::isnan(b[i])) continue;
    most = std::max(most, std::abs(a[i] - b[i]));
    scale = std::max(scale, std::abs(b[i]));
  }
  return most / scale;
}

double worst(const Results& a, const Results& b) {
  double most = 0;
  for (auto member : kEveryResult) most = std::max(most, distance(a.*member, b.*member));
  return most;
}

Context make_context(int threads) { return Context(ContextOptions{.threads = threads, .memory = {.poison = true}}); }

}  // namespace fovea::scan::test
