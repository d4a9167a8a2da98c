#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "conformance/suite.h"
#include "fovea/inspect.h"

// Rectangles of the map of every mechanism, with each choice of its parameters, against its plain definition: what it
// gives for values of which one key has a 1 in every channel is a column of the map.
namespace fovea {
namespace {

using conformance::Inputs, conformance::Trial, conformance::Variant;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

// Without the norm behind the map, where there is one.
Mechanism without_norm(const Mechanism& m) {
  std::vector<Mechanism::Setting> settings;
  for (const ParameterSpec& spec : m.parameters()) {
    ParameterValue value = m.value(spec.name);
    if (spec.name == "norm" && std::count(spec.choices.begin(), spec.choices.end(), "none") > 0)
      value = std::string("none");
    settings.push_back({std::string(spec.name), value});
  }
  return Mechanism(m.name(), settings);
}

// Values with a step in every channel of one row of every item (-1: of none): zeros and 1, or, where the largest of
// several counts, those that are there and a small one.
struct Steps {
  std::vector<double> values;
  Shape shape;
  double height;

  Steps(const Mechanism& mechanism, const Var& v) : values(at(v.shape().numel()), 0.0), shape(v.shape()), height(1.0) {
    if (mechanism.name() != "compressive" || mechanism.choice("pool") != "max") return;
    values = v.value().to_vector<double>();
    height = 1e-6;
  }
  Var at_key(const Context& context, std::int64_t key) const {
    std::vector<double> stepped = values;
    const std::int64_t row = shape[2] * shape[3];
    if (key >= 0)
      for (std::int64_t i = 0; i < shape[0] * row; ++i)
        stepped[at((i / row * shape[1] + key) * row + i % row)] += height;
    return Var(Tensor::from<double>(context, shape, stepped));
  }
};

// (batch, heads, n_q, n_k): the mean over channels.
std::vector<double> defined_map(const Context& context, Inputs in, const Mechanism& mechanism, const Trial& trial) {
  const Mechanism plain = without_norm(mechanism);
  const LayerSizes sizes{.heads = trial.heads,
                         .kv_heads = trial.kv_heads,
                         .d_k = trial.d_k,
                         .d_v = trial.d_v,
                         .width = mechanism.needs_input() ? trial.width : 0,
                         .max_length = trial.n_k};
  in.weights.resize(plain.weights(sizes).size());
  std::vector<double> map(at(trial.batch * trial.heads * trial.n_q * trial.n_k));
  const Steps steps(mechanism, in.v);
  in.v = steps.at_key(context, -1);
  const std::vector<double> zero = expected(context, in, plain, trial).o;
  for (std::int64_t j = 0; j < trial.n_k; ++j) {
    in.v = steps.at_key(context, j);
    const std::vector<double> o = expected(context, in, plain, trial).o;
    for (std::int64_t b = 0; b < trial.batch; ++b)
      for (std::int64_t i = 0; i < trial.n_q; ++i)
        for (std::int64_t h = 0; h < trial.heads; ++h) {
          double& to = map[at(((b * trial.heads + h) * trial.n_q + i) * trial.n_k + j)];
          for (std::int64_t c = 0; c < trial.d_v; ++c) {
            const std::size_t from = at(((b * trial.n_q + i) * trial.heads + h) * trial.d_v + c);
            to += (o[from] - zero[from]) / steps.height / static_cast<double>(trial.d_v);
          }
        }
  }
  return map;
}

class Maps : public testing::TestWithParam<Variant> {
 protected:
  // The rectangle of all pairs of a sequence against the definition.
  void compare(const Trial& trial, std::int64_t sequence) {
    const Mechanism& mechanism = GetParam().mechanism;
    if (map_note(mechanism).kind == MapKind::none) return check_refusal(trial);
    const Inputs in = random_inputs(context_, mechanism, trial, DType::f64, 3);
    AttentionOptions call = trial.options;
    call.weights = in.weights;
    call.input = in.input;
    const std::vector<double> map = defined_map(context_, in, mechanism, trial);
    const Sequences::Rows rows = trial.options.queries.rows(trial.batch, trial.n_q, "rows")[at(sequence)];
    double largest = 0.0;
    for (const double w : map) largest = std::fmax(largest, std::abs(w));
    ASSERT_GT(largest, 0.0);
    for (std::int64_t h = 0; h < trial.heads; ++h) {
      const MapRequest request{.head = h, .row_end = rows.count, .key_end = rows.count};
      const MapRectangle got = rectangle(in, mechanism, call, request, sequence);
      for (std::int64_t i = 0; i < rows.count; ++i)
        for (std::int64_t j = 0; j < rows.count; ++j) {
          const std::size_t there =
              at(((rows.batch * trial.heads + h) * trial.n_q + rows.begin + i) * trial.n_k + rows.begin + j);
          ASSERT_NEAR(got.weights[at(i * rows.count + j)], map[there], 2e-6 * largest)
              << "head " << h << " row " << i << " key " << j;
        }
    }
  }

