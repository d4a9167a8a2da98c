#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>

#include "fovea/inspect.h"
#include "inspect/layer.h"
#include "inspect/rollout.h"
#include "inspect/token_verdict.h"
#include "mechanisms/watch.h"

namespace fovea {
namespace {

using inspection::SequenceCall;

// Where a call was made, and what it was.
struct SeenLayer {
  std::int64_t index;
  std::string place;
  bool cross;
  const Call& call;
};

// Tells of the attention layers of a model, in the order they run.
class Layers final : public AttentionWatch {
 public:
  using Use = std::function<void(const SeenLayer&)>;
  explicit Layers(Use use) : use_(std::move(use)) {}

  Var on_attention(const Call& call, const Var& output) override {
    const std::string place = call.tape.path(call.tape.place());
    const bool cross = place.ends_with(".cross");  // what a decoder's layer calls it
    use_({count++, place, cross, call});
    return output;
  }

  std::int64_t count = 0;

 private:
  Use use_;
};

std::int64_t run(Context& context, const Model& model, const Batch& batch, const Layers::Use& use) {
  Layers layers(use);
  Tape tape(context, {.record = false});
  model.forward(tape, batch);
  return layers.count;
}

// Part of a decoder that reads what it has written so far.
bool reads_second(const SeenLayer& seen) { return !seen.cross && seen.place.starts_with("model.decoder"); }

LayerRecord rolled_out(Context& host, const inspection::Rollout& rollout, const InspectOptions& options) {
  LayerRecord record = inspection::measure_whole(host, rollout.so_far(), rollout.causal(), options);
  record.index = -1;
  record.place = "all layers";
  record.mechanism = "rollout";
  record.map.text =
      "attention rollout: heads averaged, what a token keeps of itself added, layer by layer from the first up";
  inspection::judge_tokens(options.notes, record);
  return record;
}

[[noreturn]] void refuse_layer(std::int64_t layer, std::int64_t count) {
  fail(ErrorCode::usage, fmt::format("layer {} of a model with {} attention layers", layer, count), "layers",
       "layers are counted from 0, in the order they run");
}

}  // namespace

InspectRecord inspect(Context& context, const Model& model, const Batch& batch, const InspectOptions& options) {
  Context host = inspection::host_context(context), near = inspection::near_context(context);
  InspectRecord record;
  record.model = std::string(task_names()[static_cast<std::size_t>(model.config().task)]);
  inspection::Rollout rollout(options);
  const auto wanted = [&](std::int64_t layer) {
    return options.layers.empty() ||
           std::find(options.layers.begin(), options.layers.end(), layer) != options.layers.end();
  };
  const std::int64_t count = run(context, model, batch, [&](const SeenLayer& seen) {
    const bool rolls = options.rollout && !seen.cross && !reads_second(seen);
    if (!wanted(seen.index) && !rolls) return;
    const SequenceCall call = inspection::sequence_of(near, seen.call, options.sequence, false);
    if (rolls) rollout.add(host, near.device() == Device::cpu ? call : inspection::on_host(host, call));
    if (!wanted(seen.index)) return;
    LayerRecord layer = inspection::measure(near, call, options);
    layer.index = seen.index;
    layer.place = seen.place;
    layer.cross = seen.cross;
    inspection::judge_tokens(reads_second(seen) ? options.second_notes : options.notes, layer);
    if (rolls) layer.rollout = rollout.so_far();
    record.layers.push_back(std::move(layer));
  });
  for (const std::int64_t layer : options.layers)
    if (layer < 0 || layer >= count) refuse_layer(layer, count);
  if (!rollout.so_far().empty()) record.rollout = rolled_out(host, rollout, options);
  return record;
}

std::vector<MapRectangle> map_rectangles(Context& context, const Model& model, const Batch& batch,
                                         std::span<const MapRequest> requests, std::int64_t sequence) {
  Context near = inspection::near_context(context);
  std::vector<MapRectangle> out(requests.size());
  const std::int64_t count = run(context, model, batch, [&](const SeenLayer& seen) {
    std::optional<SequenceCall> call;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      if (requests[i].layer != seen.index) continue;
      if (!call) call = inspection::sequence_of(near, seen.call, sequence, false);
      out[i] = inspection::rectangle(near, *call, requests[i]);
    }
  });
  for (const MapRequest& request : requests)
    if (request.layer < 0 || request.layer >= count) refuse_layer(request.layer, count);
  return out;
}

}  // namespace fovea
