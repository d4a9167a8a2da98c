// The memory of a card as the host sees it: copies, recordings, and what is said when there is no more of it or when
// the card is lost.

#include <gtest/gtest.h>

#include <numeric>

#include "core/cuda/card_memory.h"
#include "core/cuda/memory.h"
#include "core/recording.h"
#include "core/visit_device.h"
#include "fovea/tensor.h"
#include "gpu/host/made_up_cards.h"
#include "support/expect_error.h"

namespace fovea::testing {
namespace {

class CardMemoryTest : public ::testing::Test {
 protected:
  CardMemoryTest() { machine_.reset(); }
  ~CardMemoryTest() override { machine_.reset(); }

  static Tensor numbers(const Context& context, std::int64_t count) {
    std::vector<float> values(static_cast<std::size_t>(count));
    std::iota(values.begin(), values.end(), 0.0f);
    const Context host({.threads = 1});
    Tensor here = Tensor::empty(host, {count});
    std::copy(values.begin(), values.end(), here.data<float>());
    return here.clone(context);
  }

  Machine& machine_ = Machine::instance();
};

// Three parts of pinned memory and a bit.
TEST_F(CardMemoryTest, TakesAndGivesBackWhatPassesThroughPinnedMemory) {
  const Context card({.device = Device::cuda});
  const auto count = static_cast<std::int64_t>(3 * device::Staging::kPart / sizeof(float) + 5);
  const std::vector<float> back = numbers(card, count).to_vector<float>();
  ASSERT_EQ(std::ssize(back), count);
  for (std::int64_t i = 0; i < count; ++i) ASSERT_EQ(back[static_cast<std::size_t>(i)], static_cast<float>(i));
}

TEST_F(CardMemoryTest, SaysWhatWasAskedForAndWhatIsFree) {
  const Context card({.device = Device::cuda});
  const Tensor held = Tensor::empty(card, {300 << 20}, DType::u8);
  machine_.free = std::size_t{100} << 20;
  EXPECT_ERROR(Tensor::empty(card, {200 << 20}, DType::u8), ErrorCode::out_of_memory,
               "320 MB in use, 224 MB more asked for, 100 MB free", "cuda", "a smaller batch");
  EXPECT_EQ(held.numel(), 300 << 20) << "what there was stays";
  EXPECT_ERROR(device::DeviceBuffer(std::size_t{200} << 20), ErrorCode::out_of_memory,
               "out of memory: 200 MB asked for, 100 MB of 131072 MB free", "plans on the card", "a smaller batch");
  EXPECT_ERROR(device::DeviceScratch({}, std::size_t{200} << 20), ErrorCode::out_of_memory, "200 MB asked for",
               "scratch", "--device cpu");
  EXPECT_EQ(Tensor::empty(card, {50 << 20}, DType::u8).numel(), 50 << 20) << "an error is not told twice";
}

// Blocks that wait for reuse are given back first.
TEST_F(CardMemoryTest, GivesBackWhatIsKeptBeforeItRefuses) {
  const Context card({.device = Device::cuda});
  machine_.free = std::size_t{300} << 20;
  { const Tensor kept = Tensor::empty(card, {200 << 20}, DType::u8); }
  EXPECT_EQ(Tensor::empty(card, {220 << 20}, DType::u8).numel(), 220 << 20);
}

TEST_F(CardMemoryTest, ALostCardIsSaidToBeLost) {
  const Context card({.device = Device::cuda});
  const Tensor there = numbers(card, 8);
  machine_.lost = cudaErrorIllegalAddress;
  EXPECT_ERROR(there.to_vector<float>(), ErrorCode::internal,
               "the card stopped: an illegal memory access was encountered (cudaErrorIllegalAddress)", "card",
               "start again from what was saved; compute-sanitizer");
  for (const cudaError_t status : {cudaErrorECCUncorrectable, cudaErrorNvlinkUncorrectable, cudaErrorUnknown}) {
    machine_.lost = status;
    EXPECT_TRUE(device::is_lost(status));
    EXPECT_ERROR(there.to_vector<float>(), ErrorCode::internal, "the card was lost: ", "card", "--device cpu");
  }
  EXPECT_FALSE(device::is_lost(cudaErrorInvalidValue));
  EXPECT_FALSE(device::is_lost(cudaErrorMemoryAllocation));
}

TEST_F(CardMemoryTest, TensorsOfTheHostAreRefusedBesideThoseOfTheCard) {
  const Context card({.device = Device::cuda}), host({.threads = 1});
  const std::vector<Tensor> both{Tensor::empty(card, {4}), Tensor::empty(host, {4})};
  EXPECT_ERROR(check_device(Device::cuda, both), ErrorCode::usage, "an operation on cuda was given a tensor on cpu",
               "device", "copy it first");
  EXPECT_ERROR(check_device(Device::cpu, both), ErrorCode::usage, "an operation on cpu was given a tensor on cuda",
               "device", "copy it first");
}

TEST_F(CardMemoryTest, ARecordingThatIsGivenUpLeavesNothingOpen) {
  const Context card({.device = Device::cuda});
  const Tensor there = numbers(card, 8);
  EXPECT_ERROR(Recording::make(*card.memory(), [&] { static_cast<void>(there.to_vector<float>()); }),
               ErrorCode::unsupported, "the host waits for a number", "", "");
  EXPECT_FALSE(machine_.captures);
  EXPECT_ERROR(Recording::make(*card.memory(), [&] { fail(ErrorCode::interrupted, "stopped before the end"); }),
               ErrorCode::interrupted, "stopped", "", "");
  EXPECT_FALSE(machine_.captures);
  EXPECT_EQ(there.to_vector<float>()[7], 7.0f);
}

TEST_F(CardMemoryTest, ListsOfTheHostAreKeptForEachPlayOfARecording) {
  const Context card({.device = Device::cuda});
  const Tensor to = numbers(card, 4);
  const auto recording = Recording::make(*card.memory(), [&] {
    const float list[4] = {9, 8, 7, 6};
    card.memory()->write(to.raw(), list, sizeof(list));
  });
  EXPECT_TRUE(recording->play(0));
  EXPECT_EQ(to.to_vector<float>(), (std::vector<float>{9, 8, 7, 6}));
}

}  // namespace
}  // namespace fovea::testing
