#pragma once

#include "unit/ops/sequence_cases.h"

// Operations of whole models: norms of channels, windows, experts; for the laws that every operation obeys.
namespace fovea::testing {

// Running values of their own for every call: batch_norm changes them.
inline BatchNorm fresh_batch_norm(Tape& t, const Var& x, const Var& gain, const Var& bias) {
  const DType wide = x.dtype() == DType::f64 ? DType::f64 : DType::f32;
  BatchNorm norm{.gain = gain, .bias = bias, .eps = 0.01};
  norm.running_mean = Tensor::zeros(t.context(), {x.dim(2)}, wide);
  norm.running_var = Tensor::zeros(t.context(), {x.dim(2)}, wide);
  return norm;
}

inline void add_channel_norms(std::vector<OpCase>& cases) {
  for (const auto& [layout, name] : kLayouts) {
    const auto add_norm_case = [&](const std::string& kind, const auto& f) {
      const std::vector<Shape> small = laid_out(layout, {{3, 4, 6}}), large = laid_out(layout, {{3, 600, 66}});
      cases.push_back({kind + name,
                       one([f, l = layout](Tape& t, Inputs v) { return f(t, v, sequences_of(v[0], l)); }),
                       {small[0], {6}, {6}},
                       {large[0], {66}, {66}},
                       2});
    };
    add_norm_case("batch_norm", [](Tape& t, Inputs v, const Sequences& rows) {
      return batch_norm(t, v[0], rows, fresh_batch_norm(t, v[0], v[1], v[2]));
    });
    add_norm_case("instance_norm", [](Tape& t, Inputs v, const Sequences& rows) {
      return instance_norm(t, v[0], rows, {v[1], v[2], 0.01});
    });
    for (const bool per_token : {false, true})
      add_norm_case(per_token ? "group_norm_of_tokens" : "group_norm",
                    [per_token](Tape& t, Inputs v, const Sequences& rows) {
                      return group_norm(t, v[0], rows, {3, v[1], v[2], 0.01, per_token});
                    });
  }
  cases.push_back({"weight_norm",
                   one([](Tape& t, Inputs v) { return weight_norm(t, v[0], v[1]); }),
                   {{2, 3, 4}, {4}},
                   {{300, 127}, {127}},
                   1});
}

inline void add_windows(std::vector<OpCase>& cases) {
  for (const auto& [layout, name] : kLayouts) {
    const std::vector<Shape> small = laid_out(layout, {{3, 5, 2}}), large = laid_out(layout, {{3, 300, 67}});
    const auto add_window_case = [&](const std::string& kind, const auto& f) {
      cases.push_back({kind + name,
                       one([f, l = layout](Tape& t, Inputs v) { return f(t, v[0], sequences_of(v[0], l)); }), small,
                       large});
    };
    for (const auto& [padding, edge] :
         {std::pair{EdgePadding::zeros, "zeros"}, std::pair{EdgePadding::circular, "circular"},
          std::pair{EdgePadding::replicate, "replicate"}}) {
      add_window_case(std::string("windows_") + edge, [p = padding](Tape& t, const Var& x, const Sequences& rows) {
        return unfold1d(t, x, {.size = 4, .stride = 3, .before = 2, .after = 7, .padding = p}, rows).value;
      });
      cases.push_back({std::string("conv1d_") + edge + name,
                       one([p = padding, l = layout](Tape& t, Inputs v) {
                         return conv1d(t, v[0], v[1], v[2], {p, sequences_of(v[0], l)});
                       }),
                       {small[0], {3, 2, 4}, {4}},
                       {large[0], {3, 67, 33}, {33}},
                       2,
                       true});
    }
    add_window_case("max_pool1d", [](Tape& t, const Var& x, const Sequences& rows) {
      return max_pool1d(t, x, {.size = 3, .stride = 2, .before = 1, .after = 1}, rows).value;
    });
    add_window_case("avg_pool1d",
                    [](Tape& t, const Var& x, const Sequences& rows) { return avg_pool1d(t, x, 4, rows); });
    add_window_case("last_pool", [](Tape& t, const Var& x, const Sequences& rows) { return last_pool(t, x, rows); });
  }
  cases.push_back({"pool_at",
                   one([](Tape& t, Inputs v) {
                     const std::int32_t at[] = {1, 0, 3};
                     return pool_at(t, v[0], {}, at);
                   }),
                   {{3, 4, 3}},
                   {{3, 600, 17}}});
  cases.push_back(
      {"patches", one([](Tape& t, Inputs v) { return patches(t, v[0], 2); }), {{2, 4, 6, 3}}, {{3, 32, 28, 17}}});
}

// y = gate * expert(x), every expert a product of its own.
inline Var through_experts(Tape& t, Inputs v, const Sequences& rows) {
  const std::int64_t b = v[0].dim(0), n = v[0].dim(1), d = v[0].dim(2);
  const Routing routing = route_top1(t, v[1], {.capacity = expert_capacity(b * n, v[1].dim(2), 0.9), .rows = rows});
  const Var tokens = to_experts(t, reshape(t, v[0], {b * n, d}), routing);
  ExpertLinear layer;
  layer.activation = Activation::silu;
  for (std::int64_t e = 0; e < v[1].dim(2); ++e) {
    layer.weights.push_back(scale(t, v[2], 0.1 * static_cast<double>(1 + e)));
    layer.biases.push_back(scale(t, v[3], 1.0 - static_cast<double>(e)));
  }
  return scatter_rows(t, expert_linear(t, tokens, routing.begin, layer), routing.tokens, b * n, routing.gates);
}

inline void add_experts(std::vector<OpCase>& cases) {
  for (const auto& [layout, name] : kLayouts) {
    const std::vector<Shape> small = laid_out(layout, {{3, 4, 5}, {3, 4, 3}}),
                             large = laid_out(layout, {{3, 200, 65}, {3, 200, 5}});
    cases.push_back({std::string("experts") + name,
                     one([l = layout](Tape& t, Inputs v) { return through_experts(t, v, sequences_of(v[0], l)); }),
                     {small[0], small[1], {5, 2}, {2}},
                     {large[0], large[1], {65, 33}, {33}},
                     2,
                     true});
    cases.push_back({std::string("route_balance") + name, one([l = layout](Tape& t, Inputs v) {
                       return route_top1(t, v[0], {.capacity = 2, .rows = sequences_of(v[0], l)}).balance;
                     }),
                     laid_out(layout, {{3, 4, 3}}), laid_out(layout, {{3, 200, 5}})});
  }
  cases.push_back({"scatter_rows",
                   one([](Tape& t, Inputs v) {
                     std::vector<std::int32_t> index;
                     for (std::int64_t i = 0; i < v[0].dim(0); ++i)
                       index.push_back(static_cast<std::int32_t>(2 * i + 1));
                     return scatter_rows(t, v[0], integers(t.context(), {v[0].dim(0)}, index), 2 * v[0].dim(0) + 3);
                   }),
                   {{4, 3}},
                   {{300, 65}}});
  cases.push_back({"jitter", one([](Tape& t, Inputs v) { return jitter(t, v[0], 0.2); }), {{7, 5}}, {{300, 127}}});
}

inline std::vector<OpCase> model_cases() {
  std::vector<OpCase> cases;
  add_channel_norms(cases);
  add_windows(cases);
  add_experts(cases);
  return cases;
}

}  // namespace fovea::testing
