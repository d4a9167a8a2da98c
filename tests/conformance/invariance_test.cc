#include <cmath>
#include <numeric>

#include "conformance/suite.h"
#include "core/rng.h"

// U4, U4b, U5: padding, batch neighbours, packing and the order of tokens change nothing they should not.
namespace fovea::conformance {
namespace {

constexpr std::int32_t kLengths[] = {19, 7, 1};

class Invariance : public Law {
 protected:
  // Output and gradients of inputs, with a gradient of ones flowing into the real rows only.
  struct Run {
    Tensor o, dq, dk, dv;
  };
  Run run_all(const Inputs& inputs, const Trial& s) {
    for (const Var& x : inputs.leaves()) x.slot()->grad = Tensor();
    Tape tape(context_);
    const Var o = run(context_, tape, inputs, mechanism(), s).output;
    const Tensor seed = Tensor::zeros(context_, o.shape());
    for (const auto& rows : s.options.queries.rows(s.batch, s.n_q, "queries"))
      seed.select(0, rows.batch).slice(0, rows.begin, rows.begin + rows.count).fill(1.0);
    tape.backward(o, seed);
    const auto grad = [&](const Var& x) {  // a mechanism may leave a side out altogether
      return x.grad().defined() ? x.grad() : Tensor::zeros(context_, x.shape(), x.dtype());
    };
    return {o.value(), grad(inputs.q), grad(inputs.k), grad(inputs.v)};
  }

  // Item b of the batch alone, without its padding.
  Inputs alone(const Inputs& inputs, std::int64_t b, std::int64_t length) {
    const auto part = [&](const Var& x) {
      return Var::leaf(x.value().slice(0, b, b + 1).slice(1, 0, length).clone(context_));
    };
    return inputs.with(part);
  }

  // Gradients that vanish (a single token) have no relative error: values of 1 are the scale. What cancels there are
  // products of q, k, v and the slope of a norm or of a denominator, some 60 in size.
  void expect_rows(const Tensor& got, const Tensor& want, const char* what) {
    const std::vector<double> a = got.to_vector<double>(), b = want.to_vector<double>();
    ASSERT_EQ(a.size(), b.size());
    double scale = 1.0;
    for (double x : b) scale = std::fmax(scale, std::abs(x));
    for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 2e-5 * scale) << what << " " << i;
  }

  void check(const std::vector<std::pair<std::int64_t, std::int64_t>>& places, const Run& many, const Inputs& inputs,
             Trial s) {
    s.batch = 1;
    for (std::size_t i = 0; i < places.size(); ++i) {
      SCOPED_TRACE(i);
      const std::int64_t length = kLengths[i];
      s.n_q = s.n_k = length;
      s.options.queries = {};
      const Run one = run_all(alone(inputs, static_cast<std::int64_t>(i), length), s);
      const auto rows = [&](const Tensor& x) {
        return x.slice(0, places[i].first, places[i].first + 1).slice(1, places[i].second, places[i].second + length);
      };
      expect_rows(rows(many.o), one.o, "o");
      expect_rows(rows(many.dq), one.dq, "dq");
      expect_rows(rows(many.dk), one.dk, "dk");
      expect_rows(rows(many.dv), one.dv, "dv");
    }
  }

  void check_padding(bool causal) {
    Trial s;
    fit(mechanism(), s);
    s.batch = 3;
    s.options.causal = causal;
    s.options.queries.lengths.assign(std::begin(kLengths), std::end(kLengths));
    const Inputs inputs = random_inputs(context_, mechanism(), s, DType::f32, 3);
    for (std::int64_t b = 0; b < s.batch; ++b)
      for (const Var& x : inputs.tokens()) x.value().select(0, b).slice(0, kLengths[b], s.n_q).fill(NAN);
    const Run padded = run_all(inputs, s);
    check({{0, 0}, {1, 0}, {2, 0}}, padded, inputs, s);
    for (std::int64_t b = 0; b < s.batch; ++b)
      for (const Tensor& x : {padded.o, padded.dq, padded.dk, padded.dv})
        for (double value : x.select(0, b).slice(0, kLengths[b], s.n_q).to_vector<double>())
          ASSERT_EQ(value, 0.0) << "padding";
  }

