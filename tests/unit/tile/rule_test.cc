// The row rules against their definitions: outputs by sorting in double, gradients by differences; every option, at
// sizes that divide nothing, on every instruction set.

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "core/isa.h"
#include "rule_case.h"

namespace fovea::tile::testing {
namespace {

double tolerance(DType dtype) {
  switch (dtype) {
    case DType::f64: return 1e-12;
    case DType::f32: return 2e-5;
    case DType::f16: return 2e-3;
    default: return 1.2e-2;
  }
}

// The same problem with the same values in double.
RuleCase twin_of(RuleCase& c) {
  Options options = c.options();
  options.dtype = DType::f64;
  for (Piece& piece : options.pieces) piece.plan = nullptr;
  if (options.pieces.size() == static_cast<std::size_t>(options.batch) && options.pieces[0].nq == options.n_q &&
      options.pieces[0].nk == options.n_k)
    options.pieces.clear();
  RuleCase twin(options, c.rule());
  for (Field Arrays::*f : {&Arrays::q, &Arrays::k, &Arrays::v, &Arrays::d_o})
    (twin.arrays().*f).values = (c.arrays().*f).values;
  twin.arrays().bias = c.arrays().bias;
  twin.store();
  return twin;
}

// Problems to check.
class CaseList {
 public:
  using Change = std::function<void(Options&)>;
  explicit CaseList(DType dtype) : dtype_(dtype) {}

  void add(const std::string& name, const Change& change) {
    Options o;
    o.dtype = dtype_;
    change(o);
    o.name = name + "_" + std::string(fovea::name_of(dtype_));
    cases.push_back(o);
  }
  std::vector<Options> cases;

