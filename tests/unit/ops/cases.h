#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "fovea/ops.h"
#include "ops/embedding.h"
#include "support/gradcheck.h"
#include "support/names.h"

namespace fovea::testing {

// An operation with inputs: small ones for finite differences, large ones that are divided among threads.
struct OpCase {
  std::string name;
  Function f;
  std::vector<Shape> small, large;
  std::size_t parameters = 0;  // the last inputs that stay in the wide type whatever the activations are
  bool vendor = false;         // has a oneDNN product, whose bits may depend on the number of threads
  double scale = 1.0;          // of the random inputs
};
inline void PrintTo(const OpCase& c, std::ostream* out) { *out << c.name; }

// Parameters hold values of `dtype` too, so that converting them for a product changes nothing: a weight rounded on the
// way would flip the sign of a ReLU here and there, and no tolerance covers that.
inline std::vector<Tensor> random_inputs(const Context& context, const OpCase& c, const std::vector<Shape>& shapes,
                                         DType dtype) {
  const DType wide = dtype == DType::f64 ? DType::f64 : DType::f32;
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const Tensor values = random(context, shapes[i], 10 + i, dtype, c.scale);
    inputs.push_back(i + c.parameters < shapes.size() ? values : values.to(context, wide));
  }
  return inputs;
}

using Inputs = std::span<const Var>;

inline constexpr std::pair<Activation, const char*> kActivations[] = {{Activation::identity, "identity"},
                                                                      {Activation::relu, "relu"},
                                                                      {Activation::gelu, "gelu"},
                                                                      {Activation::gelu_tanh, "gelu_tanh"},
                                                                      {Activation::silu, "silu"},
                                                                      {Activation::elu, "elu"},
                                                                      {Activation::elu_plus_one, "elu_plus_one"},
                                                                      {Activation::tanh, "tanh"},
                                                                      {Activation::sigmoid, "sigmoid"},
                                                                      {Activation::gelu_quick, "gelu_quick"},
                                                                      {Activation::relu_squared, "relu_squared"},
                                                                      {Activation::swish, "swish"}};

// One output as the list that Function wants.
template <class F>
Function one(F f) {
  return [f](Tape& tape, Inputs v) { return std::vector<Var>{f(tape, v)}; };
}

// Numbers below `limit` in a scrambled order, some of them often.
inline Tensor scrambled(const Context& context, const Shape& shape, std::uint32_t limit) {
  Random draws(5);
  std::vector<std::int32_t> values(static_cast<std::size_t>(shape.numel()));
  for (std::int32_t& v : values) v = static_cast<std::int32_t>(draws.below(2) == 0 ? limit / 2 : draws.below(limit));
  return integers(context, shape, values);
}

inline void add_products(std::vector<OpCase>& cases) {
  const Function product = one([](Tape& t, Inputs v) { return matmul(t, v[0], v[1]); });
  cases.push_back({"matmul", product, {{3, 5}, {5, 7}}, {{301, 65}, {65, 67}}, 0, true});
  cases.push_back({"matmul_batched", product, {{2, 3, 5}, {2, 5, 4}}, {{3, 65, 33}, {3, 33, 17}}, 0, true});
  cases.push_back({"matmul_shared", product, {{2, 3, 5}, {5, 4}}, {{3, 200, 33}, {33, 17}}, 0, true});
  cases.push_back({"matmul_of_heads",
                   one([](Tape& t, Inputs v) {
                     const Var q = transpose(t, v[0], 1, 2), k = transpose(t, v[1], 1, 2);
                     return matmul(t, q, transpose(t, k, 2, 3));
                   }),
                   {{2, 3, 5, 4}, {2, 6, 5, 4}},
                   {{2, 65, 3, 16}, {2, 33, 3, 16}},
                   0,
                   true});
  cases.push_back({"matmul_into_heads",
                   one([](Tape& t, Inputs v) { return matmul(t, transpose(t, v[0], 2, 3), transpose(t, v[1], 1, 2)); }),
                   {{2, 5, 3, 4}, {2, 3, 5, 6}},
                   {{2, 3, 65, 33}, {2, 65, 3, 16}},
                   0,
                   true});
  cases.push_back({"linear_without_bias",
                   one([](Tape& t, Inputs v) { return linear(t, v[0], v[1]); }),
                   {{2, 3, 5}, {5, 4}},
                   {{700, 65}, {65, 33}},
                   1,
                   true});
  for (const auto& [activation, name] : kActivations)
    cases.push_back({std::string("linear_") + name,
                     one([a = activation](Tape& t, Inputs v) { return linear(t, v[0], v[1], v[2], a); }),
                     {{2, 3, 5}, {5, 4}, {4}},
                     {{700, 65}, {65, 33}, {33}},
                     2,
                     true,
                     0.5});
}

