// Which kernels the linear engine launches, and that cards of every kind can launch them.

#include <gtest/gtest.h>

#include "gpu/host/launches.h"
#include "scan/cuda/launch.h"

namespace fovea::scan {
namespace {

using cuda::Kernels;
using fovea::testing::kAda, fovea::testing::kAmpere, fovea::testing::kBlackwell, fovea::testing::kHopper;
using fovea::testing::Machine, fovea::testing::launched;

// A problem whose arrays are nowhere: nobody reads them.
struct Work {
  DType dtype = DType::bf16;
  std::int64_t width = 64, heads = 4, group = 1, batch = 2, n = 300;
  bool causal = true, rms_norm = false, wide = false;
  Decay decay = Decay::none;
  Denominator denominator = Denominator::none;
};

class ScanLaunches : public ::testing::Test {
 protected:
  ScanLaunches() {
    Machine::instance().reset();
    Machine::instance().free = std::size_t{1} << 36;  // of addresses: nobody writes there
  }
  ~ScanLaunches() override { Machine::instance().reset(); }

  // Which kernels do the forward and the backward.
  std::pair<Kernels, Kernels> run_on(int card, const Work& work) {
    std::vector<Piece> pieces;
    for (std::int64_t b = 0; b < work.batch; ++b) pieces.push_back({.batch = b, .nq = work.n, .nk = work.n});
    const std::vector<double> decays(static_cast<std::size_t>(work.heads), -0.1);
    Problem problem;
    problem.dtype = work.dtype;
    problem.heads = work.heads;
    problem.kv_heads = work.heads / work.group;
    problem.d_k = problem.d_v = work.width;
    problem.pieces = pieces;
    problem.causal = work.causal;
    problem.rms_norm = work.rms_norm;
    problem.wide_outputs = work.wide;
    problem.norm_eps = 1e-6;
    problem.decay = work.decay;
    if (work.decay == Decay::head) problem.log_decay = decays.data();
    problem.denominator = work.denominator;
    const Out rows = array(work.n, work.heads, work.width);
    const Out logs = work.decay == Decay::step || work.decay == Decay::channel
                         ? array(work.n, work.heads, decay_columns(problem))
                         : Out{};
    const std::int64_t columns = statistic_columns(problem);
    const Out statistic = columns > 0 ? Out{nowhere(), work.n * columns, columns, 1} : Out{};
    std::pair<Kernels, Kernels> ran;
    launched(card, [&] {
      ran.first = cuda::forward({}, problem, {in(rows), in(rows), in(rows), in(logs), rows, statistic});
      ran.second = cuda::backward({}, problem,
                                  {in(rows), in(rows), in(rows), in(logs), in(rows), in(statistic), in(rows), nullptr,
                                   nullptr, nullptr, rows, rows, rows, logs, nullptr});
    });
    return ran;
  }

