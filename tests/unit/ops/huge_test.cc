// More elements than 32 bits count: offsets, counts and sums.

#include <cmath>

#include "support/sparse_memory.h"
#include "unit/ops/ops_fixture.h"

namespace fovea::testing {
namespace {

constexpr std::int64_t kMany = std::int64_t{1} << 31;

class HugeTensors : public OpsTest {
 protected:
  HugeTensors() : OpsTest(170) {}
};

TEST_F(HugeTensors, CopiesReachFarApart) {
  const Tensor x = draw({3, 5, 7}, DType::f32), far = far_apart(x);
  ASSERT_GT(far.stride(0), kMany);
  EXPECT_TRUE(same_bits(far.contiguous(context_), x));
  EXPECT_TRUE(same_bits(far.transpose(0, 2).clone(context_), x.transpose(0, 2).clone(context_)));
  EXPECT_EQ(far.to(context_, DType::f64).to_vector<double>(), x.to(context_, DType::f64).to_vector<double>());
}

TEST_F(HugeTensors, RowsAreGatheredFromTheEnd) {
  const std::int64_t width = 128, rows = kMany / width + 9;
  const Tensor table = sparse_zeros({rows, width}, DType::bf16);
  table.slice(0, rows - 1, rows).fill(3.0);
  table.slice(0, rows - 5, rows - 4).fill(5.0);
  const auto last = static_cast<std::int32_t>(rows - 1);
  const Index index(ids({3}, {last, 0, last - 4}), 0, rows);
  const std::vector<double> got = list(gather(tape_, Var(table), index));
  for (std::size_t c = 0; c < 128; ++c) {
    EXPECT_EQ(got[c], 3.0);
    EXPECT_EQ(got[128 + c], 0.0);
    EXPECT_EQ(got[256 + c], 5.0);
  }
}

TEST_F(HugeTensors, SumsCountEveryElement) {
  const Tensor x = sparse_zeros({kMany + 77}, DType::bf16);
  x.slice(0, 3, 5).fill(0.25);
  x.slice(0, kMany + 70, kMany + 77).fill(2.0);
  EXPECT_EQ(sum(tape_, Var(x)).value().item(), 14.5);
}

TEST_F(HugeTensors, RowsOfASoftmaxBeyondTheRange) {
  const std::int64_t width = 4096, rows = kMany / width + 3;
  const Tensor x = sparse_zeros({rows, width}, DType::bf16);
  x.slice(0, rows - 1, rows).slice(1, 0, 1).fill(64.0);
  const Tensor found = log_sum_exp(tape_, Var(x)).value();
  EXPECT_NEAR(found.slice(0, 0, 1).item(), std::log(4096.0), 1e-5);
  EXPECT_NEAR(found.slice(0, rows - 2, rows - 1).item(), std::log(4096.0), 1e-5);
  EXPECT_NEAR(found.slice(0, rows - 1, rows).item(), 64.0, 1e-5);
}

}  // namespace
}  // namespace fovea::testing
