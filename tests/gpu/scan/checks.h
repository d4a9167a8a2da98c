#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <type_traits>

#include "device_case.h"

// How results of the card are held against the engine of the CPU in double.
namespace fovea::scan::test {

// O: of outputs and their gradients.
template <class T, class O = T>
void round_to(Values& values) {
  const auto round = []<class U>(std::vector<double>& x, U) {
    for (double& e : x) e = static_cast<double>(static_cast<Wide<U>>(static_cast<U>(static_cast<Wide<U>>(e))));
  };
  for (auto* x : {&values.q, &values.k, &values.v}) round(*x, T{});
  round(values.d_o, O{});
  for (auto* x : {&values.initial, &values.d_final, &values.log_decay})
    for (double& e : *x) e = static_cast<double>(static_cast<Wide<T>>(e));
}

inline double limit_of(DType dtype) {
  switch (dtype) {
    case DType::f64: return 1e-11;
    case DType::f32: return 2e-4;
    case DType::f16: return 4e-3;
    default: return 1.5e-2;
  }
}

inline constexpr const char* kNames[] = {"o", "statistic", "final", "dq", "dk", "dv", "d_initial", "d_log_decay"};

// No result may be further from double than the limit or twice what the CPU's engine is in the same dtype.
inline void expect_near(const Results& card, const Results& host, const Results& exact, double limit) {
  int i = 0;
  for (auto member : kEveryResult) {
    const bool is_decay = member == &Results::d_log_decay;  // what is left of much larger sums
    const double own = distance(card.*member, exact.*member), other = distance(host.*member, exact.*member);
    EXPECT_LE(own, std::max(2 * other, is_decay ? 10 * limit : limit)) << kNames[i] << ", the CPU's is " << other;
    ++i;
  }
}

template <class T, class O = T>
void check_case(const Case& setup, Values values, const CardOptions& options = {}) {
  SCOPED_TRACE(setup.text());
  round_to<T, O>(values);
  const Context context = make_context(4);
  const Results exact = run_engine<double>(context, setup, values);
  const Results host = run_engine<T>(context, setup, values);
  const Results card = run_card<T, O>(setup, values, options);
  if (::testing::Test::HasFatalFailure()) return;
  expect_near(card, host, exact, limit_of(dtype_of<T>));
  const Results again = run_card<T, O>(setup, values, options);
  for (auto member : kEveryResult)
    for (std::size_t i = 0; i < (card.*member).size(); ++i) {
      const double a = (card.*member)[i], b = (again.*member)[i];
      ASSERT_TRUE(a == b || (std::isnan(a) && std::isnan(b))) << "other bits the second time";
    }
}

inline void expect_tensor_cores(const Ran& ran) {
  EXPECT_EQ(ran.forward, cuda::Kernels::tensor_cores);
  EXPECT_EQ(ran.backward, cuda::Kernels::tensor_cores);
}

// Two packed pieces and a shorter item, or every item whole. No causal query stands in front of all keys.
inline Case of_width(std::int64_t d, std::int64_t heads, std::int64_t n, bool causal, bool packed) {
  Case s;
  s.batch = 2;
  s.heads = s.kv_heads = heads;
  s.d_k = s.d_v = d;
  s.rows_k = n;
  s.rows_q = n - n / 5;
  s.causal = causal;
  const std::int64_t a = s.rows_q / 3, b = s.rows_k / 3;
  s.pieces = {{0, 0, s.rows_q, 0, n}, {1, 0, s.rows_q, 0, n}};
  if (packed) s.pieces = {{0, 0, a, 0, b}, {0, a + 2, s.rows_q - a - 2, b + 1, n - b - 1}, {1, 1, a, 0, n - 3}};
  return s;
}

// Some rows, and none without a row in a packed piece.
inline std::int64_t rows_of(std::int64_t n, bool packed) { return std::max<std::int64_t>(n, packed ? 16 : 2); }

// Runs a case on tensor cores. `number` also chooses states, gaps and whether the rest is kept.
template <class O = bf16>
void check_on_tensor_cores(Case s, std::uint64_t number, const Values& values) {
  constexpr bool kWide = std::is_same_v<O, float>;
  Ran ran{};
  check_case<bf16, O>(s, values, {number % 2 == 0 ? 8 : 0, kWide, !kWide && number % 3 == 1, &ran});
  expect_tensor_cores(ran);
}
inline void choose_states(Case& s, std::uint64_t number) {
  s.states = number % 3 != 0;
  s.save_state = number % 2 == 0;
}

inline double relative(const std::vector<double>& a, const std::vector<double>& b) {
  double error = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    error += (a[i] - b[i]) * (a[i] - b[i]);
    size += b[i] * b[i];
  }
  return std::sqrt(error / size);
}

}  // namespace fovea::scan::test
