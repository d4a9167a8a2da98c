// Tensors on a card: values there and back, copies of any kind, the memory they take, and what is refused.

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <optional>
#include <tuple>

#include "core/wide.h"
#include "fovea/init.h"
#include "fovea/ops.h"
#include "gemm/gemm.h"
#include "gemm/packed.h"
#include "gpu/support/card.h"
#include "ops/feed_forward.h"
#include "ops/inverse.h"
#include "ops/sequence.h"
#include "support/expect_error.h"
#include "tensor/finite.h"

namespace fovea::testing {
namespace {

class CardTensors : public ::testing::Test {
 protected:
  Context host_{{.threads = 2, .seed = 7}};
  Context card_ = poisoned_card();
};

constexpr DType kTypes[] = {DType::f32, DType::bf16, DType::f16, DType::f64, DType::i32, DType::i64, DType::u8};

TEST_F(CardTensors, ValuesGoThereAndComeBack) {
  const std::vector<float> values{1, 2, 3, 4, 5, 6};
  memory_of(card_).reset_counts();
  const Tensor t = Tensor::from<float>(card_, {2, 3}, values);
  EXPECT_EQ(t.device(), Device::cuda);
  EXPECT_EQ(t.to_vector<float>(), values);
  EXPECT_EQ(t.transpose(0, 1).to_vector<double>(), (std::vector<double>{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(t.select(0, 1).select(0, 2).item(), 6.0);
  EXPECT_EQ(memory_of(card_).reads(), 3);
  EXPECT_EQ(memory_of(card_).writes(), 1);
}

// More than the parts of pinned memory hold at once.
TEST_F(CardTensors, LargeOnesTravelInParts) {
  std::vector<std::int32_t> values(9 << 20);
  std::iota(values.begin(), values.end(), 5);
  const Tensor t = Tensor::from<std::int32_t>(card_, {9 << 20}, values);
  EXPECT_EQ(t.to_vector<std::int32_t>(), values);
}

TEST_F(CardTensors, CopiesConvertAsOnTheHost) {
  for (DType from : kTypes)
    for (DType to : kTypes) {
      SCOPED_TRACE(std::string(name_of(from)) + " to " + std::string(name_of(to)));
      const Tensor numbers = Tensor::empty(host_, {4, 24, 5}, from);
      std::vector<double> values(480);
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<double>(i % 200) + (is_float(from) ? 0.3 : 0.0);
      numbers.copy_from(Tensor::from<double>(host_, {4, 24, 5}, values));
      const Tensor there = numbers.clone(card_);
      for (const auto& view : {+[](const Tensor& t) { return t; }, +[](const Tensor& t) { return t.transpose(0, 2); },
                               +[](const Tensor& t) { return t.slice(1, 8, 16); }}) {
        const Tensor want = Tensor::empty(host_, view(numbers).shape(), to);
        want.copy_from(view(numbers));
        const Tensor got = Tensor::empty(card_, view(there).shape(), to);
        got.copy_from(view(there));
        EXPECT_TRUE(same_bits(got.clone(host_), want));
        view(there).copy_from(view(numbers));  // from the host, strided on both sides
        EXPECT_TRUE(same_bits(there.clone(host_), numbers));
      }
    }
}

// Through tiles: axes of any length, with others between and around them.
TEST_F(CardTensors, TurnsMatricesOfEverySize) {
  for (DType dtype : {DType::u8, DType::bf16, DType::f32, DType::i64}) {
    const Tensor numbers = Tensor::empty(host_, {3, 70, 2, 45}, dtype);
    std::vector<double> values(static_cast<std::size_t>(numbers.numel()));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i % 251);
    numbers.copy_from(Tensor::from<double>(host_, numbers.shape(), values));
    const Tensor there = numbers.clone(card_);
    for (const auto& [a, b] : {std::pair{1, 3}, std::pair{0, 3}, std::pair{1, 2}, std::pair{2, 3}})
      EXPECT_TRUE(same_bits(there.transpose(a, b).clone(card_).clone(host_), numbers.transpose(a, b).clone(host_)))
          << name_of(dtype) << " " << a << " " << b;
  }
}

TEST_F(CardTensors, FillsOfAnyTypeAndStride) {
  for (DType dtype : kTypes)
    for (double value : {0.0, 3.0}) {
      const Tensor there = Tensor::empty(card_, {6, 8}, dtype), here = Tensor::empty(host_, {6, 8}, dtype);
      for (const Tensor& t : {there, here}) {
        t.fill(1.0);
        t.slice(1, 2, 5).fill(value);
      }
      EXPECT_TRUE(same_bits(there.clone(host_), here)) << name_of(dtype) << " " << value;
    }
}

TEST_F(CardTensors, WeightsStartWithTheBitsOfTheHost) {
  for (const Init& init : {Init::zeros(), Init::constant(3.0), Init::normal(0.5), Init::features()})
    EXPECT_TRUE(same_bits(make_weight(card_, "w", {2, 5, 4}, DType::f32, init).clone(host_),
                          make_weight(host_, "w", {2, 5, 4}, DType::f32, init)));
}

TEST_F(CardTensors, MemoryIsCountedByLifetimeAndReused) {
  const auto allocator = card_.allocator();
  const std::size_t before = allocator->total().now;
  void* place = nullptr;
  {
    const Tensor kept = Tensor::empty(card_, {1 << 20}, DType::f32, Lifetime::persistent);
    place = kept.raw();
    EXPECT_EQ(allocator->use(Lifetime::persistent).now, std::size_t{4} << 20);
    EXPECT_EQ(allocator->total().now, before + (std::size_t{4} << 20));
  }
  EXPECT_EQ(allocator->use(Lifetime::persistent).now, 0u);
  EXPECT_EQ(allocator->use(Lifetime::persistent).peak, std::size_t{4} << 20);
  EXPECT_EQ(Tensor::empty(card_, {1 << 20}, DType::f32).raw(), place);
}

TEST_F(CardTensors, RefusesWhatDoesNotFit) {
  const Context small({.device = Device::cuda, .memory = {.limit = 1 << 20}});
  EXPECT_ERROR(Tensor::empty(small, {1 << 20}), ErrorCode::out_of_memory, "cannot allocate 4 MB; the limit is 1 MB", "",
               "a smaller batch");
  const std::int64_t half = static_cast<std::int64_t>(card_.memory()->size() / 2);
  const Context large({.device = Device::cuda, .memory = {.limit = std::size_t{1} << 50}});
  const Tensor first = Tensor::empty(large, {half}, DType::u8);
  EXPECT_ERROR(Tensor::empty(large, {half}, DType::u8), ErrorCode::out_of_memory, "more asked for", "cuda",
               "a smaller batch");
  EXPECT_EQ(Tensor::zeros(card_, {3}).to_vector<float>(), std::vector<float>(3, 0.0f));  // nothing is broken
}

TEST_F(CardTensors, RefusesCardsThatAreNotThereAndTensorsOfTheHost) {
  EXPECT_ERROR(Context({.device = Device::cuda, .index = 99}), ErrorCode::usage, "card 99 of ", "device",
               "--device cuda");
  Tape tape(card_);
  EXPECT_ERROR(add(tape, Var(Tensor::zeros(card_, {2})), Var(Tensor::zeros(host_, {2}))), ErrorCode::usage,
               "an operation on cuda was given a tensor on cpu", "device", "tensor.clone(context)");
}

// Another stream waits for what it is given, and so does the reuse of what it has read.
TEST_F(CardTensors, CopiesBetweenStreamsKeepTheirOrder) {
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  {
    const Context other(
        {.device = Device::cuda, .pages = std::make_shared<device::CardMemory>(device::CardMemory::Place{0, stream})});
    for (int round = 0; round < 20; ++round) {
      const Tensor from = Tensor::empty(card_, {8 << 20}, DType::f32);
      from.fill(round);
      const Tensor to = from.clone(other);
      Tensor::empty(card_, {8 << 20}, DType::f32).fill(-1.0);
      EXPECT_EQ(to.slice(0, (8 << 20) - 1, 8 << 20).item(), round);
    }
  }
  cudaStreamDestroy(stream);
}

// Products of every type, layout and epilogue against double on the host.
struct Layout {
  const char* name;
  Tensor (*of)(const Context&, const Tensor&);  // a tensor of the same shape and values, laid out so
};
constexpr Layout kLayouts[] = {
    {"rows", [](const Context&, const Tensor& t) { return t; }},
    {"columns", [](const Context& c, const Tensor& t) { return t.transpose(-2, -1).clone(c).transpose(-2, -1); }},
    {"part of wider rows", [](const Context& c, const Tensor& t) {
       const Tensor wide = Tensor::zeros(c, t.shape().with(-1, t.dim(-1) + 3), t.dtype());
       const Tensor part = wide.slice(t.rank() - 1, 1, 1 + t.dim(-1));
       part.copy_from(t);
       return part;
     }}};

TEST_F(CardTensors, ProductsAgreeWithDouble) {
  const std::pair<Shape, Shape> shapes[] = {
      {{33, 65}, {65, 17}},   {{64, 128}, {128, 96}}, {{2, 3, 33, 64}, {2, 3, 64, 40}},
      {{4, 1, 65}, {65, 33}}, {{1, 1}, {1, 1}},       {{5, 0}, {0, 7}}};
  for (DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64})
    for (const auto& [left, right] : shapes)
      for (const Layout& a_layout : kLayouts)
        for (const Layout& b_layout : kLayouts)
          for (int form = 0; form < 4; ++form) {
            SCOPED_TRACE(std::string(name_of(dtype)) + " " + left.text() + " " + a_layout.name + ", " + b_layout.name +
                         ", form " + std::to_string(form));
            const DType wide = dtype == DType::f64 ? DType::f64 : DType::f32;
            const Tensor a = random(host_, left, 1, dtype), b = random(host_, right, 2, dtype),
                         bias = random(host_, {right.dim(-1)}, 3, dtype).to(host_, wide);
            const Shape shape = left.with(-1, right.dim(-1));
            const DType out = form == 2 ? wide : dtype;
            const auto product = [&](const Context& c, DType type, DType c_type) {
              const auto laid = [&](const Tensor& t, const Layout& l) { return l.of(c, t.clone(c).to(c, type)); };
              const Tensor y = Tensor::empty(c, shape, c_type);
              y.fill(0.5);
              gemm::Epilogue epilogue;
              if (form == 1 || form == 3)
                epilogue.bias = bias.clone(c).to(c, type == DType::f64 ? DType::f64 : DType::f32);
              epilogue.relu = form == 3;
              epilogue.accumulate = form == 2;
              gemm::multiply(c, laid(a, a_layout), laid(b, b_layout), y, epilogue);
              return y;
            };
            const Tensor want = product(host_, DType::f64, DType::f64), got = product(card_, dtype, out);
            EXPECT_LT(relative_error(got.clone(host_), want), dtype == DType::f64 ? 1e-13 : 8 * epsilon(out));
            EXPECT_TRUE(same_bits(got.clone(host_), product(card_, dtype, out).clone(host_)));
          }
}

// The sum is not rounded before the bias is added: a ReLU would cut what it should keep.
TEST_F(CardTensors, EpiloguesSeeTheUnroundedSum) {
  for (std::int64_t n : {512, 509}) {
    const Tensor a = random(host_, {512, 128}, 1, DType::bf16), b = random(host_, {128, n}, 2, DType::bf16),
                 bias = random(host_, {n}, 3, DType::bf16, 10.0).to(host_, DType::f32);
    const auto wide = [&](const Tensor& t) { return t.to(host_, DType::f64); };
    const auto want = gemm::multiply(host_, wide(a), wide(b), {.bias = wide(bias)}).to_vector<double>();
    const auto got = gemm::multiply(card_, a.clone(card_), b.clone(card_), {.bias = bias.clone(card_), .relu = true})
                         .to_vector<double>();
    int wrong = 0;
    for (std::size_t i = 0; i < want.size(); ++i) wrong += std::abs(want[i]) > 1e-3 && (want[i] > 0) != (got[i] > 0);
    EXPECT_EQ(wrong, 0) << n;
  }
}

// Many rows and a matrix that a block keeps: dense, turned or wide, with all that is done on the way out.
TEST_F(CardTensors, ProductsOfManyRowsAgreeWithDouble) {
  for (const DType dtype : {DType::bf16, DType::f16})
    for (const std::int64_t k : {64, 128, 192, 256})
      for (const std::int64_t n : {64, 192, 256})
        for (const bool turned : {false, true}) {
          SCOPED_TRACE(::testing::Message() << name_of(dtype) << " " << k << " " << n << " " << turned);
          const Tensor a = random(host_, {4096 + k + n / 64, k}, 1, dtype), bias = random(host_, {n}, 3, dtype),
                       stored = random(host_, turned ? Shape{n, k} : Shape{k, n}, 2, dtype);
          const auto product = [&](const Context& c, DType type, DType of_b, bool relu) {
            const Tensor b = stored.to(host_, of_b).clone(c);
            return gemm::multiply(c, a.to(host_, type).clone(c), turned ? b.transpose(0, 1) : b,
                                  {.bias = bias.to(host_, wide_type(type)).clone(c), .relu = relu})
                .clone(host_);
          };
          for (const bool relu : {false, true}) {
            const Tensor want = product(host_, DType::f64, DType::f64, relu);
            for (const DType of_b : {dtype, DType::f32}) {
              const Tensor got = product(card_, dtype, of_b, relu);
              EXPECT_LT(relative_error(got, want), epsilon(dtype));
              EXPECT_TRUE(same_bits(got, product(card_, dtype, of_b, relu)));
            }
          }
        }
}

TEST_F(CardTensors, SmallProductsAgreeWithDouble) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64})
    for (const auto& [m, k, n] : {std::tuple{1, 10, 128}, std::tuple{32, 64, 128}, std::tuple{33, 17, 5},
                                  std::tuple{64, 32, 128}, std::tuple{7, 300, 10}})
      for (const bool turned : {false, true}) {
        SCOPED_TRACE(::testing::Message() << name_of(dtype) << " " << m << " " << k << " " << n << " " << turned);
        const Tensor a = random(host_, turned ? Shape{k, m} : Shape{m, k}, 1, dtype),
                     b = random(host_, turned ? Shape{n, k} : Shape{k, n}, 2, dtype),
                     bias = random(host_, {n}, 3, dtype), before = random(host_, {m, n}, 4, dtype);
        const auto product = [&](const Context& c, DType type, bool accumulate) {
          const auto there = [&](const Tensor& t, DType as) { return t.to(host_, as).clone(c); };
          const Tensor x = there(a, type), y = there(b, type), to = there(before, wide_type(type));
          gemm::multiply(c, turned ? x.transpose(0, 1) : x, turned ? y.transpose(0, 1) : y, to,
                         accumulate ? gemm::Epilogue{.bias = {}, .accumulate = true}
                                    : gemm::Epilogue{.bias = there(bias, wide_type(type)), .relu = true});
          return to.clone(host_);
        };
        for (const bool accumulate : {false, true})
          EXPECT_LT(relative_error(product(card_, dtype, accumulate), product(host_, DType::f64, accumulate)),
                    dtype == DType::f64 ? 1e-14 : 8 * epsilon(DType::f32));
      }
}

