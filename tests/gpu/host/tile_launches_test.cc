// Which kernels the tiled engine launches, and that cards of every kind can launch them.

#include <gtest/gtest.h>

#include "fovea/pattern.h"
#include "gpu/host/launches.h"
#include "support/expect_error.h"
#include "tile/cuda/launch.h"

namespace fovea::tile {
namespace {

using fovea::testing::kAda, fovea::testing::kAmpere, fovea::testing::kBlackwell, fovea::testing::kHopper;
using fovea::testing::Machine, fovea::testing::launched;
using Names = std::set<std::string>;

// A problem whose arrays are nowhere: nobody reads them.
struct Work {
  DType dtype = DType::bf16;
  std::int64_t width = 64, heads = 4, kv_heads = 4, batch = 2, n = 300;
  Pattern pattern = Pattern::full();
  Weight weight = Weight::softmax;
  bool bias = false, d_bias = false, dropout = false, wide = false;
  TileSize tile = cuda::kTile;
};

class TileLaunches : public ::testing::Test {
 protected:
  TileLaunches() {
    Machine::instance().reset();
    Machine::instance().free = std::size_t{1} << 36;  // of addresses: nobody writes there
  }
  ~TileLaunches() override { Machine::instance().reset(); }

  void set(const Work& work) {
    plan_ = std::make_shared<const Plan>(compile_plan(work.pattern, work.n, work.n, work.tile));
    pieces_.clear();
    for (std::int64_t b = 0; b < work.batch; ++b)
      pieces_.push_back({.batch = b, .nq = work.n, .nk = work.n, .plan = plan_.get()});
    problem_ = Problem();
    problem_.dtype = work.dtype;
    problem_.wide_outputs = work.wide;
    problem_.heads = work.heads;
    problem_.kv_heads = work.kv_heads;
    problem_.d_k = problem_.d_v = work.width;
    problem_.pieces = pieces_;
    problem_.weight = work.weight;
    problem_.scale = 0.125;
    if (work.bias) problem_.bias = {nowhere(), work.heads * work.n * work.n, work.n * work.n, work.n, 1};
    if (work.dropout) problem_.dropout.p = 0.1f;
    with_gradient_ = work.d_bias;
  }
  Names forward_on(int card) {
    const Array<void*> q = rows(problem_.heads), k = rows(problem_.kv_heads);
    const bool statistic = has_statistic(problem_.weight);
    return launched(card, [&] {
      cuda::forward({}, problem_, {in(q), in(k), in(k), q, statistic ? numbers() : Out{}});
    });
  }
  Names backward_on(int card) {
    const Array<void*> q = rows(problem_.heads), k = rows(problem_.kv_heads);
    const bool statistic = has_statistic(problem_.weight);
    BiasArray<void*> d_bias;
    if (with_gradient_) d_bias = {nowhere(), problem_.bias.batch, problem_.bias.head, problem_.bias.query, 1};
    return launched(card, [&] {
      cuda::backward({}, problem_,
                     {in(q), in(k), in(k), statistic ? in(q) : In{}, statistic ? in(numbers()) : In{}, in(q), In{}, q,
                      k, k, d_bias});
    });
  }

 private:
  static void* nowhere() { return reinterpret_cast<void*>(std::uintptr_t{1} << 20); }
  static In in(const Array<void*>& a) { return {a.data, a.batch, a.row, a.head}; }
  Array<void*> rows(std::int64_t heads) const {
    return {nowhere(), pieces_.front().nq * heads * problem_.d_k, heads * problem_.d_k, problem_.d_k};
  }
  Array<void*> numbers() const { return {nowhere(), pieces_.front().nq * problem_.heads, problem_.heads, 1}; }

