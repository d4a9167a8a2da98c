#pragma once

#include <map>
#include <string>
#include <vector>

#include "fovea/model.h"
#include "mechanisms/watch.h"

namespace fovea {

// Keeps the scores of softmax layers below a limit (QK-Clip): where a head had a larger one in a step, what makes its
// queries and its keys is afterwards multiplied by sqrt(limit / score) each; where heads share their keys, its queries
// alone by limit / score.
class LogitClip {
 public:
  LogitClip(Context& context, const Model& model, double limit);

  // While it lives, the calls of its thread are looked at; who was told of them before is told of them still.
  class Watch final : public AttentionWatch {
   public:
    explicit Watch(LogitClip& clip) : clip_(clip) {}
    bool lets_run(const Call& call) override;
    std::int64_t top_keys() const override;
    Var on_attention(const Call& call, const Var& output) override;
    void on_tiled(const TiledSeen& seen) override;
    void on_scan(const ScanSeen& seen) override;

   private:
    LogitClip& clip_;
  };

  std::int64_t clip();  // after the step; gives the number of heads that were clipped

 private:
  struct Layer {
    std::int64_t heads = 0, kv_heads = 0, d_k = 0;
    std::vector<double> largest;  // scores of this step, by head
  };

  void scale(const std::string& projection, std::int64_t begin, std::int64_t end, double factor) const;
  void scale_head(const std::string& layer, const Layer& of, std::int64_t head, double factor) const;

  double limit_;
  std::map<std::string, Tensor> parameters_;
  std::map<std::string, Layer> layers_;  // by the prefix of their parameters
  std::vector<double> seen_;             // of the call that is made, by head
};

}  // namespace fovea