TEST_F(CardTensors, Tf32RoundsToTenBitsAndOnlyWhenAsked) {
  const Context quick({.device = Device::cuda, .tf32 = true});
  const Tensor a = random(host_, {64, 96}, 1, DType::f32), b = random(host_, {96, 128}, 2, DType::f32);
  const Tensor want = gemm::multiply(host_, a.to(host_, DType::f64), b.to(host_, DType::f64));
  const double exact = relative_error(gemm::multiply(card_, a.clone(card_), b.clone(card_)).clone(host_), want),
               rounded = relative_error(gemm::multiply(quick, a.clone(quick), b.clone(quick)).clone(host_), want);
  EXPECT_LT(exact, 1e-6);
  EXPECT_GT(rounded, 1e-5);
  EXPECT_LT(rounded, 2e-3);
}

TEST_F(CardTensors, PackedProductsAgreeWithTheHost) {
  const Tensor w = random(host_, {70, 45}, 4, DType::f32), bias = random(host_, {45}, 5, DType::f32);
  for (gemm::Form form : {gemm::Form::f32, gemm::Form::bf16, gemm::Form::i8})
    for (std::int64_t rows : {1, 5, 16}) {
      const Tensor x = random(host_, {rows, 70}, 6, DType::f32);
      const auto product = [&](const Context& c) {
        const Tensor y = Tensor::empty(c, {rows, 45});
        gemm::PackedWeight(c, w.clone(c), form).multiply(c, x.clone(c), bias.clone(c), y);
        return y;
      };
      EXPECT_LT(relative_error(product(card_).clone(host_), product(host_)), 1e-5);
    }
}

