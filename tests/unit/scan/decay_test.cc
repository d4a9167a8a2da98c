#include <gtest/gtest.h>

#include <algorithm>

#include "unit/scan/harness.h"

namespace fovea::scan::test {
namespace {

// A decay of -inf starts afresh: rows behind it see nothing of what was before, whatever it was.
TEST(ScanDecay, InfiniteDecayForgets) {
  const Context context = make_context();
  for (Decay decay : {Decay::step, Decay::channel})
    for (std::int64_t reset : {0, 5, 16, 37}) {
      Case whole = single(40, 40);
      whole.causal = whole.states = true;
      whole.decay = decay;
      whole.heads = whole.kv_heads = 1;
      Values values = random_values(whole, 16);
      const auto columns = static_cast<std::ptrdiff_t>(decay_columns(whole.problem(DType::f64)));
      std::fill_n(values.log_decay.begin() + reset * columns, columns, -std::numeric_limits<double>::infinity());
      Case tail = whole;
      tail.pieces = {{0, reset, 40 - reset, reset, 40 - reset}};
      Values fresh = values;
      std::fill(fresh.initial.begin(), fresh.initial.end(), 0.0);
      const Results all = run_engine<float>(context, whole, values), rest = run_engine<float>(context, tail, fresh);
      for (auto member : {&Results::o, &Results::dq, &Results::dk, &Results::dv, &Results::d_log_decay}) {
        std::vector<double> behind = all.*member;
        const std::size_t row = behind.size() / 40;
        std::fill_n(behind.begin(), row * static_cast<std::size_t>(reset), std::nan(""));
        EXPECT_LT(distance(behind, rest.*member), 1e-5) << reset;
      }
      EXPECT_LT(distance(all.final, rest.final), 1e-6) << reset;
      if (reset == 0) {
        EXPECT_EQ(all.d_initial, std::vector<double>(all.d_initial.size(), 0.0));
      }
    }
}

// The same decay in every channel, or at every step, is the simpler form of it.
TEST(ScanDecay, EqualDecaysGiveTheSimplerForm) {
  const Context context = make_context();
  Case head = single(90, 90);
  head.causal = head.states = true;
  head.decay = Decay::head;
  head.log_decay = {-0.25, -0.03125};
  Case step = head, channel = head;
  step.decay = Decay::step;
  channel.decay = Decay::channel;
  step.log_decay = channel.log_decay = {};
  Values values = random_values(head, 17);
  const Results expected = run_engine<double>(context, head, values);
  for (std::int64_t e = 0; e < 90 * 2; ++e) values.log_decay.push_back(head.log_decay[static_cast<std::size_t>(e % 2)]);
  Results found = run_engine<double>(context, step, values);
  const std::vector<double> d_step = found.d_log_decay;
  found.d_log_decay.clear();
  EXPECT_LT(worst(found, expected), 1e-13);

  const std::vector<double> by_step = values.log_decay;
  values.log_decay.clear();
  for (double g : by_step) values.log_decay.insert(values.log_decay.end(), static_cast<std::size_t>(head.d_k), g);
  found = run_engine<double>(context, channel, values);
  std::vector<double> summed(d_step.size(), 0.0);
  for (std::size_t e = 0; e < found.d_log_decay.size(); ++e)
    summed[e / static_cast<std::size_t>(head.d_k)] += found.d_log_decay[e];
  EXPECT_LT(distance(summed, d_step), 1e-12);
  found.d_log_decay.clear();
  EXPECT_LT(worst(found, expected), 1e-13);
}

}  // namespace
}  // namespace fovea::scan::test
