#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>

#include "fovea/inspect.h"
#include "inspect/layer.h"
#include "inspect/rollout.h"
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

[[noreturn]] void refuse_layer(std::int64_t layer, std::int64_t count) {
  fail(ErrorCode::usage, fmt::format("layer {} of a model with {} attention layers", layer, count), "layers",
       "layers are counted from 0, in the order they run");
}

}  // namespace

InspectRecord inspect(Context& context, const Model& model, const Batch& batch, const InspectOptions& options) {
  Context host = inspection::host_context(context);
  InspectRecord record;
  record.model = std::string(task_names()[static_cast<std::size_t>(model.config().task)]);
  inspection::Rollout rollout(options);
  const auto wanted = [&](std::int64_t layer) {
    return options.layers.empty() ||
           std::find(options.layers.begin(), options.layers.end(), layer) != options.layers.end();
  };
  const std::int64_t count = run(context, model, batch, [&](const SeenLayer& seen) {
    if (!wanted(seen.index) && !options.rollout) return;
    const SequenceCall call = inspection::sequence_of(host, seen.call, options.sequence);
    if (options.rollout && !seen.cross) rollout.add(host, call);
    if (!wanted(seen.index)) return;
    LayerRecord layer = inspection::measure(host, call, options);
    layer.index = seen.index;
    layer.place = seen.place;
    layer.cross = seen.cross;
    if (options.rollout && !seen.cross) layer.rollout = rollout.so_far();
    record.layers.push_back(std::move(layer));
  });
  for (const std::int64_t layer : options.layers)
    if (layer < 0 || layer >= count) refuse_layer(layer, count);
  return record;
}

std::vector<MapRectangle> map_rectangles(Context& context, const Model& model, const Batch& batch,
                                         std::span<const MapRequest> requests, std::int64_t sequence) {
  Context host = inspection::host_context(context);
  std::vector<MapRectangle> out(requests.size());
  const std::int64_t count = run(context, model, batch, [&](const SeenLayer& seen) {
    std::optional<SequenceCall> call;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      if (requests[i].layer != seen.index) continue;
      if (!call) call = inspection::sequence_of(host, seen.call, sequence);
      out[i] = inspection::rectangle(host, *call, requests[i]);
    }
  });
  for (const MapRequest& request : requests)
    if (request.layer < 0 || request.layer >= count) refuse_layer(request.layer, count);
  return out;
}

}  // namespace fovea