 private:
  static void* nowhere() { return reinterpret_cast<void*>(std::uintptr_t{1} << 20); }
  static In in(const Out& a) { return {a.data, a.batch, a.row, a.head}; }
  static Out array(std::int64_t n, std::int64_t heads, std::int64_t width) {
    return {nowhere(), n * heads * width, heads * width, width};
  }
};

constexpr std::pair kTensorCores{Kernels::tensor_cores, Kernels::tensor_cores},
    kPortable{Kernels::portable, Kernels::portable};

TEST_F(ScanLaunches, TensorCoresTakeHeadsOf32And64) {
  for (const int card : {kHopper, kAmpere, kAda, kBlackwell})
    for (const std::int64_t width : {32, 64})
      for (const bool causal : {true, false})
        for (const bool norm : {true, false}) {
          SCOPED_TRACE(std::to_string(width) + (causal ? " causal" : "") + " on card " + std::to_string(card));
          const auto ran = run_on(card, {.width = width, .causal = causal, .rms_norm = norm});
          EXPECT_EQ(ran.first, Kernels::tensor_cores);
          // That of 64 with a state that runs along has 112 KB.
          const bool fits = card != kAda || width == 32 || !causal;
          EXPECT_EQ(ran.second, fits ? Kernels::tensor_cores : Kernels::portable);
        }
}

// They have 192 KB and more.
TEST_F(ScanLaunches, HeadsOf128NeedACardWithTheSharedMemory) {
  for (const bool causal : {true, false}) {
    for (const int card : {kHopper, kBlackwell})
      EXPECT_EQ(run_on(card, {.width = 128, .causal = causal}), kTensorCores);
    for (const int card : {kAmpere, kAda}) EXPECT_EQ(run_on(card, {.width = 128, .causal = causal}), kPortable);
  }
}

// The norm of 16 heads in one pass has 230 KB.
TEST_F(ScanLaunches, TheNormOfManyHeadsIsTakenApartWhereItDoesNotFit) {
  for (const int card : {kHopper, kAmpere, kAda, kBlackwell})
    EXPECT_EQ(run_on(card, {.heads = 16, .causal = false, .rms_norm = true}), kTensorCores);
  EXPECT_TRUE(launched(kAda, [&] {
                run_on(kAda, {.heads = 16, .causal = false, .rms_norm = true});
              }).contains("norm_rows_kernel"));
}

TEST_F(ScanLaunches, WhatTensorCoresDoNotTakeIsPortable) {
  for (const Work& work :
       {Work{.dtype = DType::f32}, Work{.dtype = DType::f16}, Work{.dtype = DType::f64}, Work{.width = 20},
        Work{.width = 256}, Work{.width = 128, .decay = Decay::step}, Work{.width = 128, .decay = Decay::channel},
        Work{.decay = Decay::step, .denominator = Denominator::clamp}})
    for (const int card : {kHopper, kAda}) EXPECT_EQ(run_on(card, work), kPortable);
  EXPECT_EQ(run_on(kHopper, {.decay = Decay::head}), kTensorCores);
  EXPECT_EQ(run_on(kHopper, {.rms_norm = true, .decay = Decay::channel}), kTensorCores);
  EXPECT_EQ(run_on(kHopper, {.group = 2, .decay = Decay::channel}),
            std::pair(Kernels::tensor_cores, Kernels::portable));
}

// Their gradients are made into pairs of bf16 first.
TEST_F(ScanLaunches, TensorCoresTakeOutputsInF32) {
  for (const Work& work : {Work{.wide = true}, Work{.causal = false, .wide = true}, Work{.width = 128, .wide = true},
                           Work{.wide = true, .decay = Decay::head}, Work{.wide = true, .decay = Decay::channel}}) {
    std::pair<Kernels, Kernels> ran;
    const auto names = launched(kHopper, [&] { ran = run_on(kHopper, work); });
    EXPECT_EQ(ran, kTensorCores);
    EXPECT_TRUE(names.contains("split_rows_kernel"));
  }
  EXPECT_EQ(run_on(kHopper, {.causal = false, .rms_norm = true, .wide = true}), kTensorCores);
  EXPECT_EQ(run_on(kHopper, {.wide = true, .denominator = Denominator::add}), kTensorCores);
}

// Only those of a causal backward are summed by themselves.
TEST_F(ScanLaunches, TensorCoresTakeGroupedHeads) {
  for (const bool causal : {true, false}) {
    std::pair<Kernels, Kernels> ran;
    const auto names = launched(kHopper, [&] { ran = run_on(kHopper, {.group = 2, .causal = causal}); });
    EXPECT_EQ(ran, kTensorCores);
    EXPECT_EQ(names.contains("sum_heads_kernel"), causal);
  }
}

TEST_F(ScanLaunches, TensorCoresTakeDenominators) {
  const Work forms[] = {{.causal = false}, {.causal = true}, {.causal = true, .decay = Decay::head}};
  for (Work work : forms)
    for (const std::int64_t width : {32, 64, 128}) {
      work.width = width;
      work.denominator = width == 32 ? Denominator::add : Denominator::clamp;
      SCOPED_TRACE(std::to_string(width) + (work.causal ? " causal" : ""));
      for (const int card : {kHopper, kBlackwell}) EXPECT_EQ(run_on(card, work), kTensorCores);
      for (const int card : {kAmpere, kAda}) EXPECT_EQ(run_on(card, work), width == 128 ? kPortable : kTensorCores);
    }
}

// Only the gradient of a step's decay is summed over channels afterwards.
TEST_F(ScanLaunches, TensorCoresTakeDecaysOfStepsAndChannels) {
  for (const int card : {kHopper, kAmpere, kAda, kBlackwell})
    for (const std::int64_t width : {32, 64})
      for (const std::int64_t n : {3, 300, 5000})
        for (const Decay decay : {Decay::step, Decay::channel}) {
          SCOPED_TRACE(std::to_string(width) + ", n " + std::to_string(n) + " on card " + std::to_string(card));
          std::pair<Kernels, Kernels> ran;
          const auto names = launched(card, [&] { ran = run_on(card, {.width = width, .n = n, .decay = decay}); });
          EXPECT_EQ(ran, kTensorCores);
          EXPECT_TRUE(names.contains("mma_kernel"));
          EXPECT_EQ(names.contains("sum_channels_kernel"), decay == Decay::step);
          EXPECT_FALSE(names.contains("walk_kernel"));
        }
}

// A grid has 65535 rows at most.
TEST_F(ScanLaunches, MoreSequencesThanAGridHasRows) {
  for (const DType dtype : {DType::bf16, DType::f32})
    for (const bool causal : {true, false}) {
      SCOPED_TRACE(std::string(name_of(dtype)) + (causal ? " causal" : ""));
      run_on(kHopper, {.dtype = dtype, .heads = 2, .batch = 70000, .n = 3, .causal = causal, .rms_norm = !causal});
    }
}

TEST_F(ScanLaunches, AMillionTokens) {
  for (const DType dtype : {DType::bf16, DType::f32})
    run_on(kHopper, {.dtype = dtype, .heads = 1, .batch = 1, .n = 1 << 20});
}

}  // namespace
}  // namespace fovea::scan
