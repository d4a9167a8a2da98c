// The row rules of the card against the CPU engine in double, which its own tests hold against plain loops.

#include <gtest/gtest.h>

#include "device_case.h"
#include "rule_case.h"
#include "support/names.h"

namespace fovea::tile::testing {
namespace {

struct Setting {
  std::string name;
  RowRule rule;
  Options options;
};

std::vector<Setting> settings() {
  std::vector<Setting> all;
  std::vector<RowRule> rules = all_rules();
  rules.push_back({.kind = RowRuleKind::self_adjust_normalized, .detach = true});
  rules.push_back({.kind = RowRuleKind::top_k, .k = 100000});
  for (std::size_t r = 0; r < rules.size(); ++r)
    for (DType dtype : {DType::f64, DType::f32, DType::bf16}) {
      const std::string name =
          std::string(name_of(rules[r].kind)) + std::to_string(r) + "_" + std::string(name_of(dtype));
      Options o;
      o.dtype = dtype;
      o.n_q = 75, o.n_k = 83, o.heads = 4, o.d_k = 12, o.d_v = 20, o.tile = {64, 64};
      all.push_back({name + "_full", rules[r], o});
      o.pattern = Pattern::causal();
      o.batch = 2, o.alibi = true, o.dropout = 0.2f, o.bias = Bias::dense, o.bias_hides = true, o.tile = {16, 16};
      all.push_back({name + "_everything", rules[r], o});
    }
  return all;
}

class RuleOnCard : public ::testing::TestWithParam<Setting> {};
TEST_P(RuleOnCard, AgreesWithTheCpu) {
  const Setting& s = GetParam();
  Options wide = s.options;
  RuleCase card(s.options, s.rule);
  wide.dtype = DType::f64;
  RuleCase host(wide, s.rule);
  Arrays& a = card.arrays();
  Arrays& b = host.arrays();
  for (auto [from, to] : {std::pair{&a.q, &b.q}, {&a.k, &b.k}, {&a.v, &b.v}, {&a.d_o, &b.d_o}})
    to->values = from->values;
  b.bias = a.bias;
  host.store();
  const Context context({.threads = 1});
  host.run_forward(context);
  host.run_backward(context);
  forward_on_card(card.attention(), false,
                  [&](const Problem& p, const Forward& io) { cuda::rule_forward({}, p, s.rule, io); });
  backward_on_card(card.attention(), false,
                   [&](const Problem& p, const Backward& io) { cuda::rule_backward({}, p, s.rule, io); });
  const double limit = s.options.dtype == DType::f64 ? 1e-12 : (s.options.dtype == DType::f32 ? 1e-4 : 1.5e-2);
  EXPECT_LT(difference(a.o.values, b.o.values), limit) << "o";
  EXPECT_LT(difference(a.dq.values, b.dq.values), limit) << "dq";
  EXPECT_LT(difference(a.dk.values, b.dk.values), limit) << "dk";
  EXPECT_LT(difference(a.dv.values, b.dv.values), limit) << "dv";
  EXPECT_LT(difference(a.d_bias, b.d_bias), limit) << "d_bias";
}
INSTANTIATE_TEST_SUITE_P(All, RuleOnCard, ::testing::ValuesIn(settings()),
                         [](const auto& info) { return test_name(info.param.name); });

}  // namespace
}  // namespace fovea::tile::testing