  void check_packing(bool causal) {
    Trial s;
    fit(mechanism(), s);
    s.batch = 3;
    s.options.causal = causal;
    const Inputs inputs = random_inputs(context_, mechanism(), s, DType::f32, 3);
    Trial packed = s;
    packed.batch = 1;
    packed.n_q = packed.n_k = 30;  // 27 real rows, the rest belongs to no sequence
    packed.options.queries.cu_seqlens = {0, 19, 26, 27};
    Inputs rows = random_inputs(context_, mechanism(), packed, DType::f32, 4);
    rows.weights = inputs.weights;
    for (std::size_t i = 0; i < 3; ++i) {
      const std::int64_t begin = packed.options.queries.cu_seqlens[i], end = packed.options.queries.cu_seqlens[i + 1];
      const Inputs one = alone(inputs, static_cast<std::int64_t>(i), kLengths[i]);
      const std::vector<Var> from = one.tokens(), to = rows.tokens();
      for (std::size_t t = 0; t < to.size(); ++t) to[t].value().slice(1, begin, end).copy_from(from[t].value());
    }
    for (const Var& x : rows.tokens()) x.value().slice(1, 27, 30).fill(NAN);
    check({{0, 0}, {0, 19}, {0, 26}}, run_all(rows, packed), inputs, s);
  }
};

TEST_P(Invariance, PaddingFilledWithNaN) {
  if (has(Feature::padding) && has(Feature::bidirectional)) check_padding(false);
}
TEST_P(Invariance, PaddingFilledWithNaNCausal) {
  if (has(Feature::padding) && has(Feature::causal)) check_padding(true);
}
TEST_P(Invariance, PackedRowsEqualSeparateOnes) {
  if (has(Feature::packed) && has(Feature::bidirectional)) check_packing(false);
}
TEST_P(Invariance, PackedRowsEqualSeparateOnesCausal) {
  if (has(Feature::packed) && has(Feature::causal)) check_packing(true);
}

// A view over (b, heads, n, d) memory gives the same as dense (b, n, heads, d).
TEST_P(Invariance, StridesAreHonoured) {
  Trial s = usual_trial(mechanism());
  const Inputs inputs = random_inputs(context_, mechanism(), s, DType::f32, 3);
  const Inputs views =
      inputs.with([&](const Var& x) { return Var::leaf(x.value().transpose(1, 2).clone(context_).transpose(1, 2)); });
  const Run dense = run_all(inputs, s), view = run_all(views, s);
  EXPECT_EQ(dense.o.to_vector<float>(), view.o.to_vector<float>());
  EXPECT_EQ(dense.dq.to_vector<float>(), view.dq.to_vector<float>());
  EXPECT_EQ(dense.dk.to_vector<float>(), view.dk.to_vector<float>());
  EXPECT_EQ(dense.dv.to_vector<float>(), view.dv.to_vector<float>());
}

// A weight of the mechanism as it is for repeated heads: the parts that belong to a kv head are repeated like it.
Var repeat_weight(const Context& context, const Var& weight, const Shape& shape, const Trial& s) {
  int axis = 0;
  while (axis < shape.rank() && shape[axis] == weight.dim(axis)) ++axis;
  if (axis == shape.rank()) return weight;
  const Tensor out = Tensor::empty(context, shape, weight.dtype());
  const std::int64_t part = shape[axis] / s.heads;
  for (std::int64_t h = 0; h < s.heads; ++h) {
    const std::int64_t from = h * s.kv_heads / s.heads * part;
    out.slice(axis, h * part, (h + 1) * part).copy_from(weight.value().slice(axis, from, from + part));
  }
  return weight.needs_grad() ? Var::leaf(out) : Var(out);
}

// Grouped heads are repeated heads, and the gradient of a shared head is the sum over its group.
TEST_P(Invariance, GroupedHeadsAreRepeatedHeads) {
  if (!has(Feature::grouped)) return;
  const Trial s = usual_trial(mechanism());
  const Inputs inputs = random_inputs(context_, mechanism(), s, DType::f64, 3);
  const auto repeat = [&](const Var& x) {
    const Tensor out = Tensor::empty(context_, x.shape().with(2, s.heads), DType::f64);
    for (std::int64_t h = 0; h < s.heads; ++h)
      out.slice(2, h, h + 1).copy_from(x.value().slice(2, h * s.kv_heads / s.heads, h * s.kv_heads / s.heads + 1));
    return Var::leaf(out);
  };
  Trial full = s;
  full.kv_heads = s.heads;
  const Inputs fuller = random_inputs(context_, mechanism(), full, DType::f64, 3);
  Inputs repeated{Var::leaf(inputs.q.value()), repeat(inputs.k), repeat(inputs.v), inputs.input, {}};
  for (std::size_t w = 0; w < inputs.weights.size(); ++w)
    repeated.weights.push_back(repeat_weight(context_, inputs.weights[w], fuller.weights[w].shape(), s));
  const Gradients grouped = gradients(context_, inputs, mechanism(), s);
  const Gradients each = gradients(context_, repeated, mechanism(), full);
  EXPECT_LT(relative_error(grouped.q, each.q), 1e-12);
  const auto summed = [&](const std::vector<double>& g, std::int64_t width) {
    std::vector<double> out(static_cast<std::size_t>(s.batch * s.n_k * s.kv_heads * width), 0.0);
    for (std::size_t i = 0; i < g.size(); ++i) {
      const std::int64_t c = static_cast<std::int64_t>(i) % width, h = static_cast<std::int64_t>(i) / width % s.heads;
      const std::int64_t row = static_cast<std::int64_t>(i) / (width * s.heads);
      out[static_cast<std::size_t>((row * s.kv_heads + h * s.kv_heads / s.heads) * width + c)] += g[i];
    }
    return out;
  };
  EXPECT_LT(relative_error(grouped.k, summed(each.k, s.d_k)), 1e-12);
  EXPECT_LT(relative_error(grouped.v, summed(each.v, s.d_v)), 1e-12);
}

// U5, in the form every mechanism obeys: the items of a batch may be permuted.
TEST_P(Invariance, BatchOrderDoesNotMatter) {
  Trial s = usual_trial(mechanism());
  s.batch = 3;
  const Inputs inputs = random_inputs(context_, mechanism(), s, DType::f32, 3);
  const auto flipped = [&](const Var& x) {
    const Tensor out = Tensor::empty(context_, x.shape());
    for (std::int64_t b = 0; b < 3; ++b) out.slice(0, b, b + 1).copy_from(x.value().slice(0, 2 - b, 3 - b));
    return Var::leaf(out);
  };
  const Run straight = run_all(inputs, s), turned = run_all(inputs.with(flipped), s);
  for (std::int64_t b = 0; b < 3; ++b) {
    EXPECT_EQ(straight.o.select(0, b).to_vector<float>(), turned.o.select(0, 2 - b).to_vector<float>());
    EXPECT_EQ(straight.dk.select(0, b).to_vector<float>(), turned.dk.select(0, 2 - b).to_vector<float>());
  }
}

FOVEA_LAWS(Invariance);

}  // namespace
}  // namespace fovea::conformance