// y, dx, d_gain and d_bias of a norm, and the sums of the columns that a bias gets, of x (rows, width).
std::vector<Tensor> norm_and_sums(Context& context, const Tensor& x, const Tensor& by) {
  Tape tape(context);
  const Shape row{x.dim(1)};
  const auto constant = [&](const Shape& shape, double value) {
    const Tensor t = Tensor::empty(context, shape, wide_type(x.dtype()));
    t.fill(value);
    return Var::leaf(t);
  };
  const Var in = Var::leaf(x), gain = constant(row, 0.75), bias = constant(row, 0.5), other = constant(row, 2.0);
  const Var y = add(tape, mul(tape, normalize(tape, in, {NormKind::layer, 0.01, gain, bias}), Var(by)), other);
  tape.backward(sum(tape, y));
  return {y.value(), in.grad(), gain.grad(), bias.grad(), other.grad()};
}

// act(x W1 + b1) W2 + b2, gated or not, of x or of the norm of x + branch, of parameters that hold values of `dtype`.
struct FeedForwardCase {
  Activation activation;
  bool gated, biases;
  std::int64_t rows, inner;
  std::optional<NormKind> norm;

  FeedForwardResult run(Context& context, const Context& host, DType dtype, bool fused) const {
    const DType type = context.device() == Device::cuda ? dtype : DType::f64, wide = wide_type(type);
    const auto made = [&](const Shape& shape, std::uint64_t seed, DType as) {
      return Var(random(host, shape, seed, dtype).to(host, as).clone(context));
    };
    const auto bias = [&](std::int64_t width, std::uint64_t seed) {
      return biases ? made({width}, seed, wide) : Var();
    };
    const std::int64_t columns = gated ? 2 * inner : inner;
    const Var x = made({rows, 64}, 1, type), branch = norm ? made({rows, 64}, 6, type) : Var();
    const Norm by{norm.value_or(NormKind::layer), 1e-5, bias(64, 7), bias(64, 8)};
    const FeedForwardWeights w{
        made({64, columns}, 2, wide), bias(columns, 3), made({inner, 64}, 4, wide), bias(64, 5), activation, gated};
    Tape tape(context, {.record = false});
    if (fused) return fused_feed_forward(tape, {x, branch, by}, w);
    const AddNorm read = norm ? add_norm(tape, x, branch, 0.0, by) : AddNorm{x, x};
    const Var h = linear(tape, read.normed, w.in, w.in_bias, gated ? Activation::identity : activation);
    return {read.sum, linear(tape, gated ? glu(tape, h, activation) : h, w.out, w.out_bias)};
  }
};

