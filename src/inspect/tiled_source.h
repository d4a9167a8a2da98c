#pragma once

#include <optional>
#include <vector>

#include "inspect/sink.h"
#include "mechanisms/watch.h"

namespace fovea::inspection {

// What the tiled engine was given, kept.
struct KeptRun {
  tile::Work work;
  tile::Inputs in;
  std::int64_t first_head;
};
struct KeptTiled {
  std::vector<KeptRun> runs;
  std::vector<float> lse;  // (n_q, heads); empty: none
  std::optional<RowFacts> facts;
  std::int64_t heads = 0;
  Tensor v, output;
};

// The weights that the engine made. `quotient`: they are divided by the sum of their row afterwards.
class TiledSource final : public MapSource {
 public:
  TiledSource(KeptTiled kept, bool quotient) : kept_(std::move(kept)), quotient_(quotient) {}

  void rows(const Context& context, const tile::WantedRows& wanted, MapSink& sink) const override;
  bool has_scores() const override { return true; }
  const RowFacts* facts() const override { return kept_.facts && !quotient_ ? &*kept_.facts : nullptr; }
  void tiles(const Context& context, const tile::WantedRows& wanted, tile::TileVisitor& visitor) const override;
  std::optional<ScoredRows> scored() const override;

 private:
  KeptTiled kept_;
  bool quotient_;
};

}  // namespace fovea::inspection
