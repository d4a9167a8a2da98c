// The tiled engine against plain loops in double: every option, at sizes that divide nothing, on every instruction set.

#include <gtest/gtest.h>

#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "attention_case.h"
#include "core/isa.h"
#include "support/names.h"

namespace fovea::tile::testing {
namespace {

double tolerance(DType dtype) {
  switch (dtype) {
    case DType::f64: return 2e-13;
    case DType::f32: return 2e-5;
    case DType::f16: return 2e-3;
    default: return 1.2e-2;
  }
}

void check_against_reference(AttentionCase& c) {
  const Context context({.threads = 2, .memory = {.poison = true}});
  c.run_forward(context);
  Arrays want = c.reference();
  const double limit = tolerance(c.options().dtype) * c.options().tolerance;
  EXPECT_LT(difference(c.arrays().o.values, want.o.values), limit) << "o";
  EXPECT_LT(difference(c.arrays().lse.values, want.lse.values), std::min(limit, 2e-5)) << "lse";
  c.run_backward(context);
  // Gradients of huge scores all but vanish; their rounding errors are those of their terms.
  const double floor = c.options().size > 1 ? c.options().size : 1e-6;
  EXPECT_LT(difference(c.arrays().dq.values, want.dq.values, floor), limit) << "dq";
  EXPECT_LT(difference(c.arrays().dk.values, want.dk.values, floor), limit) << "dk";
  EXPECT_LT(difference(c.arrays().dv.values, want.dv.values, floor), limit) << "dv";
  EXPECT_LT(difference(c.arrays().d_bias, want.d_bias), limit) << "d_bias";
}

// Problems to check, in every dtype of a group.
class CaseList {
 public:
  using Change = std::function<void(Options&)>;
  void add(const std::string& name, const Change& change) { add(name, change, {DType::f64, DType::f32}); }
  void half(const std::string& name, const Change& change) { add(name, change, {DType::bf16, DType::f16}); }
  const std::vector<Options>& cases() const { return cases_; }

