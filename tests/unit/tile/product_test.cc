// The register-blocked product against three plain loops, at every tail of every side, on every instruction set.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "../tests/unit/tile/product_test.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, which compiles this file once per target.
#include <algorithm>
#include <vector>

#include "hwy/highway.h"
#include "simd/product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fovea {
namespace HWY_NAMESPACE {

template <class T>
void run_product(const Product<T>& p, Order order, const T* factor, T* top) {
  const auto with = [&](const auto& start) {
    const auto finish = [&](const auto& f) {
      order == Order::rows ? product<Order::rows>(p, start, f) : product<Order::columns>(p, start, f);
    };
    top != nullptr ? finish(FinishTop<T>{top}) : finish(FinishStore{});
  };
  factor != nullptr ? with(StartScaled<T>{factor}) : p.lda % 2 == 0 ? with(StartAdd{}) : with(StartZero{});
}

void run_product_f32(const Product<float>& p, Order order, const float* factor, float* top) {
  run_product(p, order, factor, top);
}
void run_product_f64(const Product<double>& p, Order order, const double* factor, double* top) {
  run_product(p, order, factor, top);
}

}  // namespace HWY_NAMESPACE
}  // namespace fovea
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <gtest/gtest.h>

#include "core/isa.h"
#include "core/rng.h"
#include "support/names.h"

namespace fovea {
namespace {

HWY_EXPORT(run_product_f32);
HWY_EXPORT(run_product_f64);

void call(const Product<float>& p, Order order, const float* factor, float* top) {
  HWY_DYNAMIC_DISPATCH(run_product_f32)(p, order, factor, top);
}
void call(const Product<double>& p, Order order, const double* factor, double* top) {
  HWY_DYNAMIC_DISPATCH(run_product_f64)(p, order, factor, top);
}

template <class T>
std::vector<T> draw(Random& random, std::size_t n) {
  std::vector<T> values(n);
  for (T& x : values) x = static_cast<T>(random.uniform()) - static_cast<T>(0.5);
  return values;
}

struct Case {
  std::size_t m, n, k;
  Order order;
  bool add, scaled, tops;  // add: an even lda asks run_product for it
};

template <class T>
void check(const Case& c) {
  Random random(c.m * 1000 + c.n * 10 + c.k);
  const std::size_t inner = c.order == Order::rows ? c.k : c.m;
  const std::size_t lda = inner + 3 + (((inner + 3) % 2 == 0) != c.add), ldb = c.n + 5, ldc = c.n + 2;
  const auto a = draw<T>(random, lda * (c.order == Order::rows ? c.m : c.k) + 1);
  const auto b = draw<T>(random, ldb * c.k + 1), before = draw<T>(random, ldc * c.m + 1);
  const auto factor = draw<T>(random, c.n);
  std::vector<T> tops(c.n, static_cast<T>(-0.25)), out = before;

  const Product<T> p{a.data(), lda, b.data(), ldb, out.data(), ldc, c.m, c.n, c.k};
  call(p, c.order, c.scaled ? factor.data() : nullptr, c.tops ? tops.data() : nullptr);

  const double tolerance = sizeof(T) == 4 ? 2e-5 : 1e-13;
  for (std::size_t j = 0; j < c.n; ++j) {
    double most = -0.25;
    for (std::size_t i = 0; i < c.m; ++i) {
      double sum = c.scaled ? before[i * ldc + j] * factor[j] : c.add ? before[i * ldc + j] : T{0};
      for (std::size_t x = 0; x < c.k; ++x)
        sum += static_cast<double>(c.order == Order::rows ? a[i * lda + x] : a[x * lda + i]) * b[x * ldb + j];
      ASSERT_NEAR(out[i * ldc + j], sum, tolerance)
          << "m " << c.m << " n " << c.n << " k " << c.k << " at " << i << ", " << j;
      most = std::max(most, static_cast<double>(out[i * ldc + j]));
    }
    ASSERT_EQ(tops[j], static_cast<T>(c.tops ? most : -0.25));
  }
  for (std::size_t i = 0; i + 1 < c.m; ++i)  // nothing outside the rows is touched
    for (std::size_t j = c.n; j < ldc; ++j) ASSERT_EQ(out[i * ldc + j], before[i * ldc + j]);
}

class ProductOnIsa : public testing::TestWithParam<Isa> {};

TEST_P(ProductOnIsa, EveryTail) {
  force_isa(GetParam());
  for (std::size_t m = 1; m <= 17; ++m)
    for (std::size_t n : {16, 32, 48, 64, 80})
      for (std::size_t k : {0, 1, 2, 7, 64})
        for (int bits = 0; bits < 16; ++bits) {
          const Case c{
              m, n, k, bits & 1 ? Order::rows : Order::columns, (bits & 2) != 0, (bits & 4) != 0, (bits & 8) != 0};
          check<float>(c);
          check<double>(c);
        }
  force_isa(available_isas().back());
}

INSTANTIATE_TEST_SUITE_P(All, ProductOnIsa, testing::ValuesIn(available_isas()), kNamedAsPrinted);

TEST(Prefetch, WalksItsRangesAndStops) {
  const std::vector<char> data(4096);
  Prefetch next;
  next.some();  // nothing to do
  next.add(data.data(), 256, 1024, 4);
  next.add(data.data(), 0, 1024, 4);
  next.add(data.data(), 1, 64, 3);
  for (int i = 0; i < 100; ++i) next.some();
  next.clear();
  next.some();
}

}  // namespace
}  // namespace fovea
#endif  // HWY_ONCE
