#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "gemm/gemm.h"
#include "support/tensors.h"

namespace fovea::testing {
namespace {

std::atomic<int> g_handled{0};

// As deep as the frames of handlers that do something.
void handle(int) {
  volatile char deep[4096];
  for (std::size_t i = 0; i < sizeof deep; i += 64) deep[i] = static_cast<char>(0xa5);
  g_handled.fetch_add(1, std::memory_order_relaxed);
}

// Sends signals to the thread that made it and to the process, as fast as they are taken, while it lives.
class Signals {
 public:
  Signals() {
    struct sigaction action {};
    action.sa_handler = handle;
    action.sa_flags = SA_RESTART;
    sigaction(SIGUSR1, &action, &before_);
    sender_ = std::thread([this, target = pthread_self()] {
      while (!stop_) {
        pthread_kill(target, SIGUSR1);
        kill(getpid(), SIGUSR1);
        std::this_thread::yield();
      }
    });
  }
  ~Signals() {
    stop_ = true;
    sender_.join();
    sigaction(SIGUSR1, &before_, nullptr);
  }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

 private:
  struct sigaction before_ {};
  std::atomic<bool> stop_{false};
  std::thread sender_;
};

// The products of a training step: through matmul and through sgemm, which keep numbers where handlers put their frame.
TEST(Gemm, HandlersOfSignalsDoNotDisturbProducts) {
  Context context({.threads = 2});
  const Tensor x = random(context, {2048, 64}, 1, DType::f32), w = random(context, {64, 64}, 2, DType::f32),
               y = random(context, {2048, 64}, 3, DType::f32);
  const auto products = [&] {
    return std::pair(gemm::multiply(context, x, w).to_vector<float>(),
                     gemm::multiply(context, x.transpose(0, 1), y).to_vector<float>());
  };
  const auto expected = products();
  g_handled = 0;
  const Signals signals;
  for (int round = 0; round < 300; ++round) ASSERT_EQ(products(), expected) << round;
  EXPECT_GT(g_handled, 0);
}

}  // namespace
}  // namespace fovea::testing