inline void add_elementwise(std::vector<OpCase>& cases) {
  const Function sum = one([](Tape& t, Inputs v) { return add(t, v[0], v[1]); });
  const Function product = one([](Tape& t, Inputs v) { return mul(t, v[0], v[1]); });
  const Function difference = one([](Tape& t, Inputs v) { return sub(t, v[0], v[1]); });
  for (const auto& [name, f] : {std::pair{"add", sum}, std::pair{"sub", difference}, std::pair{"mul", product}}) {
    cases.push_back({name, f, {{3, 5}, {3, 5}}, {{300, 127}, {300, 127}}});
    cases.push_back({std::string(name) + "_row", f, {{4, 3, 5}, {5}}, {{3, 300, 127}, {127}}, 1});
    cases.push_back({std::string(name) + "_scalar", f, {{4, 3}, {}}, {{300, 127}, {}}, 1});
    cases.push_back({std::string(name) + "_number", f, {{4, 3}, {1}}, {{300, 127}, {1}}, 1});
    cases.push_back({std::string(name) + "_matrix", f, {{2, 3, 5}, {3, 5}}, {{7, 61, 127}, {61, 127}}, 1});
  }
  cases.push_back({"add_to_itself", one([](Tape& t, Inputs v) { return add(t, v[0], v[0]); }), {{3, 5}}, {{300, 127}}});
  cases.push_back({"scale", one([](Tape& t, Inputs v) { return scale(t, v[0], -1.7); }), {{3, 5}}, {{300, 127}}});
  cases.push_back({"reciprocal",
                   one([](Tape& t, Inputs v) {
                     const Tensor half = Tensor::empty(t.context(), {1}, v[0].dtype());
                     half.fill(0.5);
                     return reciprocal(t, add(t, mul(t, v[0], v[0]), half));
                   }),
                   {{3, 5}},
                   {{300, 127}}});
  cases.push_back({"exp_scale",
                   one([](Tape& t, Inputs v) { return exp_scale(t, v[0], v[1]); }),
                   {{3, 5}, {}},
                   {{300, 127}, {1}},
                   1});
  cases.push_back({"dropout", one([](Tape& t, Inputs v) { return dropout(t, v[0], 0.3); }), {{7, 5}}, {{300, 127}}});
  for (const auto& [activation, name] : kActivations) {
    cases.push_back({std::string("activate_") + name,
                     one([a = activation](Tape& t, Inputs v) { return scale(t, activate(t, v[0], a), 1.0); }),
                     {{3, 5}},
                     {{300, 127}}});
    cases.push_back({std::string("glu_") + name,
                     one([a = activation](Tape& t, Inputs v) { return glu(t, v[0], a); }),
                     {{3, 2, 6}},
                     {{500, 170}}});
  }
}

inline void add_norms(std::vector<OpCase>& cases) {
  for (const auto& [kind, name] : {std::pair{NormKind::layer, "layer"}, std::pair{NormKind::rms, "rms"},
                                   std::pair{NormKind::rms_a, "rms_a"}, std::pair{NormKind::l2, "l2"}}) {
    const double eps = 0.01;  // large enough to matter to the gradient
    cases.push_back({std::string("normalize_plain_") + name,
                     one([k = kind, eps](Tape& t, Inputs v) {
                       return normalize(t, v[0], {k, eps, {}, {}});
                     }),
                     {{3, 7}},
                     {{700, 65}}});
    cases.push_back({std::string("normalize_") + name,
                     one([k = kind, eps](Tape& t, Inputs v) {
                       return normalize(t, v[0], {k, eps, v[1], v[2]});
                     }),
                     {{2, 3, 7}, {7}, {7}},
                     {{700, 65}, {65}, {65}},
                     2});
    for (double p : {0.0, 0.4})
      cases.push_back({std::string("add_norm_") + name + (p > 0 ? "_dropout" : ""),
                       [k = kind, eps, p](Tape& t, Inputs v) {
                         const AddNorm out = add_norm(t, v[0], v[1], p, {k, eps, v[2], v[3]});
                         return std::vector<Var>{out.sum, out.normed};
                       },
                       {{3, 7}, {3, 7}, {7}, {7}},
                       {{700, 65}, {700, 65}, {65}, {65}},
                       2});
  }
}

