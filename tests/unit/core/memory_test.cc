#include "fovea/memory.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "support/expect_error.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

namespace fovea {
namespace {

TEST(Allocator, CountsByLifetime) {
  Allocator allocator({});
  const auto weights = allocator.allocate(1000, Lifetime::persistent);
  const auto saved = allocator.allocate(5000, Lifetime::step);
  EXPECT_GE(allocator.use(Lifetime::persistent).now, 1000u);
  EXPECT_GE(allocator.use(Lifetime::step).now, 5000u);
  EXPECT_EQ(allocator.use(Lifetime::scratch).now, 0u);
  EXPECT_EQ(allocator.total().now, weights.bytes + saved.bytes);
  allocator.release(saved);
  EXPECT_EQ(allocator.use(Lifetime::step).now, 0u);
  EXPECT_EQ(allocator.use(Lifetime::step).peak, saved.bytes);
  EXPECT_EQ(allocator.total().now, weights.bytes);
  EXPECT_EQ(allocator.total().peak, weights.bytes + saved.bytes);
  allocator.reset_peaks();
  EXPECT_EQ(allocator.total().peak, weights.bytes);
  EXPECT_EQ(allocator.use(Lifetime::step).peak, 0u);
  allocator.release(weights);
  EXPECT_EQ(allocator.total().now, 0u);
}

TEST(Allocator, BlocksAreAlignedAndReused) {
  Allocator allocator({});
  for (std::size_t bytes :
       {std::size_t{1}, std::size_t{63}, std::size_t{65}, std::size_t{4097}, std::size_t{3} << 20}) {
    const auto block = allocator.allocate(bytes, Lifetime::step);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block.data) % 64, 0u);
    EXPECT_GE(block.bytes, bytes);
    EXPECT_LE(block.bytes, bytes + bytes / 4 + 64);
    std::memset(block.data, 1, bytes);
    allocator.release(block);
    const auto again = allocator.allocate(bytes, Lifetime::scratch);
    EXPECT_EQ(again.data, block.data);
    allocator.release(again);
  }
  allocator.trim();
}

TEST(Allocator, RefusesBeyondTheLimit) {
  Allocator allocator({.limit = 1 << 20, .poison = false});
  const auto half = allocator.allocate(600 << 10, Lifetime::step);
  EXPECT_ERROR(allocator.allocate(600 << 10, Lifetime::step), ErrorCode::out_of_memory, "limit", "", "smaller batch");
  EXPECT_ERROR(allocator.allocate(SIZE_MAX, Lifetime::step), ErrorCode::out_of_memory, "cannot allocate", "",
               "shorter");
  EXPECT_EQ(allocator.total().now, half.bytes);  // a refusal counts for nothing
  allocator.release(half);
  allocator.release(allocator.allocate(600 << 10, Lifetime::step));
}

// Memory of few bytes.
class TightMemory : public Memory {
 public:
  explicit TightMemory(std::size_t bytes) : Memory(Device::cpu), bytes_(bytes) {}

  std::size_t size() const override { return SIZE_MAX; }
  std::size_t available() const override { return bytes_; }
  void* map(std::size_t bytes) override {
    if (bytes > bytes_) return nullptr;
    bytes_ -= bytes;
    return std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  }
  void unmap(void* data, std::size_t bytes) override {
    bytes_ += bytes;
    std::free(data);
  }
  void fill(void* to, unsigned char value, std::size_t bytes) override { std::memset(to, value, bytes); }
  void write(void* to, const void* host, std::size_t bytes) override { std::memcpy(to, host, bytes); }
  void read(void* host, const void* from, std::size_t bytes) override { std::memcpy(host, from, bytes); }

 private:
  std::size_t bytes_;
};

TEST(Allocator, GivesCachedBlocksBackBeforeItGivesUp) {
  Allocator allocator({}, std::make_shared<TightMemory>(std::size_t{5} << 20));
  allocator.release(allocator.allocate(std::size_t{3} << 20, Lifetime::step));
  const auto large = allocator.allocate(std::size_t{4} << 20, Lifetime::step);
  EXPECT_ERROR(allocator.allocate(std::size_t{2} << 20, Lifetime::step), ErrorCode::out_of_memory,
               "out of memory: 4 MB in use, 2 MB more asked for, ", "cpu", "smaller batch");
  EXPECT_EQ(allocator.total().now, large.bytes);
  allocator.release(large);
}

TEST(Allocator, PoisonIsNaN) {
  Allocator allocator({.limit = 0, .poison = true});
  for (int round = 0; round < 2; ++round) {  // a recycled block is poisoned again
    const auto block = allocator.allocate(sizeof(float) * 100, Lifetime::step);
    float values[100];
    std::memcpy(values, block.data, sizeof(values));
    for (float v : values) ASSERT_TRUE(std::isnan(v));
    std::memset(block.data, 0, sizeof(values));
    allocator.release(block);
  }
}

#ifdef __SANITIZE_ADDRESS__
TEST(Allocator, HidesWhatNobodyWasGiven) {
  Allocator allocator({});
  for (const std::size_t bytes : {std::size_t{1000}, std::size_t{5} << 20}) {
    const auto block = allocator.allocate(bytes, Lifetime::step);
    const auto* data = static_cast<const std::byte*>(block.data);
    EXPECT_FALSE(__asan_address_is_poisoned(data + bytes - 1));
    EXPECT_TRUE(__asan_address_is_poisoned(data + bytes));
    allocator.release(block);
    EXPECT_TRUE(__asan_address_is_poisoned(data));
  }
}
#endif

}  // namespace
}  // namespace fovea