 private:
  DType dtype_;
};

void add_shapes(CaseList& list) {
  list.add("plain", [](Options&) {});
  list.add("causal", [](Options& o) { o.pattern = Pattern::causal(), o.n_q = o.n_k = 71, o.size = 2.0; });
  list.add("window", [](Options& o) { o.pattern = Pattern::window(5, 3), o.n_q = o.n_k = 75; });
  list.add("islands", [](Options& o) { o.pattern = Pattern::block_diagonal(16), o.n_q = o.n_k = 75; });
  list.add("more_queries", [](Options& o) { o.pattern = Pattern::causal(), o.n_q = 50, o.n_k = 19; });
  list.add("more_keys", [](Options& o) { o.pattern = Pattern::causal(), o.n_q = 19, o.n_k = 50; });
  list.add("one_pair", [](Options& o) { o.n_q = o.n_k = 1, o.d_k = o.d_v = 1; });
  list.add("wide", [](Options& o) { o.d_k = 70, o.d_v = 35, o.n_q = 40, o.n_k = 145, o.tile = {64, 64}; });
  list.add("grouped", [](Options& o) { o.heads = 6, o.kv_heads = 2, o.batch = 2, o.pattern = Pattern::causal(); });
  list.add("no_keys", [](Options& o) { o.n_k = 0; });
  list.add("no_queries", [](Options& o) { o.n_q = 0; });
}

void add_modifiers_and_pieces(CaseList& list) {
  list.add("everything", [](Options& o) {
    o.batch = 2, o.heads = 4, o.n_q = 37, o.n_k = 52, o.d_k = 9, o.d_v = 17, o.pattern = Pattern::causal();
    o.alibi = true, o.dropout = 0.1f, o.bias = Bias::per_head_broadcast, o.bias_hides = true;
  });
  for (Bias bias :
       {Bias::dense, Bias::per_batch_broadcast, Bias::keys_only, Bias::queries_only, Bias::queries_of_all_heads})
    list.add("bias" + std::to_string(static_cast<int>(bias)), [&](Options& o) {
      o.bias = bias, o.batch = 2, o.n_q = 29, o.heads = 4, o.bias_hides = bias < Bias::queries_only;
    });
  list.add("packed", [](Options& o) {
    o.n_q = o.n_k = 60, o.pattern = Pattern::causal(), o.alibi = true, o.dropout = 0.2f;
    o.pieces = {{0, 0, 7, 0, 7, nullptr}, {0, 7, 0, 7, 0, nullptr}, {0, 7, 53, 7, 53, nullptr}};
  });
  list.add("lengths", [](Options& o) {
    o.batch = 3, o.n_q = 40, o.n_k = 44, o.bias = Bias::per_batch_broadcast;
    o.pieces = {{0, 0, 40, 0, 17, nullptr}, {1, 0, 13, 0, 44, nullptr}, {2, 0, 22, 0, 0, nullptr}};
  });
  list.add("steps", [](Options& o) {
    o.batch = 2, o.n_q = 97, o.n_k = 100, o.alibi = true, o.dropout = 0.1f, o.bias = Bias::dense;
    o.pieces = {{0, 3, 13, 0, 40, nullptr, 7, 1, -4}, {1, 0, 24, 4, 17, nullptr, 4, 2, 0}};
  });
}

std::vector<Options> all_options() {
  std::vector<Options> all;
  for (DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
    CaseList list(dtype);
    if (size_of(dtype) > 2) {
      add_shapes(list);
      add_modifiers_and_pieces(list);
    } else {
      list.add("half", [](Options& o) { o.d_k = 7, o.d_v = 9, o.heads = 4, o.bias = Bias::dense, o.batch = 2; });
    }
    all.insert(all.end(), list.cases.begin(), list.cases.end());
  }
  return all;
}

class RuleAgreement : public ::testing::TestWithParam<std::tuple<Isa, Options>> {
 protected:
  void SetUp() override { force_isa(std::get<0>(GetParam())); }
  void TearDown() override { force_isa(available_isas().back()); }
};

TEST_P(RuleAgreement, WithPlainLoopsAndWithDouble) {
  const Context context({.threads = 2, .memory = {.poison = true}});
  for (const RowRule& rule : all_rules()) {
    SCOPED_TRACE(name_of(rule.kind));
    RuleCase c(std::get<1>(GetParam()), rule);
    c.run_forward(context);
    const double limit = tolerance(c.options().dtype);
    EXPECT_LT(difference(c.arrays().o.values, c.plain_outputs()), limit) << "o";
    c.run_backward(context);
    RuleCase twin = twin_of(c);
    twin.run_backward(context);
    EXPECT_LT(difference(c.arrays().dq.values, twin.arrays().dq.values), limit) << "dq";
    EXPECT_LT(difference(c.arrays().dk.values, twin.arrays().dk.values), limit) << "dk";
    EXPECT_LT(difference(c.arrays().dv.values, twin.arrays().dv.values), limit) << "dv";
    // A bias that shifts whole rows has no gradient but rounding errors.
    EXPECT_LT(difference(c.arrays().d_bias, twin.arrays().d_bias, 0.1), limit) << "d_bias";
  }
}

INSTANTIATE_TEST_SUITE_P(All, RuleAgreement,
                         ::testing::Combine(::testing::ValuesIn(available_isas()), ::testing::ValuesIn(all_options())),
                         [](const auto& info) {
                           std::string name = std::string(fovea::name_of(std::get<0>(info.param))) + "_" +
                                              std::get<1>(info.param).name;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// Rows whose softmax has nearly all weight on one key: their gradients are small differences, and as precise as others.
TEST(RuleGradients, SaturatedRowsKeepTheirDigits) {
  const Context context({.threads = 1});
  Options options{.n_q = 40, .n_k = 4, .d_k = 6, .d_v = 5, .dtype = DType::f32, .size = 4.0};
  for (const RowRule& rule : {RowRule{.kind = RowRuleKind::top_k, .k = 3},
                              RowRule{.kind = RowRuleKind::margin, .margin = 0.5, .training = true}}) {
    SCOPED_TRACE(name_of(rule.kind));
    RuleCase c(options, rule);
    RuleCase twin = twin_of(c);
    c.run_backward(context);
    twin.run_backward(context);
    const Field &got = c.arrays().dq, &want = twin.arrays().dq;
    int saturated = 0;
    for (std::int64_t i = 0; i < options.n_q; ++i)
      for (std::int64_t h = 0; h < options.heads; ++h) {
        double error = 0.0, size = 0.0;
        for (std::int64_t col = 0; col < options.d_k; ++col) {
          error = std::fmax(error, std::abs(got.at(0, i, h, col) - want.at(0, i, h, col)));
          size = std::fmax(size, std::abs(want.at(0, i, h, col)));
        }
        saturated += size > 1e-30 && size < 1e-4 ? 1 : 0;
        EXPECT_LT(error, 1e-4 * size + 1e-30) << i << ", " << h;
      }
    EXPECT_GT(saturated, 5);
  }
}

// sum(o * d_o) as a function of everything, by central differences in double.
class RuleDifferences {
 public:
  RuleDifferences(const Options& options, const RowRule& rule) : case_(options, rule) {
    case_.run_backward(context_);
    gradients_ = case_.arrays();
  }

  void check(Field Arrays::*input, Field Arrays::*gradient) {
    check((case_.arrays().*input).values, (gradients_.*gradient).values);
  }
  void check_bias() { check(case_.arrays().bias, gradients_.d_bias); }

 private:
  void check(std::vector<double>& values, const std::vector<double>& gradient) {
    for (std::size_t i = 0; i < values.size(); i += 1 + values.size() / 40) {
      constexpr double kStep = 1e-6;
      const double before = values[i], up = loss(values[i], before + kStep), down = loss(values[i], before - kStep);
      values[i] = before;
      EXPECT_NEAR(gradient[i], (up - down) / (2 * kStep), 1e-7) << "element " << i;
    }
    case_.store();
  }
  double loss(double& x, double value) {
    x = value;
    case_.store();
    case_.run_forward(context_);
    const Arrays& a = case_.arrays();
    double sum = 0;
    for (std::size_t i = 0; i < a.o.values.size(); ++i) sum += a.o.values[i] * a.d_o.values[i];
    return sum;
  }

  Context context_{{.threads = 1}};
  RuleCase case_;
  Arrays gradients_;
};

TEST(RuleGradients, AreDerivatives) {
  Options all{.batch = 2, .n_q = 21, .n_k = 26, .heads = 4, .kv_heads = 2, .d_k = 5, .d_v = 7};
  all.pattern = Pattern::causal();
  all.alibi = true;
  all.dropout = 0.2f;
  all.size = 2.0;
  for (const RowRule& rule : all_rules())
    for (Bias bias : {Bias::dense, Bias::per_head_broadcast, Bias::keys_only, Bias::queries_only}) {
      SCOPED_TRACE(name_of(rule.kind));
      Options options = all;
      options.bias = bias;
      RuleDifferences differences(options, rule);
      differences.check(&Arrays::q, &Arrays::dq);
      differences.check(&Arrays::k, &Arrays::dk);
      differences.check(&Arrays::v, &Arrays::dv);
      differences.check_bias();
    }
}

}  // namespace
}  // namespace fovea::tile::testing
