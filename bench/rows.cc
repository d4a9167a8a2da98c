#include "bench/rows.h"

#include <fmt/format.h>

#include <algorithm>

namespace fovea::bench {
namespace {

bool machine_has(Isa isa) {
  const std::vector<Isa> all = available_isas();
  return std::find(all.begin(), all.end(), isa) != all.end();
}

// Every combination of direction and pass, each with its bar.
struct Bars {
  double full, causal;
};

void add_both(std::vector<RateRow>& rows, RateRow row, Bars bars) {
  const std::string work = row.work;
  row.work = work + ", full";
  row.bar = bars.full;
  rows.push_back(row);
  row.work = work + ", causal";
  row.bar = bars.causal;
  row.problem.causal = true;
  rows.push_back(row);
}

AttentionProblem softmax(std::int64_t dim, std::int64_t heads = 8, DType dtype = DType::f32) {
  AttentionProblem problem;
  problem.n = 4096;
  problem.dim = dim;
  problem.heads = heads;
  problem.dtype = dtype;
  return problem;
}

void add_softmax(std::vector<RateRow>& rows) {
  const std::string forward = "softmax forward, n 4096", backward = "softmax backward, n 4096";
  add_both(rows, {forward, forward + ", d 64", Pass::forward, 0, softmax(64), {}}, {0.85, 0.80});
  add_both(rows, {forward, forward + ", d 128", Pass::forward, 0, softmax(128), {}}, {0.85, 0.80});
  add_both(rows, {forward, forward + ", d 32", Pass::forward, 0, softmax(32), {}}, {0.70, 0.70});
  if (machine_has(Isa::avx512))
    add_both(rows, {forward, forward + ", d 64, AVX2", Pass::forward, 0, softmax(64), Isa::avx2}, {0.70, 0.70});
  add_both(rows, {backward, backward + ", d 64", Pass::backward, 0, softmax(64), {}}, {0.85, 0.80});
  add_both(rows, {backward, backward + ", d 64, 1 head", Pass::backward, 0, softmax(64, 1), {}}, {0.75, 0.75});
  if (!machine_has(Isa::avx512_bf16)) return;
  const AttentionProblem half = softmax(64, 8, DType::bf16);
  const std::string group = "softmax bf16, n 4096";
  rows.push_back({group, "softmax bf16 forward, n 4096, d 64, full", Pass::forward, 1.40, half, {}});
  rows.push_back({group, "softmax bf16 backward, n 4096, d 64, full", Pass::backward, 1.20, half, {}});
}

void add_sparse(std::vector<RateRow>& rows) {
  AttentionProblem diag;
  diag.mechanism = Mechanism::parse("diag:block=64");
  diag.n = 16384;
  rows.push_back({"sparse", "block-diagonal w 64, n 16384, forward + backward", Pass::both, 0.60, diag, {}});
  AttentionProblem window;
  window.n = 8192;
  window.window = Window{256, 0};
  rows.push_back({"sparse", "sliding window 256, n 8192, forward", Pass::forward, 0.60, window, {}});
  rows.push_back({"sparse", "sliding window 256, n 8192, backward", Pass::backward, 0.55, window, {}});
  for (const char* name : {"sparse-strided", "sparse-fixed", "bigbird", "longformer"}) {
    AttentionProblem problem;
    problem.mechanism = Mechanism(name);
    problem.n = 16384;
    problem.heads = 4;
    rows.push_back({"sparse", fmt::format("{}, n 16384, forward + backward", name), Pass::both, 0.45, problem, {}});
  }
}

void add_linear(std::vector<RateRow>& rows) {
  for (const bool causal : {false, true}) {
    const std::string group = causal ? "linear causal" : "linear bidirectional";
    for (const char* name : {"norm", "linear"}) {
      AttentionProblem problem;
      problem.mechanism = Mechanism(name);
      problem.n = 16384;
      problem.causal = causal;
      const std::string work = fmt::format("{} {}, n 16384, ", name, causal ? "causal" : "bidirectional");
      rows.push_back({group, work + "forward", Pass::forward, 0.60, problem, {}});
      rows.push_back({group, work + "backward", Pass::backward, causal ? 0.52 : 0.60, problem, {}});
    }
  }
}

}  // namespace

std::vector<RateRow> rate_rows() {
  std::vector<RateRow> rows;
  add_softmax(rows);
  add_sparse(rows);
  add_linear(rows);
  return rows;
}

// One or two of each engine; `fovea bench attention --all` measures every mechanism.
std::vector<GrowthRow> growth_rows() {
  std::vector<GrowthRow> rows;
  for (const char* name : {"diag", "linear", "norm"}) {
    const Mechanism mechanism(name);
    for (const bool causal : {false, true}) {
      if (!mechanism.supports(causal ? Feature::causal : Feature::bidirectional)) continue;
      for (const Pass pass : {Pass::forward, Pass::backward}) {
        GrowthRow row;
        row.work = fmt::format("{} {}, {}", name, causal ? "causal" : "bidirectional",
                               pass == Pass::forward ? "forward" : "backward");
        row.pass = pass;
        row.problem.mechanism = mechanism;
        row.problem.n = kShort;
        row.problem.causal = causal;
        rows.push_back(row);
      }
    }
  }
  return rows;
}

// Batches of the Long Range Arena, forward and backward: lengths from 500 to 2000, one layer of width 64.
std::vector<PackedRow> packed_rows() {
  constexpr std::int64_t kSequences = 32, kShortest = 500, kLongest = 2000;
  std::vector<PackedRow> rows;
  for (const char* name : {"performer", "nystrom", "linformer", "sinkhorn", "reformer"}) {
    PackedRow row;
    row.work = fmt::format("packed, {} sequences of {} to {}: {}", kSequences, kShortest, kLongest, name);
    row.packed.mechanism = Mechanism(name);
    row.packed.heads = 2;
    row.packed.dim = 32;
    row.packed.n = 0;
    row.even = row.packed;
    for (std::int64_t s = 0; s < kSequences; ++s) {  // 7 steps through the range, so that neighbours differ
      const std::int64_t place = s * 7 % kSequences,
                         length = kShortest + place * (kLongest - kShortest) / (kSequences - 1);
      row.packed.packed.push_back(static_cast<std::int32_t>(length));
      row.packed.n += length;
    }
    row.even.batch = kSequences;
    row.even.n = row.packed.n / kSequences;
    rows.push_back(row);
  }
  return rows;
}

AttentionProblem memory_problem() {
  AttentionProblem problem;
  problem.n = kLong;
  problem.heads = 1;
  return problem;
}

}  // namespace fovea::bench
