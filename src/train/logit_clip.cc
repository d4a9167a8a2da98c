#include "train/logit_clip.h"

#include <algorithm>
#include <cmath>

#include "fovea/error.h"

namespace fovea {
namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

// "model.decoder.layers[1].cross" -> "decoder.layers.1.cross."
std::string prefix_of(const std::string& place) {
  std::string out;
  for (const char c : place.substr(place.find('.') + 1))
    if (c != ']') out += c == '[' ? '.' : c;
  return out + ".";
}

void multiply_columns(const Tensor& whole, std::int64_t begin, std::int64_t end, double factor) {
  const Tensor part = whole.slice(whole.rank() - 1, begin, end);
  std::vector<double> values = part.to_vector<double>();
  for (double& value : values) value *= factor;
  part.copy_from(Tensor::wrap(values.data(), part.shape(), DType::f64));
}

}  // namespace

LogitClip::LogitClip(Context& context, const Model& model, double limit) : limit_(limit) {
  if (context.device() != Device::cpu)
    fail(ErrorCode::unsupported, "scores are clipped on the CPU only", "train.clip_logits", "0, or --device cpu");
  for (const Parameter& parameter : model.parameters()) {
    if (parameter.name.find("lora") != std::string::npos)
      fail(ErrorCode::unsupported, "scores of a model with adapters cannot be clipped", "train.clip_logits", "0");
    parameters_[parameter.name] = parameter.var.value();
  }
}

bool LogitClip::Watch::lets_run(const Call& call) { return outer() == nullptr || outer()->lets_run(call); }

std::int64_t LogitClip::Watch::top_keys() const {
  return std::max<std::int64_t>(1, outer() == nullptr ? 0 : outer()->top_keys());
}

void LogitClip::Watch::on_scan(const ScanSeen& seen) {
  if (outer() != nullptr) outer()->on_scan(seen);
}

void LogitClip::Watch::on_tiled(const TiledSeen& seen) {
  for (const TiledRun& run : seen.runs) {
    const Tensor& scores = run.statistics.top_scores;  // (b, n, heads, top), the largest first
    if (!scores.defined()) continue;
    const std::int64_t heads = scores.dim(2);
    clip_.seen_.resize(std::max(clip_.seen_.size(), at(run.first_head + heads)), -INFINITY);
    const std::vector<double> first = scores.slice(3, 0, 1).to_vector<double>();
    for (std::size_t i = 0; i < first.size(); ++i) {
      double& most = clip_.seen_[at(run.first_head) + i % at(heads)];
      most = std::max(most, first[i]);
    }
  }
  if (outer() != nullptr) outer()->on_tiled(seen);
}

Var LogitClip::Watch::on_attention(const Call& call, const Var& output) {
  std::vector<double> seen = std::exchange(clip_.seen_, {});
  if (!seen.empty()) {
    Layer& layer = clip_.layers_[prefix_of(call.tape.path(call.tape.place()))];
    layer.heads = call.q.dim(2);
    layer.kv_heads = call.k.dim(2);
    layer.d_k = call.q.dim(3);
    layer.largest.resize(seen.size(), -INFINITY);
    for (std::size_t h = 0; h < seen.size(); ++h) layer.largest[h] = std::max(layer.largest[h], seen[h]);
  }
  return outer() == nullptr ? output : outer()->on_attention(call, output);
}

// Weights are (in, out); what else a projection has is by output, too.
void LogitClip::scale(const std::string& projection, std::int64_t begin, std::int64_t end, double factor) const {
  bool is_there = false;
  for (const char* name : {"weight", "bias", "length"})
    if (const auto found = parameters_.find(projection + "." + name); found != parameters_.end()) {
      multiply_columns(found->second, begin, end, factor);
      is_there = true;
    }
  if (!is_there)
    fail(ErrorCode::unsupported,
         "scores are clipped where plain projections make queries and keys: there is no " + projection,
         "train.clip_logits", "0");
}

void LogitClip::scale_head(const std::string& layer, const Layer& of, std::int64_t head, double factor) const {
  const auto has = [&](const char* name) { return parameters_.contains(layer + name + ".weight"); };
  const bool shared = of.kv_heads != of.heads;
  const std::int64_t q = head * of.d_k, before_keys = has("qkv") ? of.heads * of.d_k : 0;
  scale(layer + (has("qkv") ? "qkv" : "q"), q, q + of.d_k, shared ? factor : std::sqrt(factor));
  if (shared) return;
  const char* keys = has("qkv") ? "qkv" : has("kv") ? "kv" : "k";
  scale(layer + keys, before_keys + q, before_keys + q + of.d_k, std::sqrt(factor));
}

std::int64_t LogitClip::clip() {
  std::int64_t clipped = 0;
  for (auto& [prefix, layer] : layers_)
    for (std::size_t h = 0; h < layer.largest.size(); ++h) {
      const double largest = std::exchange(layer.largest[h], -INFINITY);
      if (!(largest > limit_) || !std::isfinite(largest)) continue;
      scale_head(prefix, layer, static_cast<std::int64_t>(h), limit_ / largest);
      ++clipped;
    }
  return clipped;
}

}  // namespace fovea
