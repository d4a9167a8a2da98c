#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "core/rng.h"
#include "fovea/inspect.h"
#include "inspect/statistics.h"
#include "measure/memory.h"
#include "measure/rounds.h"
#include "mechanisms/watch.h"

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

// Has forward make the statistics of rows on its way, where the mechanism is one whose forward can.
struct RowWatch final : AttentionWatch {
  std::int64_t top_keys() const override { return 8; }
};

// The same, and then what keys receive and distances have, of the call as it is.
struct MassWatch final : AttentionWatch {
  explicit MassWatch(const Context& context) : context_(context) {}

  std::int64_t top_keys() const override { return 8; }
  void on_tiled(const TiledSeen& seen) override {
    const TiledRun& run = seen.runs.front();
    if (!run.statistics.entropy.defined()) return;
    inspection::MapStatistics statistics(
        {.shape = {seen.output.dim(2), seen.output.dim(1), seen.v.dim(1)}, .options = {.cells = 0, .curve_points = 1}});
    statistics.take({run.statistics, seen.lse});
    tile::visit_weight_tiles(context_, run.work, run.in, seen.lse, statistics.wanted(), statistics);
    statistics.finish(context_, true);
  }

 private:
  const Context& context_;
};

struct Cost {
  std::string name;
  std::function<void()> run;
  std::vector<double> ratios = {}, seconds = {};
  double megabytes = 0.0;
};

std::vector<Cost> costs_of(Context& context, const Tensor (&qkv)[3], const Mechanism& mechanism) {
  const auto& [q, k, v] = qkv;
  const auto attend = [&, mechanism] {
    Tape tape(context, {.record = false});
    attention(tape, q, k, v, mechanism, {});
  };
  const auto inspect = [&, mechanism](const InspectOptions& options) {
    return [&, mechanism, options] { inspect_attention(context, q, k, v, mechanism, {}, options); };
  };
  return {{"forward", attend},
          {"forward with statistics of rows",
           [attend] {
             const RowWatch watch;
             attend();
           }},
          {"forward with these, received mass and distances",
           [attend, &context] {
             const MassWatch watch(context);
             attend();
           }},
          {"inspect: rows, received mass, distances", inspect({.cells = 0, .curve_points = 1})},
          {"inspect: locality and pyramid as well", inspect({})}};
}

}  // namespace

int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "softmax";
  const std::int64_t n = argc > 2 ? std::atoll(argv[2]) : 8192, heads = argc > 3 ? std::atoll(argv[3]) : 4;
  const int rounds = argc > 4 ? std::atoi(argv[4]) : 3;
  Context context;
  const auto draw = [&](std::uint64_t stream) { return random_tensor(context, {1, n, heads, 64}, stream); };
  const Tensor qkv[] = {draw(1), draw(2), draw(3)};
  std::vector<Cost> costs = costs_of(context, qkv, Mechanism::parse(name));
  if (rounds > 1) costs[0].run();  // pages and plans are there from now on
  for (int round = 0; round < rounds; ++round)
    for (Cost& cost : costs) {
      const PeakMemory peak(context);
      cost.seconds.push_back(seconds_of(cost.run));
      cost.megabytes = static_cast<double>(peak.extra_bytes()) / 1e6;
      cost.ratios.push_back(cost.seconds.back() / costs[0].seconds.back());
    }
  const auto best = [](const Cost& cost) { return *std::min_element(cost.seconds.begin(), cost.seconds.end()); };
  std::printf("%s, %lld tokens, %lld heads of 64, %d threads, medians of %d rounds; the best of them\n", name.c_str(),
              static_cast<long long>(n), static_cast<long long>(heads), context.threads(), rounds);
  for (const Cost& cost : costs)
    std::printf("  %-50s %8.3f s, %.2f times forward, %.0f MB; %.3f s, %.2f times\n", cost.name.c_str(),
                median(cost.seconds), median(cost.ratios), cost.megabytes, best(cost), best(cost) / best(costs[0]));
}
