#pragma once

#include <vector>

#include "inspect/sink.h"
#include "mechanisms/watch.h"

namespace fovea::inspection {

// What the scan engine was given for one sequence, kept.
struct KeptScan {
  MapShape shape;
  Tensor q, k;  // (1, n_q, heads, d), (1, n_k, kv_heads, d): features
  bool causal = false;
  std::vector<double> log_decay;  // of a step, for each kv head; empty: none
  scan::Denominator denominator = scan::Denominator::none;
  double eps = 0.0;
  Tensor v, output;
};

// w_ij = f(q_i) . f(k_j) decay^(i - j), over the denominator; `factor` on all of them.
class ScanSource final : public MapSource {
 public:
  ScanSource(KeptScan kept, double factor) : kept_(std::move(kept)), factor_(factor) {}
  void rows(const Context& context, const tile::WantedRows& wanted, MapSink& sink) const override;
  std::optional<ScoredRows> scored() const override;

 private:
  tile::Work work() const;  // whose scores are the products of the features

  KeptScan kept_;
  double factor_;
};

}  // namespace fovea::inspection