TEST_F(CardTensors, FeedForwardLayersAreOneKernel) {
  for (const DType dtype : {DType::bf16, DType::f16})
    for (const auto& [activation, gated] :
         {std::pair{Activation::silu, true}, std::pair{Activation::gelu, false}, std::pair{Activation::relu, false}})
      for (const std::int64_t rows : {1, 31, 32, 33, 1000, 14000})
        for (const std::int64_t inner : {16, 96, 128})
          for (const std::optional<NormKind> norm :
               {std::optional<NormKind>(), std::optional(NormKind::layer), std::optional(NormKind::rms_a)}) {
            if (norm && rows == 14000 && inner != 128) continue;
            SCOPED_TRACE(::testing::Message() << name_of(dtype) << " " << rows << " " << inner << " " << gated);
            const FeedForwardCase c{activation, gated, rows % 2 == 0, rows, inner, norm};
            const FeedForwardResult got = c.run(card_, host_, dtype, true), want = c.run(host_, host_, dtype, false),
                                    again = c.run(card_, host_, dtype, true);
            ASSERT_TRUE(got.y.defined());
            EXPECT_LT(relative_error(got.y.value().clone(host_), want.y.value()), 4 * epsilon(dtype));
            EXPECT_LT(relative_error(got.sum.value().clone(host_), want.sum.value()), epsilon(dtype));
            EXPECT_TRUE(same_bits(got.y.value().clone(host_), again.y.value().clone(host_)));
          }
}

