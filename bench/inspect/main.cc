#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "core/rng.h"
#include "fovea/inspect.h"
#include "measure/memory.h"
#include "measure/rounds.h"

// What statistics of a map cost beside the forward pass: fovea_bench_inspect [MECHANISM [TOKENS [HEADS [ROUNDS]]]].
namespace {

using namespace fovea;

Tensor random_tensor(const Context& context, const Shape& shape, std::uint64_t stream) {
  Random random(1, stream);
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  for (float& value : values) value = static_cast<float>(random.normal());
  return Tensor::from<float>(context, shape, values);
}

template <class F>
double seconds_of(const F& f) {
  const auto before = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - before).count();
}

struct Cost {
  std::string name;
  InspectOptions options;
  std::vector<double> ratios = {}, seconds = {};
  double megabytes = 0.0;
};

}  // namespace

int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "softmax";
  const std::int64_t n = argc > 2 ? std::atoll(argv[2]) : 8192, heads = argc > 3 ? std::atoll(argv[3]) : 4;
  const int rounds = argc > 4 ? std::atoi(argv[4]) : 3;
  Context context;
  const auto draw = [&](std::uint64_t stream) { return random_tensor(context, {1, n, heads, 64}, stream); };
  const Tensor q = draw(1), k = draw(2), v = draw(3);
  const Mechanism mechanism = Mechanism::parse(name);
  std::vector<Cost> costs{{"rows", {.cells = 0, .curve_points = 1}}, {"rows, keys, distances, locality, pyramid", {}}};
  std::vector<double> forward;
  for (int round = 0; round < rounds; ++round) {
    const auto attend = [&] {
      Tape tape(context, {.record = false});
      attention(tape, q, k, v, mechanism, {});
    };
    if (round == 0) attend();
    forward.push_back(seconds_of(attend));
    for (Cost& cost : costs) {
      const PeakMemory peak(context);
      const double taken = seconds_of([&] { inspect_attention(context, q, k, v, mechanism, {}, cost.options); });
      cost.megabytes = static_cast<double>(peak.extra_bytes()) / 1e6;
      cost.seconds.push_back(taken);
      cost.ratios.push_back(taken / forward.back());
    }
  }
  std::printf("%s, %lld tokens, %lld heads of 64, %d threads; forward %.3f s\n", name.c_str(),
              static_cast<long long>(n), static_cast<long long>(heads), context.threads(), median(forward));
  for (const Cost& cost : costs)
    std::printf("  %-42s %.3f s, %.2f times forward, %.0f MB\n", cost.name.c_str(), median(cost.seconds),
                median(cost.ratios), cost.megabytes);
}