inline void add_softmax(std::vector<OpCase>& cases) {
  cases.push_back(
      {"softmax", one([](Tape& t, Inputs v) { return softmax(t, v[0]); }), {{3, 7}}, {{500, 97}}, 0, false, 3.0});
  cases.push_back({"log_softmax",
                   one([](Tape& t, Inputs v) { return log_softmax(t, v[0]); }),
                   {{3, 7}},
                   {{500, 97}},
                   0,
                   false,
                   3.0});
  cases.push_back({"softmax_of_positions",
                   one([](Tape& t, Inputs v) { return softmax(t, v[0], 1); }),
                   {{2, 4, 2, 3}},
                   {{2, 300, 2, 17}},
                   0,
                   false,
                   3.0});
  cases.push_back({"log_sum_exp",
                   one([](Tape& t, Inputs v) { return log_sum_exp(t, v[0]); }),
                   {{2, 3, 7}},
                   {{5, 100, 97}},
                   0,
                   false,
                   3.0});
}

// x (b, n, width), a table of words and one of places: x times their sum, of which the first rows of each item count.
inline Var sum_of_embeddings(Tape& t, Inputs v, bool runs) {
  const std::int64_t b = v[0].dim(0), n = v[0].dim(1);
  Sequences rows;
  std::vector<std::int32_t> places;
  for (std::int64_t item = 0; item < b; ++item) {
    rows.lengths.push_back(static_cast<std::int32_t>(n - item % n));
    for (std::int64_t place = 0; place < n; ++place)
      places.push_back(static_cast<std::int32_t>(place < rows.lengths.back() ? place : 0));
  }
  const Tensor words = scrambled(t.context(), {b, n}, static_cast<std::uint32_t>(v[1].dim(0)));
  const RowPlaces where{v[2], Index(integers(t.context(), {b, n}, places), 0, n),
                        runs ? rows.rows(b, n, "rows") : RowList()};
  return mean_pool(t, mul(t, v[0], embedding_sum(t, v[1], words, where, v[0].dtype())), rows);
}

inline void add_rows(std::vector<OpCase>& cases) {
  for (double smoothing : {0.0, 0.1})
    cases.push_back({smoothing > 0 ? "cross_entropy_smoothed" : "cross_entropy",
                     one([smoothing](Tape& t, Inputs v) {
                       const Tensor targets =
                           scrambled(t.context(), {v[0].dim(0)}, static_cast<std::uint32_t>(v[0].dim(1)));
                       targets.reshape({-1}).slice(0, 1, 2).fill(-1.0);
                       return cross_entropy(t, v[0], targets, {smoothing, -1});
                     }),
                     {{5, 7}},
                     {{600, 97}},
                     0,
                     false,
                     2.0});
  for (const bool tied : {false, true})
    cases.push_back({tied ? "linear_class_loss_of_a_table" : "linear_class_loss",
                     one([tied](Tape& t, Inputs v) {
                       const Var weight = tied ? transpose(t, v[1], 0, 1) : v[1];
                       const auto classes = static_cast<std::uint32_t>(weight.dim(1));
                       const Tensor targets = scrambled(t.context(), {v[0].dim(0), v[0].dim(1)}, classes);
                       targets.reshape({-1}).slice(0, 1, 2).fill(-1.0);
                       return linear_class_loss(t, v[0], weight, v[2], targets, {0.1, -1}).value;
                     }),
                     {{2, 3, 5}, tied ? Shape{7, 5} : Shape{5, 7}, {7}},
                     {{2, 300, 9}, tied ? Shape{67, 9} : Shape{9, 67}, {67}},
                     2,
                     true,
                     0.5});
  cases.push_back(
      {"mse", one([](Tape& t, Inputs v) { return mse(t, v[0], v[1]); }), {{3, 5}, {3, 5}}, {{300, 127}, {300, 127}}});
  cases.push_back(
      {"mae", one([](Tape& t, Inputs v) { return mae(t, v[0], v[1]); }), {{3, 5}, {3, 5}}, {{300, 127}, {300, 127}}});
  cases.push_back({"mse_of_wide_target",
                   one([](Tape& t, Inputs v) { return mse(t, v[0], v[1]); }),
                   {{3, 5}, {3, 5}},
                   {{300, 127}, {300, 127}},
                   1});
  cases.push_back(
      {"embedding",
       one([](Tape& t, Inputs v) {
         const std::int64_t rows = 60 * v[0].dim(0);
         return embedding(t, v[0], scrambled(t.context(), {2, rows / 2}, static_cast<std::uint32_t>(v[0].dim(0))));
       }),
       {{4, 3}},
       {{50, 65}},
       1});
  for (const bool runs : {false, true})
    cases.push_back({runs ? "embedding_sum_of_runs" : "embedding_sum",
                     one([runs](Tape& t, Inputs v) { return sum_of_embeddings(t, v, runs); }),
                     {{3, 4, 3}, {4, 3}, {4, 3}},
                     {{5, 120, 65}, {50, 65}, {120, 65}},
                     2});
  cases.push_back({"gather",
                   one([](Tape& t, Inputs v) {
                     return gather(t, v[0], scrambled(t.context(), {11}, static_cast<std::uint32_t>(v[0].dim(0))));
                   }),
                   {{4, 3, 2}},
                   {{300, 9, 17}}});
}