TEST_F(CardTensors, FindsWhatIsNotFinite) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64})
    for (const std::int64_t count : {0, 1, 300, 1024, 1025, 5000}) {
      const Tensor t = Tensor::zeros(card_, {count}, dtype);
      EXPECT_TRUE(all_finite(t));
      for (const double strange : {static_cast<double>(NAN), static_cast<double>(INFINITY)}) {
        if (count == 0) continue;
        t.slice(0, count - 1, count).fill(strange);
        EXPECT_FALSE(all_finite(t)) << name_of(dtype) << " " << count;
      }
    }
}

// Rows that packs do not fit, and none at all, give what others give.
TEST_F(CardTensors, RowsMayBeginAnywhere) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64})
    for (const std::int64_t count : {0, 1, 300}) {
      SCOPED_TRACE(std::string(name_of(dtype)) + " " + std::to_string(count));
      const Tensor numbers = random(host_, {1 + count * 64}, 3, dtype), by = random(host_, {count, 64}, 4, dtype);
      const auto rows = [&](const Tensor& t) { return t.slice(0, 1, 1 + count * 64).reshape({count, 64}); };
      const auto want = norm_and_sums(host_, rows(numbers).to(host_, DType::f64), by.to(host_, DType::f64));
      const auto got = norm_and_sums(card_, rows(numbers.clone(card_)), by.clone(card_));
      for (std::size_t i = 0; i < want.size(); ++i)
        EXPECT_LT(relative_error(got[i].clone(host_), want[i]), dtype == DType::f64 ? 1e-12 : 16 * epsilon(dtype)) << i;
    }
}

}  // namespace
}  // namespace fovea::testing