 private:
  void add(const std::string& name, const Change& change, std::initializer_list<DType> dtypes) {
    for (DType dtype : dtypes) {
      Options o;
      o.dtype = dtype;
      change(o);
      o.name = name + "_" + std::string(name_of(o.dtype));
      cases_.push_back(o);
    }
  }
  std::vector<Options> cases_;
};

void add_patterns_and_shapes(CaseList& list) {
  list.add("plain", [](Options&) {});
  list.add("causal", [](Options& o) { o.pattern = Pattern::causal(); });
  list.add("window", [](Options& o) { o.pattern = Pattern::window(5, 3), o.n_q = o.n_k = 71; });
  list.add("diagonal", [](Options& o) { o.pattern = Pattern::block_diagonal(10), o.n_q = o.n_k = 75; });
  list.add("aligned_diagonal",
           [](Options& o) { o.pattern = Pattern::block_diagonal(16), o.n_q = o.n_k = 165, o.heads = o.kv_heads = 4; });
  list.add("predicate", [](Options& o) {
    o.pattern = Pattern::predicate("odd", [](std::int64_t q, std::int64_t k) { return (q * 7 + k * 3) % 5 < 2; });
  });
  list.add("composed",
           [](Options& o) { o.pattern = Pattern::causal() & (Pattern::window(4, 0) | Pattern::block_diagonal(12)); });
  list.add("more_keys", [](Options& o) { o.pattern = Pattern::causal(), o.n_q = 19, o.n_k = 50; });
  list.add("more_queries", [](Options& o) { o.pattern = Pattern::causal(), o.n_q = 50, o.n_k = 19; });
  list.add("one_query", [](Options& o) { o.pattern = Pattern::causal(), o.n_q = 1, o.n_k = 37; });
  list.add("one_pair", [](Options& o) { o.n_q = o.n_k = 1, o.d_k = o.d_v = 1; });
  list.add("widths", [](Options& o) { o.d_k = 13, o.d_v = 21; });
  list.add("wide", [](Options& o) { o.d_k = 70, o.d_v = 35, o.n_q = 40, o.n_k = 45, o.tile = {64, 64}; });
  list.add("usual", [](Options& o) {
    o.d_k = o.d_v = 64, o.n_q = o.n_k = 150, o.tile = {64, 64}, o.pattern = Pattern::causal();
  });
  list.add("grouped", [](Options& o) { o.heads = 6, o.kv_heads = 2, o.pattern = Pattern::causal(); });
  list.add("one_kv_head", [](Options& o) { o.heads = 5, o.kv_heads = 1, o.batch = 2; });
  list.add("heads_first", [](Options& o) { o.heads_first = true, o.batch = 2, o.heads = 4; });
}

void add_modifiers(CaseList& list) {
  list.add("alibi", [](Options& o) { o.alibi = true, o.n_q = 20; });
  list.add("alibi_causal", [](Options& o) { o.alibi = true, o.pattern = Pattern::causal(), o.n_q = o.n_k = 45; });
  list.add("dropout", [](Options& o) { o.dropout = 0.3f, o.batch = 2, o.n_q = 35; });
  list.add("dropout_causal_bias",
           [](Options& o) { o.dropout = 0.2f, o.pattern = Pattern::causal(), o.bias = Bias::dense; });
  list.add("d_lse", [](Options& o) { o.d_lse = true, o.pattern = Pattern::causal(); });
  list.add("everything", [](Options& o) {
    o.batch = 2, o.heads = 4, o.n_q = 37, o.n_k = 52, o.d_k = 9, o.d_v = 17, o.pattern = Pattern::causal();
    o.alibi = true, o.dropout = 0.1f, o.d_lse = true, o.bias = Bias::per_head_broadcast;
  });
  for (Bias bias :
       {Bias::dense, Bias::per_head_broadcast, Bias::per_batch_broadcast, Bias::keys_only, Bias::queries_only}) {
    const auto name = "bias" + std::to_string(static_cast<int>(bias));
    list.add(name, [&](Options& o) { o.bias = bias, o.batch = 2, o.d_lse = true, o.n_q = 29; });
    list.add(name + "_hides", [&](Options& o) {
      o.bias = bias, o.bias_hides = true, o.heads = 4, o.pattern = Pattern::causal(), o.d_lse = true;
    });
  }
}

void add_weights(CaseList& list) {
  for (Weight weight : kWeights) {
    const std::string name = name_of(weight);
    list.add(name, [&](Options& o) { o.weight = weight; });
    list.add(name + "_everything", [&](Options& o) {
      o.weight = weight, o.alibi = true, o.dropout = 0.1f, o.bias = Bias::dense, o.bias_hides = true;
      o.pattern = Pattern::causal(), o.heads = 4, o.step = 2, o.d_lse = has_statistic(weight);
    });
    list.half(name, [&](Options& o) { o.weight = weight, o.pattern = Pattern::causal(), o.d_k = 7, o.d_v = 9; });
  }
  for (Weight weight : {Weight::power, Weight::taylor})
    list.add(name_of(weight) + std::string("_of_two"), [&](Options& o) { o.weight = weight, o.degree = 2; });
}

void add_pieces_and_edges(CaseList& list) {
  list.add("narrow_bias_gradient",
           [](Options& o) { o.bias = Bias::dense, o.pattern = Pattern::window(3, 2), o.n_q = o.n_k = 90; });
  list.add("many_units", [](Options& o) { o.batch = 5, o.heads = o.kv_heads = 4, o.n_q = 23, o.n_k = 31; });
  list.add("packed", [](Options& o) {
    o.batch = 1, o.n_q = o.n_k = 60, o.pattern = Pattern::causal(), o.alibi = true, o.dropout = 0.2f;
    o.pieces = {
        {0, 0, 7, 0, 7, nullptr}, {0, 7, 0, 7, 0, nullptr}, {0, 7, 40, 7, 40, nullptr}, {0, 47, 13, 47, 13, nullptr}};
  });
  list.add("lengths", [](Options& o) {
    o.batch = 3, o.n_q = 40, o.n_k = 44, o.bias = Bias::per_batch_broadcast;
    o.pieces = {{0, 0, 40, 0, 17, nullptr}, {1, 0, 13, 0, 44, nullptr}, {2, 0, 22, 0, 0, nullptr}};
  });
  list.add("steps", [](Options& o) {
    o.n_q = 47, o.n_k = 52, o.heads = 4, o.pattern = Pattern::causal(), o.alibi = true, o.dropout = 0.2f;
    o.bias = Bias::dense, o.d_lse = true, o.step = 3;
  });
  list.add("steps_in_rings", [](Options& o) {
    o.batch = 2, o.n_q = o.n_k = 150, o.heads = o.kv_heads = 4, o.pattern = Pattern::window(4, 2);
    o.bias = Bias::keys_only, o.step = 2;
  });
  list.add("steps_of_keys", [](Options& o) {
    o.n_q = 21, o.n_k = 90, o.alibi = true, o.dropout = 0.3f, o.bias = Bias::per_head_broadcast;
    o.pieces = {{0, 1, 20, 2, 18, nullptr, 1, 5, 7}};
  });
  list.add("steps_of_queries", [](Options& o) {
    o.batch = 2, o.n_q = 100, o.n_k = 40, o.alibi = true, o.dropout = 0.1f, o.bias = Bias::queries_only, o.d_lse = true;
    o.pieces = {{0, 3, 13, 0, 40, nullptr, 7, 1, -4}, {1, 0, 25, 4, 17, nullptr, 4, 2, 0}};
  });
  list.half("steps", [](Options& o) {
    o.n_q = 47, o.n_k = 52, o.d_k = 7, o.d_v = 9, o.pattern = Pattern::causal(), o.dropout = 0.2f;
    o.step = 3;
  });
  list.add("few_keys", [](Options& o) {
    o.n_q = 3500, o.n_k = 37, o.heads = 4, o.pattern = Pattern::window(3000, 900) & Pattern::block_diagonal(3100);
    o.alibi = true, o.dropout = 0.2f, o.d_lse = true;
  });
  list.add("few_keys_bias", [](Options& o) { o.n_q = 3500, o.n_k = 21, o.bias = Bias::dense, o.bias_hides = true; });
  list.half("few_keys", [](Options& o) { o.n_q = 3500, o.n_k = 37, o.d_k = 7, o.d_v = 9; });
  list.add("few_queries", [](Options& o) {
    o.n_q = 50, o.n_k = 203, o.pattern = Pattern::causal(), o.bias = Bias::dense, o.alibi = true, o.dropout = 0.2f;
  });
  list.half("few_queries", [](Options& o) { o.n_q = 21, o.n_k = 203, o.d_k = 7, o.d_v = 9, o.heads = 4; });
  list.add("no_queries", [](Options& o) { o.n_q = 0; });
  list.add("no_keys", [](Options& o) { o.n_k = 0; });
  list.add("huge", [](Options& o) { o.size = 100.0, o.d_k = 4, o.tolerance = 3000.0; });
  list.half("plain", [](Options& o) { o.pattern = Pattern::causal(), o.n_q = o.n_k = 70, o.d_k = o.d_v = 32; });
  list.half("odd", [](Options& o) { o.d_k = 7, o.d_v = 9, o.heads = 4, o.bias = Bias::dense, o.batch = 2; });
}

std::vector<Options> all_options() {
  CaseList list;
  add_patterns_and_shapes(list);
  add_modifiers(list);
  add_weights(list);
  add_pieces_and_edges(list);
  return list.cases();
}

class Attention : public ::testing::TestWithParam<std::tuple<Isa, Options>> {
 protected:
  void SetUp() override { force_isa(std::get<0>(GetParam())); }
  void TearDown() override { force_isa(available_isas().back()); }
};

TEST_P(Attention, AgreesWithPlainLoops) {
  AttentionCase c(std::get<1>(GetParam()));
  check_against_reference(c);
}

INSTANTIATE_TEST_SUITE_P(All, Attention,
                         ::testing::Combine(::testing::ValuesIn(available_isas()), ::testing::ValuesIn(all_options())),
                         [](const auto& info) {
                           return test_name(std::string(name_of(std::get<0>(info.param))) + "_" +
                                            std::get<1>(info.param).name);
                         });

}  // namespace
}  // namespace fovea::tile::testing
