// Results of the Python package on a card: they may outlive the streams of those who read them, and their memory is
// used again only when nobody can read it any more.

#include <gtest/gtest.h>

#include "core/cuda/card_memory.h"
#include "fovea/context.h"
#include "gpu/host/made_up_cards.h"
#include "place.h"
#include "support/expect_error.h"

namespace fovea::testing {
namespace {

using namespace python;  // NOLINT

// A stream of somebody else.
class OtherStream {
 public:
  OtherStream() { cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking); }
  ~OtherStream() { cudaStreamDestroy(stream_); }
  OtherStream(const OtherStream&) = delete;
  OtherStream& operator=(const OtherStream&) = delete;

  cudaStream_t handle() const { return stream_; }
  Stream number() const { return reinterpret_cast<Stream>(stream_); }

 private:
  cudaStream_t stream_ = nullptr;
};

class ResultsTest : public ::testing::Test {
 protected:
  ResultsTest() { machine_.reset(); }
  ~ResultsTest() override {
    EXPECT_EQ(machine_.on_gone_streams, std::vector<std::string>());
    machine_.reset();
  }

  Machine& machine_ = Machine::instance();
};

TEST_F(ResultsTest, AskNothingOfAStreamThatIsGone) {
  const Context card({.device = Device::cuda});
  Tensor result = Tensor::empty(card, {1000});
  const void* const place = result.raw();
  Stream reader = 0;
  {
    const OtherStream stream;
    reader = stream.number();
    Streams<Device::cuda>::precede(*card.memory(), reader);
  }
  give_back(result, reader);
  give_back(std::move(result), reader);  // once for each array that shares it
  EXPECT_NE(Tensor::empty(card, {1000}).raw(), place) << "it may still be read";
  EXPECT_EQ(machine_.waits, 0);
  Turn(card.memory(), {Device::cuda, 0, 0}).end();
  EXPECT_EQ(machine_.waits, 1);
  const Tensor first = Tensor::empty(card, {1000}), second = Tensor::empty(card, {1000});
  EXPECT_TRUE(first.raw() == place || second.raw() == place) << "nobody can read it";
  Turn(card.memory(), {Device::cuda, 0, 0}).end();
  EXPECT_EQ(machine_.waits, 1) << "once for each result";
}

TEST_F(ResultsTest, ReadOnTheStreamOfTheirMemoryAreUsedAgainAtOnce) {
  const OtherStream stream;
  const Context card({.pages = Streams<Device::cuda>::memory_of({Device::cuda, 0, stream.number()})});
  Tensor result = Tensor::empty(card, {1000});
  const void* const place = result.raw();
  give_back(std::move(result), stream.number());
  EXPECT_EQ(Tensor::empty(card, {1000}).raw(), place);
  take_back(*card.memory());
  EXPECT_EQ(machine_.waits, 0);
}

// As empty_cache() does, and an allocator that is out of memory.
TEST_F(ResultsTest, GoBackToTheDriverWithoutTheStreamTheyWereComputedOn) {
  std::shared_ptr<Context> card;
  Tensor result;
  {
    const OtherStream stream;
    card = std::make_shared<Context>(
        ContextOptions{.pages = Streams<Device::cuda>::memory_of({Device::cuda, 0, stream.number()})});
    result = Tensor::zeros(*card, {1 << 20});
  }
  const std::size_t before = machine_.free;
  result = {};
  card->allocator()->trim();
  EXPECT_EQ(machine_.free, before + (std::size_t{4} << 20));
  EXPECT_GE(machine_.waits, 1) << "what was on the stream may still run";
}

TEST_F(ResultsTest, AreKeptWhereTheCardCannotBeWaitedFor) {
  const Context card({.device = Device::cuda});
  Tensor result = Tensor::empty(card, {1000});
  const void* const place = result.raw();
  give_back(std::move(result), OtherStream().number());
  machine_.lost = cudaErrorIllegalAddress;
  EXPECT_ERROR(take_back(*card.memory()), ErrorCode::internal, "the card stopped", "card", "start again");
  machine_.lost = cudaSuccess;
  EXPECT_NE(Tensor::empty(card, {1000}).raw(), place);
  take_back(*card.memory());
  EXPECT_EQ(Tensor::empty(card, {1000}).raw(), place);
}

}  // namespace
}  // namespace fovea::testing
