// What is said of machines without a card, with an old driver, or with cards that this build has no kernels for.

#include "core/cuda/cards.h"

#include <gtest/gtest.h>

#include "core/devices.h"
#include "fovea/context.h"
#include "gpu/host/made_up_cards.h"
#include "support/expect_error.h"

namespace fovea::testing {
namespace {

class CardsTest : public ::testing::Test {
 protected:
  CardsTest() { machine_.reset(); }
  ~CardsTest() override { machine_.reset(); }

  Machine& machine_ = Machine::instance();
};

TEST_F(CardsTest, WithoutADriverThereIsNone) {
  machine_.driver = 0;
  machine_.status = cudaErrorInsufficientDriver;
  const device::Cards cards = device::look_at_cards();
  EXPECT_TRUE(cards.list.empty());
  EXPECT_ERROR(device::card_at(cards, 0), ErrorCode::unsupported, "no CUDA: there is no driver", "device",
               "--device cpu");
}

TEST_F(CardsTest, AnOldDriverIsNamedWithWhatIsNeeded) {
  machine_.driver = 12040;
  machine_.status = cudaErrorInsufficientDriver;
  EXPECT_ERROR(device::card_at(device::look_at_cards(), 0), ErrorCode::unsupported,
               "no CUDA: the driver is for CUDA 12.4, this build for 13.0", "device", "--device cpu");
}

TEST_F(CardsTest, ADriverWithoutCardsSaysSo) {
  machine_.status = cudaErrorNoDevice;
  EXPECT_EQ(device::look_at_cards().trouble, "there is no card");
  machine_.status = cudaSuccess;
  machine_.cards.clear();
  EXPECT_EQ(device::look_at_cards().trouble, "there is no card");
}

TEST_F(CardsTest, ACardWithoutKernelsIsRefusedAndToldHowToBuildThem) {
  const device::Cards cards = device::look_at_cards();
  ASSERT_EQ(cards.list.size(), machine_.cards.size());
  EXPECT_EQ(cards.trouble, "") << "the others can be used";
  EXPECT_ERROR(device::card_at(cards, kTooOld), ErrorCode::unsupported,
               "this build has kernels for 90a, none for V100, compute capability 7.0", "device",
               "make cuda CUDA_ARCHS=70");
  EXPECT_EQ(device::card_at(cards, kHopper).name, "H200");

  machine_.cards = {machine_.cards[kTooOld]};
  EXPECT_EQ(device::look_at_cards().trouble, "this build has kernels for 90a, none for V100, compute capability 7.0");
}

TEST_F(CardsTest, AnIndexThatNamesNoneIsRefused) {
  const device::Cards cards = device::look_at_cards();
  for (const int index : {-1, 5, 70})
    EXPECT_ERROR(device::card_at(cards, index), ErrorCode::usage, "card " + std::to_string(index) + " of 5", "device",
                 "--device cuda:0 to cuda:4");
  EXPECT_ERROR(Context({.device = Device::cuda, .index = 5}), ErrorCode::usage, "card 5 of 5", "device", "cuda:4");
  machine_.cards.resize(1);
  EXPECT_ERROR(device::card_at(device::look_at_cards(), 1), ErrorCode::usage, "card 1 of 1", "device", "--device cuda");
}

TEST_F(CardsTest, EachIsListedWithWhatItHasAndWhyItCannotBeUsed) {
  machine_.free = std::size_t{3} << 30;
  const std::vector<DeviceState> all = devices();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[1].device, Device::cuda);
  EXPECT_EQ(all[1].versions, "kernels for 90a, runtime 13.0, driver for 13.0");
  EXPECT_EQ(all[1].list[kHopper].name, "H200, compute capability 9.0");
  EXPECT_EQ(all[1].list[kHopper].available, machine_.free);
  EXPECT_EQ(all[1].list[kHopper].trouble, "");
  EXPECT_NE(all[1].list[kTooOld].trouble, "");
}

}  // namespace
}  // namespace fovea::testing
