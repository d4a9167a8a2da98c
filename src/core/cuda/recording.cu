#include "core/recording.h"

#include "core/cuda/card_memory.h"
#include "core/cuda/memory.h"

namespace fovea {
namespace {

using namespace device;  // NOLINT

// A stream's work as a CUDA graph.
class Graph final : public Recording {
 public:
  explicit Graph(CardMemory& memory) : memory_(memory), shift_word_(sizeof(std::uint64_t)) {
    shift_ = reinterpret_cast<const std::uint64_t*>(shift_word_.data());
  }
  ~Graph() override {
    if (ready_ != nullptr) cudaGraphExecDestroy(ready_);  // waits for none: it lives until it has run
  }

 private:
  // Relaxed: the body may ask for memory and make plans, none of which goes through the stream.
  void record(const std::function<void()>& body) override {
    check_cuda(cudaSetDevice(memory_.index()), "a card");  // enter() would wait for the one being made: this one
    check_cuda(cudaStreamBeginCapture(memory_.stream(), cudaStreamCaptureModeRelaxed), "recording a step");
    try {
      const Making making(*this);
      body();
    } catch (...) {
      drop(end());
      throw;
    }
    cudaGraph_t noted = end();
    if (noted == nullptr) fail(ErrorCode::unsupported, "something in it cannot be part of a CUDA graph");
    const cudaError_t status = cudaGraphInstantiate(&ready_, noted, 0);
    drop(noted);
    check_cuda(status, "recording a step");
  }

  // Null where the capture is not valid any more.
  cudaGraph_t end() {
    cudaGraph_t noted = nullptr;
    if (cudaStreamEndCapture(memory_.stream(), &noted) == cudaSuccess) return noted;
    cudaGetLastError();
    return nullptr;
  }
  static void drop(cudaGraph_t graph) {
    if (graph != nullptr) cudaGraphDestroy(graph);
  }

  void launch(std::uint64_t shift) override {
    memory_.enter();
    if (shift != told_) memory_.write(shift_word_.data(), &shift, sizeof(shift));
    told_ = shift;
    const auto outside = Recording::outside();
    check_cuda(cudaGraphLaunch(ready_, memory_.stream()), "a recorded step");
  }

  CardMemory& memory_;
  DeviceBuffer shift_word_;
  std::uint64_t told_ = ~std::uint64_t{0};
  cudaGraphExec_t ready_ = nullptr;
};

}  // namespace

template <>
std::unique_ptr<Recording> kernels::new_recording<Device::cuda>(Memory& memory, std::function<void()>) {
  return std::make_unique<Graph>(card_memory(memory));
}

}  // namespace fovea
