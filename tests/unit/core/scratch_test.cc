#include "core/scratch.h"

#include <gtest/gtest.h>

#include <cstdint>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

namespace fovea {
namespace {

TEST(Carver, CountsWhatItTakes) {
  const auto take = [](Carver& carver) {
    float* a = carver.take<float>(3);
    carver.take<std::uint8_t>(0);
    double* b = carver.take<double>(9);
    return std::pair(a, b);
  };
  Carver sizes;
  EXPECT_EQ(take(sizes), (std::pair<float*, double*>{}));
  EXPECT_EQ(sizes.used(), 64 + 128 + 3 * guard::gap());
  const Context context;
  const Scratch<std::byte> block(context, sizes.used());
  Carver carver(block.all());
  const auto [a, b] = take(carver);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(a) % 64, 0u);
  EXPECT_EQ(reinterpret_cast<std::byte*>(b) - block.data(), static_cast<std::ptrdiff_t>(64 + 2 * guard::gap()));
  a[2] = 1.0f;
  b[8] = 1.0;
}

TEST(Carver, ReportsAnArrayThatDoesNotFit) {
  const Context context;
  const Scratch<std::byte> block(context, 256);
  EXPECT_DEATH(Carver(block.all()).take<float>(100),
               "does not fit into its scratch, of 400 bytes\n  in scratch_test.cc");
}

// The guard of a test program: canaries, or the address sanitizer's.
TEST(Guard, IsOn) { EXPECT_TRUE(guard::on); }

#ifdef __SANITIZE_ADDRESS__
TEST(Guard, HidesTheGapsBetweenArrays) {
  const Context context;
  const Scratch<std::byte> block(context, 1024);
  for (const std::int64_t count : {100, 20, 100}) {  // carved anew: gaps move
    Carver carver(block.all());
    const float *a = carver.take<float>(count), *b = carver.take<float>(1);
    EXPECT_EQ(__asan_region_is_poisoned(const_cast<float*>(a), static_cast<std::size_t>(count) * sizeof(float)),
              nullptr);
    EXPECT_TRUE(__asan_address_is_poisoned(a + count));
    EXPECT_TRUE(__asan_address_is_poisoned(b - 1));
    EXPECT_FALSE(__asan_address_is_poisoned(b));
    EXPECT_TRUE(__asan_address_is_poisoned(b + 1));
  }
}
#else
TEST(Guard, NamesTheArrayThatWasWrittenPast) {
  const auto write = [](std::int64_t at) {
    const Context context;
    const Scratch<std::byte> block(context, 1024);
    Carver carver(block.all());
    float* a = carver.take<float>(10);
    carver.take<float>(10);
    a[at] = 1.0f;
  };
  write(9);
  for (const std::int64_t at : {10, 15, 16, 31})
    EXPECT_DEATH(write(at), "written past the end of an array, of 40 bytes\n  in scratch_test.cc");
}

TEST(Guard, SeesItWhenTheBlockIsCarvedAnew) {
  const auto write = [](std::int64_t at) {
    const Context context;
    const Scratch<std::byte> block(context, 4096);
    Carver first(block.all());
    first.take<float>(64)[at] = 1.0f;
    Carver second(block.all());
    float* b = second.take<float>(300);
    b[70] = 1.0f;  // where the first guard was
    Carver third(block.all());
    third.take<float>(64);
  };
  write(63);
  EXPECT_DEATH(write(64), "written past the end of an array, of 256 bytes");
}

// Two layouts in turns, one of which ends before the other: each forgets the guards of the other.
TEST(Guard, LayoutsMayAlternate) {
  const Context context;
  const Scratch<std::byte> block(context, 4096);
  for (int round = 0; round < 3; ++round) {
    Carver large(block.all());
    float* a = large.take<float>(500);
    for (int i = 0; i < 500; ++i) a[i] = 1.0f;
    Carver small(block.all());
    for (int part = 0; part < 3; ++part) small.take<float>(16)[15] = 1.0f;
  }
}

TEST(Guard, StandsBehindBlocksToo) {
  const auto write = [](std::int64_t at) {
    const Context context;
    const Scratch<float> block(context, 1024);  // a size without slack
    block.data()[at] = 1.0f;
  };
  write(1023);
  EXPECT_DEATH(write(1024), "written past the end of an array, of 4096 bytes\n  in scratch_test.cc");
}
#endif

}  // namespace
}  // namespace fovea
