#include "inspect/source.h"

#include <algorithm>
#include <cmath>

#include "inspect/gradient_source.h"
#include "inspect/scan_source.h"
#include "inspect/tiled_source.h"
#include "mechanisms/feature_map.h"
#include "tensor/views.h"

namespace fovea::inspection {
namespace {

// What the engines are given.
class Engines final : public AttentionWatch {
 public:
  Engines(Context& host, std::int64_t top) : host_(host), top_(top) {}

  std::int64_t top_keys() const override { return top_; }

  void on_tiled(const TiledSeen& seen) override {
    ++calls;
    KeptTiled kept;
    for (const TiledRun& run : seen.runs) kept.runs.push_back({run.work, run.in, run.first_head});
    if (seen.lse.defined() && seen.runs.size() > 1) kept.lse = seen.lse.to_vector<float>();
    const auto in_step = [](const tile::Piece& piece) { return piece.q_step == piece.k_step; };
    if (seen.runs.size() == 1 && seen.runs[0].statistics.entropy.defined() &&
        std::ranges::all_of(seen.runs[0].work.pieces.all(), in_step))
      kept.facts = RowFacts{seen.runs[0].statistics, seen.lse};
    kept.heads = seen.output.dim(2);
    kept.v = seen.v.value();
    kept.output = seen.output.value();
    tiled = std::move(kept);
  }

  void on_scan(const ScanSeen& seen) override {
    ++calls;
    fades = seen.problem.decay == scan::Decay::step || seen.problem.decay == scan::Decay::channel;
    const auto features = [&](const Tensor& x) {
      Tape tape(host_, {.record = false});
      return activate(tape, x, activation_of(seen.problem.map)).value();
    };
    KeptScan kept{.shape = {seen.problem.heads, seen.q.dim(1), seen.k.dim(1)},
                  .q = features(seen.q),
                  .k = features(seen.k),
                  .causal = seen.problem.causal,
                  .log_decay = {},
                  .denominator = seen.problem.denominator,
                  .eps = seen.problem.denominator_eps,
                  .v = seen.v.value(),
                  .output = seen.output.value()};
    if (seen.problem.decay == scan::Decay::head)
      kept.log_decay.assign(seen.problem.log_decay, seen.problem.log_decay + seen.problem.kv_heads);
    scan = std::move(kept);
  }

  int calls = 0;
  bool fades = false;  // by steps or channels: no constant of the head
  std::optional<KeptTiled> tiled;
  std::optional<KeptScan> scan;

 private:
  Context& host_;
  std::int64_t top_;
};

// What a mechanism does to the sums of an engine before they are its output, and to no value alone.
struct Afterwards {
  bool norm = false;      // of rows, over heads or channels: the map is that before it
  bool quotient = false;  // by the sum of the row's weights, collected in a column of ones
  bool repeats = false;   // heads of k and v, before the engine
  double factor = 1.0;
};

Afterwards afterwards(const SequenceCall& call) {
  const std::string_view name = call.mechanism.name();
  const double scale = call.options.scale.value_or(1.0 / std::sqrt(static_cast<double>(call.q.dim(3))));
  Afterwards out;
  if (name == "retnet" || name == "gla") out = {.norm = true, .factor = scale};
  out.repeats = name == "retnet" || name == "lightning";
  if (name == "norm" || name == "lightning" || name == "rela" || name == "relu2" || name == "diag") out.norm = true;
  if (name == "taylor") out.quotient = true;
  return out;
}

// Whether the filling of the last block stands beside the engine's own keys.
bool fills_blocks(const SequenceCall& call) {
  return call.mechanism.name() == "diag" && call.mechanism.choice("tail") == "zeros" && !call.options.causal &&
         call.mechanism.choice("weights") != "rela" && call.k.dim(1) % call.mechanism.integer("block") != 0;
}

}  // namespace

std::unique_ptr<MapSource> source_of(Context& host, const SequenceCall& given, std::int64_t top) {
  if (map_note(given.mechanism).kind == MapKind::none) return nullptr;
  if (given.mechanism.kind().style.values_only) return std::make_unique<ToeplitzSource>(given);
  if (ChannelMeanSource::is_for(given.mechanism)) return std::make_unique<ChannelMeanSource>(given);
  SequenceCall call = given;  // one channel of the values tells as much as all of them, at half the cost
  if (call.v.dim(3) > 1 && takes_width(call.mechanism, call.q, call.v, 1)) call.v = call.v.slice(3, 0, 1);
  Engines seen(host, top);
  Tape tape(host, {.record = false});
  const Tensor output = attention(tape, call.q, call.k, call.v, call.mechanism, call.options).output.value();
  const Afterwards after = afterwards(call);
  const bool single = seen.calls == 1 && !fills_blocks(call) && !call.options.initial_state.defined();
  const auto is_all = [&](const Tensor& v, const Tensor& engine) {
    return (after.repeats || same_place(v, call.v)) && (after.norm || same_place(engine, output));
  };
  if (single && seen.tiled && (after.quotient || is_all(seen.tiled->v, seen.tiled->output)))
    return std::make_unique<TiledSource>(std::move(*seen.tiled), after.quotient);
  if (single && seen.scan && !seen.fades && is_all(seen.scan->v, seen.scan->output))
    return std::make_unique<ScanSource>(std::move(*seen.scan), after.factor);
  return std::make_unique<GradientSource>(given, single && after.norm, after.factor);
}

}  // namespace fovea::inspection