inline void add_reductions(std::vector<OpCase>& cases) {
  cases.push_back({"sum", one([](Tape& t, Inputs v) { return sum(t, v[0]); }), {{3, 5}}, {{300, 127}}});
  cases.push_back({"mean", one([](Tape& t, Inputs v) { return mean(t, v[0]); }), {{3, 5}}, {{300, 127}}});
  const auto lengths = [](const Var& x) {
    Sequences s;
    for (std::int64_t b = 0; b < x.dim(0); ++b) s.lengths.push_back(static_cast<std::int32_t>(x.dim(1) * b / x.dim(0)));
    return s;
  };
  cases.push_back(
      {"mean_pool", one([](Tape& t, Inputs v) { return mean_pool(t, v[0], {}); }), {{2, 4, 3}}, {{3, 600, 17}}});
  cases.push_back({"mean_pool_padded",
                   one([lengths](Tape& t, Inputs v) { return mean_pool(t, v[0], lengths(v[0])); }),
                   {{3, 4, 3}},
                   {{3, 600, 17}}});
  cases.push_back({"mean_pool_packed",
                   one([](Tape& t, Inputs v) {
                     const auto n = static_cast<std::int32_t>(v[0].dim(1));
                     Sequences s;
                     s.cu_seqlens = {0, n / 3, n / 3, n - 1};
                     return mean_pool(t, v[0], s);
                   }),
                   {{1, 7, 3}},
                   {{1, 2000, 17}}});
  cases.push_back({"first_pool",
                   one([lengths](Tape& t, Inputs v) { return first_pool(t, v[0], lengths(v[0])); }),
                   {{3, 4, 3}},
                   {{3, 600, 17}}});
}

inline void add_views(std::vector<OpCase>& cases) {
  cases.push_back({"reshape",
                   one([](Tape& t, Inputs v) {
                     return reshape(t, v[0], {-1, 2});
                   }),
                   {{3, 4}},
                   {{300, 128}}});
  cases.push_back({"reshape_of_view",
                   one([](Tape& t, Inputs v) { return reshape(t, transpose(t, v[0], 0, 1), {-1}); }),
                   {{3, 4}},
                   {{300, 127}}});
  cases.push_back(
      {"transpose", one([](Tape& t, Inputs v) { return transpose(t, v[0], 0, -1); }), {{3, 4, 2}}, {{31, 17, 61}}});
  cases.push_back({"slices",
                   [](Tape& t, Inputs v) {
                     const std::int64_t n = v[0].dim(1);
                     return std::vector<Var>{slice(t, v[0], 1, 1, n - 1), slice(t, v[0], -1, 0, n / 2)};
                   },
                   {{3, 5}},
                   {{300, 127}}});
  cases.push_back({"concat",
                   one([](Tape& t, Inputs v) {
                     const Var parts[] = {v[0], v[1], v[0]};
                     return concat(t, parts, -1);
                   }),
                   {{3, 2}, {3, 4}},
                   {{300, 61}, {300, 63}}});
  for (bool halves : {false, true})
    for (std::int64_t width : {0, 4})
      cases.push_back({std::string("rotate_") + (halves ? "halves_" : "pairs_") + std::to_string(width),
                       one([halves, width](Tape& t, Inputs v) {
                         const Tensor at = scrambled(t.context(), {v[0].dim(0), v[0].dim(1)}, 5000);
                         return rotate(t, v[0], at, {10000.0, halves, width});
                       }),
                       {{2, 3, 2, 7}},
                       {{2, 150, 3, 33}}});
}

inline std::vector<OpCase> op_cases() {
  std::vector<OpCase> cases;
  add_products(cases);
  add_elementwise(cases);
  add_norms(cases);
  add_softmax(cases);
  add_rows(cases);
  add_reductions(cases);
  add_views(cases);
  return cases;
}

}  // namespace fovea::testing
