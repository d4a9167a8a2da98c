// Steps of the Long Range Arena's models on a card: 2 layers of width 64, 2 heads, 32 sequences, random data; forward,
// backward and update, or forward alone, with all the host does for them. gpu_steps_bench [seconds for each row
// [attention n]]

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "core/rng.h"
#include "data/collate.h"
#include "ops/numbers.h"
#include "train/stepper.h"

namespace fovea::bench {
namespace {

using Clock = std::chrono::steady_clock;
using When = RecordedSteps::When;

constexpr std::int64_t kBatch = 32, kVocabulary = 256, kClasses = 10;

struct Row {
  const char* attention;
  std::int64_t n;
  DType dtype;
  double dropout;
};

Batch random_batch(const Context& host, std::int64_t n, std::uint64_t seed) {
  Random random(seed, 3);
  std::vector<std::vector<std::int32_t>> rows(kBatch, std::vector<std::int32_t>(static_cast<std::size_t>(n)));
  for (auto& row : rows)
    for (auto& token : row) token = static_cast<std::int32_t>(random.below(kVocabulary));
  Batch batch;
  batch.input = packed_rows<std::int32_t>(host, {rows.begin(), rows.end()});
  batch.targets = Tensor::empty(host, {kBatch}, DType::i32);
  for (std::int64_t i = 0; i < kBatch; ++i)
    batch.targets.data<std::int32_t>()[i] = static_cast<std::int32_t>(random.below(kClasses));
  batch.examples.resize(kBatch);
  return batch;
}

ModelConfig config_of(const Row& row) {
  ModelConfig config = ModelConfig::preset("transformer");
  config.set_attention(row.attention);
  config.width = 64;
  config.heads = 2;
  config.inner = 128;
  config.layers.resize(2, config.layers.back());
  config.vocabulary = kVocabulary;
  config.classes = kClasses;
  config.max_length = row.n;
  config.dtype = row.dtype;
  config.dropout = config.inner_dropout = row.dropout;
  config.attention_dropout = 0.0;
  return config;
}

// Steps a second, the first few not counted.
template <class Step>
double rate(double seconds, const Step& step) {
  constexpr std::size_t kWarm = 5;
  for (std::size_t i = 0; i < kWarm; ++i) step(i);
  const auto start = Clock::now();
  std::size_t count = 0;
  double taken = 0.0;
  while (taken < seconds) {
    step(count++);
    taken = std::chrono::duration<double>(Clock::now() - start).count();
  }
  return static_cast<double>(count) / taken;
}

void measure(const Row& row, When when, double seconds) {
  Context context({.threads = 4, .seed = 1, .device = Device::cuda});
  const Context host({.threads = 4, .seed = 1});
  Model model(context, config_of(row));
  TrainConfig train;
  std::vector<Batch> batches;
  for (std::uint64_t seed = 1; seed <= 4; ++seed) batches.push_back(random_batch(host, row.n, seed));
  Stepper stepper(context, model, train, when);
  std::int64_t step = 0;
  const double trained = rate(seconds, [&](std::size_t i) {
    StepReport report;
    report.step = ++step;
    stepper.step(std::span(&batches[i % 4], 1), 1e-4, report);
  });
  RecordedSteps infer(
      context,
      [&](Context& c, std::span<const Batch> parts) {
        Tape tape(c, {.record = false});
        const Loss loss = model.loss(tape, parts.front());
        return collect_numbers(c, {loss.value.value(), loss.correct});
      },
      when);
  const double inferred = rate(seconds, [&](std::size_t i) { infer.run(std::span(&batches[i % 4], 1), 0); });
  std::printf("%-15s n %5lld  %-4s dropout %.1f  graphs %-3s  train %8.1f  infer %8.1f steps/s  %s\n", row.attention,
              static_cast<long long>(row.n), std::string(name_of(row.dtype)).c_str(), row.dropout,
              when == When::never ? "off" : "on", trained, inferred, stepper.recorded().news().c_str());
  std::fflush(stdout);
}

}  // namespace
}  // namespace fovea::bench

int main(int argc, char** argv) {
  using namespace fovea;
  const double seconds = argc > 1 ? std::atof(argv[1]) : 2.0;
  try {
    if (argc > 3) {  // one model without graphs: for profilers
      bench::measure({argv[2], std::atoll(argv[3]), DType::bf16, 0.0}, RecordedSteps::When::never, seconds);
      return 0;
    }
    for (const std::int64_t n : {4096, 1024})
      for (const char* attention : {"transnormer-t2", "softmax"})
        for (const RecordedSteps::When when : {RecordedSteps::When::never, RecordedSteps::When::where_it_pays})
          bench::measure({attention, n, DType::bf16, 0.0}, when, seconds);
    bench::measure({"transnormer-t2", 4096, DType::bf16, 0.1}, RecordedSteps::When::where_it_pays, seconds);
    bench::measure({"transnormer-t2", 4096, DType::f32, 0.0}, RecordedSteps::When::where_it_pays, seconds);
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