  MapRectangle rectangle(const Inputs& in, const Mechanism& mechanism, const AttentionOptions& call,
                         const MapRequest& request, std::int64_t sequence) {
    MapRequest all = request;
    all.layer = sequence;  // of a call alone: which sequence
    return map_rectangle(context_, in.q.value(), in.k.value(), in.v.value(), mechanism, call, all);
  }

  void check_refusal(const Trial& trial) {
    const Inputs in = random_inputs(context_, GetParam().mechanism, trial, DType::f64, 3);
    AttentionOptions call = trial.options;
    call.weights = in.weights;
    call.input = in.input;
    const LayerRecord record =
        inspect_attention(context_, in.q.value(), in.k.value(), in.v.value(), GetParam().mechanism, call);
    EXPECT_EQ(record.map.kind, MapKind::none);
    EXPECT_FALSE(record.map.text.empty());
    EXPECT_TRUE(record.heads.empty());
    EXPECT_THROW(rectangle(in, GetParam().mechanism, call, {.row_end = 1, .key_end = 1}, 0), Error);
  }

  Trial small_trial() const {
    Trial trial;
    trial.batch = 1;
    trial.n_q = trial.n_k = 13;
    trial.heads = 2;
    trial.kv_heads = 1;
    conformance::fit(GetParam().mechanism, trial);
    trial.options.causal = !has(Feature::bidirectional);
    return trial;
  }
  bool has(Feature feature) const { return GetParam().mechanism.supports(feature); }

  Context context_ = conformance::law_context();
};

// All whose map can be told from what they give: gla, whose norm cannot be left out, stands below.
std::vector<Variant> all_maps() {
  std::vector<Variant> all = conformance::variants();
  std::erase_if(all, [](const Variant& v) { return v.mechanism.name() == "gla"; });
  return all;
}
// With one setting of each, those that have a form.
std::vector<Variant> maps_with(Feature feature) {
  std::vector<Variant> all = all_maps();
  std::erase_if(all, [&](const Variant& v) {
    return v.mechanism.text() != v.mechanism.name() || !v.mechanism.supports(feature);
  });
  return all;
}
class CausalMaps : public Maps {};
class PackedMaps : public Maps {};

TEST_P(Maps, EqualTheDefinition) {
  Trial trial = small_trial();
  compare(trial, 0);
}

TEST_P(CausalMaps, EqualTheDefinition) {
  Trial trial = small_trial();
  trial.options.causal = true;
  compare(trial, 0);
}

TEST_P(PackedMaps, EqualTheDefinitionOfTheirSequence) {
  Trial trial = small_trial();
  trial.batch = 1;
  trial.options.queries.cu_seqlens = {0, 5, 13};
  compare(trial, 1);
}

std::string label_of(const testing::TestParamInfo<Variant>& info) { return info.param.label; }
INSTANTIATE_TEST_SUITE_P(All, Maps, testing::ValuesIn(all_maps()), label_of);
INSTANTIATE_TEST_SUITE_P(All, CausalMaps, testing::ValuesIn(maps_with(Feature::causal)), label_of);
INSTANTIATE_TEST_SUITE_P(All, PackedMaps, testing::ValuesIn(maps_with(Feature::packed)), label_of);

// Rows of the map times the values, normalised, are what the engine gives.
TEST(GatedMap, IsThatBeforeTheNorm) {
  Context context = conformance::law_context();
  const Mechanism gla("gla");
  Trial trial = conformance::usual_trial(gla);
  const Inputs in = random_inputs(context, gla, trial, DType::f64, 5);
  AttentionOptions call = trial.options;
  call.weights = in.weights;
  call.input = in.input;
  const std::vector<double> o = expected(context, in, gla, trial).o, v = in.v.value().to_vector<double>();
  const std::vector<double> gain = in.weights.back().value().to_vector<double>();
  for (std::int64_t h = 0; h < trial.heads; ++h) {
    const MapRectangle map = map_rectangle(context, in.q.value(), in.k.value(), in.v.value(), gla, call,
                                           {.head = h, .row_end = trial.n_q, .key_end = trial.n_k});
    for (std::int64_t i = 0; i < trial.n_q; ++i) {
      std::vector<double> row(at(trial.d_v), 0.0);
      double square = 0.0;
      for (std::int64_t c = 0; c < trial.d_v; ++c) {
        for (std::int64_t j = 0; j < trial.n_k; ++j)
          row[at(c)] += map.weights[at(i * trial.n_k + j)] *
                        v[at((j * trial.kv_heads + h * trial.kv_heads / trial.heads) * trial.d_v + c)];
        square += row[at(c)] * row[at(c)] / static_cast<double>(trial.d_v);
      }
      for (std::int64_t c = 0; c < trial.d_v; ++c)
        EXPECT_NEAR(row[at(c)] / std::sqrt(square + gla.number("eps")) * gain[at(c)],
                    o[at((i * trial.heads + h) * trial.d_v + c)], 1e-4);
    }
  }
}

}  // namespace
}  // namespace fovea