  std::shared_ptr<const Plan> plan_;
  std::vector<Piece> pieces_;
  Problem problem_;
  bool with_gradient_ = false;
};

TEST_F(TileLaunches, SoftmaxRunsOnTheBestThatACardHas) {
  for (const std::int64_t width : {16, 32, 64}) {
    set({.width = width, .heads = 16, .kv_heads = 16, .batch = 8, .n = 1024});
    EXPECT_EQ(forward_on(kHopper), Names{"hopper_forward_kernel"});
    const Names backward = backward_on(kHopper);
    EXPECT_TRUE(backward.contains("hopper_backward_kernel"));
    EXPECT_FALSE(backward.contains("mma_backward_kernel") || backward.contains("simt_kernel"));
  }
  for (const int card : {kAmpere, kAda, kBlackwell}) {
    EXPECT_EQ(forward_on(card), Names{"mma_forward_kernel"});
    const Names backward = backward_on(card);
    EXPECT_TRUE(backward.contains("mma_backward_kernel"));
    EXPECT_FALSE(backward.contains("hopper_backward_kernel") || backward.contains("simt_kernel"));
  }
}

TEST_F(TileLaunches, WhatHopperHasNoKernelsForRunsOnTensorCores) {
  for (const Work& work :
       {Work{.dropout = true}, Work{.width = 32, .dropout = true}, Work{.weight = Weight::relu2}, Work{.width = 256}}) {
    set(work);
    EXPECT_EQ(forward_on(kHopper), Names{"mma_forward_kernel"});
  }
  set({.bias = true, .d_bias = true});
  EXPECT_EQ(forward_on(kHopper), (Names{"mma_forward_kernel", "simt_kernel"})) << "a bias may hide a NaN: looked at";
  const Names backward = backward_on(kHopper);
  EXPECT_TRUE(backward.contains("mma_backward_kernel") && backward.contains("mma_bias_kernel"));
  EXPECT_FALSE(backward.contains("bias_gradient_kernel") || backward.contains("clear_bias_kernel"));
}

// Their gradients are made narrow first, where a row statistic makes up for it.
TEST_F(TileLaunches, OutputsInF32StayOnTensorCores) {
  for (const std::int64_t width : {32, 64, 128})
    for (const int card : {kAmpere, kHopper, kBlackwell}) {
      set({.width = width, .n = 512, .wide = true});
      EXPECT_EQ(forward_on(card), Names{card == kHopper ? "hopper_forward_kernel" : "mma_forward_kernel"});
      const Names backward = backward_on(card);
      EXPECT_TRUE(backward.contains("narrow_kernel"));
      EXPECT_FALSE(backward.contains("simt_kernel"));
    }
  set({.n = 512, .pattern = Pattern::block_diagonal(64), .wide = true});
  EXPECT_TRUE(backward_on(kHopper).contains("diagonal_backward_kernel"));
  for (const Work& work : {Work{.weight = Weight::relu2, .wide = true}, Work{.dtype = DType::f16, .wide = true}}) {
    set(work);
    EXPECT_FALSE(forward_on(kHopper).contains("simt_kernel"));
    EXPECT_TRUE(backward_on(kHopper).contains("simt_kernel"));
  }
}

TEST_F(TileLaunches, BlocksThatReadThemselvesAloneGoBackwardInOneKernel) {
  const Pattern blocks = Pattern::block_diagonal(64);
  for (const std::int64_t width : {32, 64, 128})
    for (const int card : {kAmpere, kAda, kHopper, kBlackwell}) {
      set({.width = width, .n = 512, .pattern = blocks});
      EXPECT_EQ(backward_on(card), Names{"diagonal_backward_kernel"});
    }
  set({.n = 512, .pattern = blocks & Pattern::causal()});
  EXPECT_TRUE(backward_on(kHopper).contains("diagonal_backward_kernel"));
  EXPECT_TRUE(backward_on(kHopper).contains("simt_kernel")) << "what is hidden may be a NaN: looked at";
  for (const Work& work : {Work{.kv_heads = 2, .n = 512, .pattern = blocks}, Work{.n = 512},
                           Work{.n = 512, .pattern = blocks, .dropout = true}}) {
    set(work);
    EXPECT_FALSE(backward_on(kHopper).contains("diagonal_backward_kernel"));
  }
}

TEST_F(TileLaunches, OtherTypesAndTilesArePortable) {
  for (const Work& work :
       {Work{.dtype = DType::f32}, Work{.dtype = DType::f64}, Work{.tile = {32, 32}}, Work{.width = 20}}) {
    set(work);
    for (const int card : {kHopper, kAda}) {
      EXPECT_EQ(forward_on(card), Names{"simt_kernel"});
      EXPECT_TRUE(backward_on(card).contains("simt_kernel"));
    }
  }
}

// That of heads of 256 has 160 KB.
TEST_F(TileLaunches, CardsWithLittleSharedMemoryDoWithoutTheLargestTiles) {
  for (const std::int64_t width : {136, 192}) {
    set({.width = width});
    EXPECT_EQ(forward_on(kAmpere), Names{"mma_forward_kernel"});
    EXPECT_EQ(forward_on(kAda), Names{"simt_kernel"});
  }
}

TEST_F(TileLaunches, HeadsThatFitNoTileAreRefusedWithTheWidestThatDo) {
  const char* const where = "tiled attention on CUDA";
  set({.width = 256});
  EXPECT_ERROR(forward_on(kAda), ErrorCode::unsupported,
               "heads of 256 and 256 in bf16: a tile takes 113 KB of shared memory, this card has 99", where,
               "heads of up to 200, or --device cpu");
  set({.dtype = DType::f32, .width = 512});
  EXPECT_ERROR(backward_on(kHopper), ErrorCode::unsupported, "heads of 512 and 512 in f32", where, "--device cpu");
}

// Every launch is one that the made-up cards take: grids, threads and shared memory.
TEST_F(TileLaunches, EveryWidthTypeAndWeightCanBeLaunchedOnEveryCard) {
  for (const int card : {kHopper, kAmpere, kAda, kBlackwell})
    for (const DType dtype : {DType::bf16, DType::f16, DType::f32, DType::f64})
      for (const std::int64_t width : {8, 20, 32, 64, 96, 128, 192, 256})
        for (const Weight weight : {Weight::softmax, Weight::relu2, Weight::taylor}) {
          const std::int64_t most = card == kAda ? 96 : (card == kAmpere ? 192 : 256);  // with both gradients of keys
          SCOPED_TRACE(std::string(name_of(dtype)) + " " + std::to_string(width) + " on card " + std::to_string(card));
          set({.dtype = dtype,
               .width = width,
               .pattern = Pattern::window(70, 0),
               .weight = weight,
               .bias = width == 64});
          const std::int64_t fits = dtype == DType::f64 ? most / 2 : most;
          EXPECT_TRUE(width > 2 * fits || !forward_on(card).empty());
          EXPECT_TRUE(width > fits || !backward_on(card).empty());
        }
}

// A grid has 65535 rows at most.
TEST_F(TileLaunches, MoreSequencesThanAGridHasRows) {
  for (const DType dtype : {DType::bf16, DType::f32}) {
    set({.dtype = dtype, .heads = 1, .kv_heads = 1, .batch = 70000, .n = 3});
    EXPECT_FALSE(forward_on(kHopper).empty());
    EXPECT_FALSE(backward_on(kHopper).empty());
  }
}

TEST_F(TileLaunches, AMillionTokens) {
  set({.heads = 1, .kv_heads = 1, .batch = 1, .n = 1 << 20, .pattern = Pattern::window(511, 0)});
  EXPECT_FALSE(forward_on(kHopper).empty());
  EXPECT_FALSE(backward_on(kHopper).empty());
}

}  // namespace
}  // namespace fovea::tile
