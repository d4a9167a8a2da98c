#include <algorithm>
#include <cmath>
#include <functional>

#include "fovea/inspect.h"
#include "inspect/card_map.h"
#include "inspect/layer.h"
#include "inspect/source.h"
#include "inspect/statistics.h"
#include "inspect/token_verdict.h"
#include "mechanisms/watch.h"

namespace fovea {
namespace {

using inspection::MapRow;
using inspection::SequenceCall;

constexpr std::int64_t kUsualBlock = 64;

std::int64_t block_of(const SequenceCall& call, const InspectOptions& options) {
  if (options.block > 0) return options.block;
  for (const ParameterSpec& spec : call.mechanism.parameters())
    if (spec.name == "block" && std::holds_alternative<std::int64_t>(spec.fallback))
      return call.mechanism.integer("block");
  return kUsualBlock;
}

void check(const InspectOptions& options) {
  if (options.curve_points < 1) fail(ErrorCode::usage, "a curve needs at least one point", "curve_points");
  if (options.paper_curve && options.curve_points < 2)
    fail(ErrorCode::usage, "the curve of the paper needs at least two points", "curve_points");
  if (options.top < 0 || options.top > 4096) fail(ErrorCode::usage, "top is 0 to 4096", "top");
  if (options.cells < 0 || options.cells > 65536) fail(ErrorCode::usage, "cells are 0 to 65536", "cells");
  if (options.block < 0) fail(ErrorCode::usage, "a block has no fewer than 0 tokens", "block");
}

// Uses the first call that is to be made, in its place.
class FirstCall final : public AttentionWatch {
 public:
  explicit FirstCall(std::function<void(const Call&)> use) : use_(std::move(use)) {}

  bool lets_run(const Call& call) override {
    use_(call);
    return false;
  }

 private:
  std::function<void(const Call&)> use_;
};

void use_call(Context& context, const inspection::AttentionArguments& a, std::function<void(const Call&)> use) {
  Tape tape(context, {.record = false});
  const FirstCall first(std::move(use));
  attention(tape, a.q, a.k, a.v, a.mechanism, a.call);
}

// Copies the part of each row that is asked for.
class Rectangle final : public inspection::MapSink {
 public:
  explicit Rectangle(const MapRequest& request) : out{request, {}} {
    out.weights.resize(static_cast<std::size_t>((request.row_end - request.row_begin) * columns()));
  }

  void take(const MapRow& row, std::int64_t) override {
    if (row.head != out.at.head || row.row < out.at.row_begin || row.row >= out.at.row_end) return;
    float* to = &out.weights[static_cast<std::size_t>((row.row - out.at.row_begin) * columns())];
    const float* w = row.weights;
    for (const inspection::KeyRun& run : row.runs)
      for (std::int64_t j = 0; j < run.count; ++j, ++w) {
        const std::int64_t key = row.first_key + (run.begin + j) * row.step;
        if (key >= out.at.key_begin && key < out.at.key_end)
          to[key - out.at.key_begin] += static_cast<float>(static_cast<double>(*w) * row.factor);
      }
  }

  MapRectangle out;

 private:
  std::int64_t columns() const { return out.at.key_end - out.at.key_begin; }
};

// A map (n, n) as it is: one head, whose rows sum to 1.
class WholeMap final : public inspection::MapSource {
 public:
  WholeMap(std::vector<float> map, std::int64_t n) : map_(std::move(map)), n_(n) {}

  void rows(const Context&, const tile::WantedRows& wanted, inspection::MapSink& sink) const override {
    const inspection::KeyRun all[] = {{0, n_}};
    for (std::int64_t i = wanted.begin; i < std::min(n_, wanted.end); ++i) {
      std::vector<float> weights(map_.begin() + i * n_, map_.begin() + (i + 1) * n_);
      sink.take({.head = 0, .row = i, .weights = weights.data(), .runs = all}, i / wanted.rows_per_share);
    }
  }

 private:
  std::vector<float> map_;
  std::int64_t n_;
};

// By kernels of the card that the call is on, where they can. Gives whether the mechanism has scores.
std::optional<bool> take_on_card(Context& card, const SequenceCall& call, inspection::MapStatistics& statistics) {
  const auto source = inspection::source_of(card, call);
  std::optional<inspection::MapSums> sums = inspection::card_sums(card, *source, statistics.spec());
  if (!sums) return {};
  statistics.take(std::move(*sums));
  return source->has_scores();
}

void take_all(Context& host, const inspection::MapSource& source, inspection::MapStatistics& statistics) {
  if (const inspection::RowFacts* facts = source.facts()) {
    statistics.take(*facts);
    source.tiles(host, statistics.wanted(), statistics);
  } else {
    source.rows(host, statistics.wanted(), statistics);
  }
}

}  // namespace

namespace inspection {

Context host_context(const Context& context) { return Context({.threads = context.threads(), .seed = context.seed()}); }

Context near_context(const Context& context) {
  if (context.device() != Device::cuda) return host_context(context);
  return Context({.threads = context.threads(),
                  .seed = context.seed(),
                  .device = context.device(),
                  .tf32 = false,
                  .pages = context.memory()});
}

SequenceCall single_sequence(Context& context, const AttentionArguments& a, std::int64_t sequence) {
  const Context host = host_context(context);
  std::optional<SequenceCall> kept;
  use_call(context, a, [&](const Call& call) { kept = sequence_of(host, call, sequence); });
  return std::move(*kept);
}

LayerRecord measure(Context& near, const SequenceCall& call, const InspectOptions& options) {
  check(options);
  LayerRecord record;
  const MapShape shape = call.shape();
  record.mechanism = call.mechanism.text();
  record.map = map_note(call.mechanism);
  record.causal = call.options.causal;
  record.n_q = shape.n_q;
  record.n_k = shape.n_k;
  if (record.map.kind == MapKind::none) return record;
  Measure what{shape, call.options.causal, block_of(call, options), options};
  MapStatistics statistics(what);
  Context host = host_context(near);
  if (shape.n_q == 0 || shape.n_k == 0) {
    record.heads = statistics.finish(host, false);
    return record;
  }
  const bool on_card = near.device() != Device::cpu;
  if (on_card && what.takes_sums())
    if (const std::optional<bool> has_scores = take_on_card(near, call, statistics)) {
      record.heads = statistics.finish(host, *has_scores);
      return record;
    }
  const SequenceCall here = on_card ? on_host(host, call) : call;
  const auto source = source_of(host, here, what.takes_tiles() ? statistics.top() : 0);
  take_all(host, *source, statistics);
  record.heads = statistics.finish(host, source->has_scores());
  return record;
}

LayerRecord measure_whole(Context& host, std::vector<float> map, bool causal, const InspectOptions& options) {
  check(options);
  const auto n = static_cast<std::int64_t>(std::lround(std::sqrt(static_cast<double>(map.size()))));
  LayerRecord record;
  record.map = {.kind = MapKind::weights, .text = {}, .sums_to_one = true};
  record.causal = causal;
  record.n_q = record.n_k = n;
  MapStatistics statistics({{1, n, n}, causal, options.block > 0 ? options.block : kUsualBlock, options});
  take_all(host, WholeMap(std::move(map), n), statistics);
  record.heads = statistics.finish(host, false);
  return record;
}

MapRectangle rectangle(Context& near, const SequenceCall& call, const MapRequest& request) {
  const MapShape shape = call.shape();
  const auto inside = [](std::int64_t begin, std::int64_t end, std::int64_t n) {
    return 0 <= begin && begin <= end && end <= n;
  };
  if (request.head < 0 || request.head >= shape.heads || !inside(request.row_begin, request.row_end, shape.n_q) ||
      !inside(request.key_begin, request.key_end, shape.n_k))
    fail(ErrorCode::usage,
         "a rectangle outside of the map of " + std::to_string(shape.heads) + " heads, " + std::to_string(shape.n_q) +
             " rows and " + std::to_string(shape.n_k) + " keys",
         "head " + std::to_string(request.head) + ", rows " + std::to_string(request.row_begin) + " to " +
             std::to_string(request.row_end) + ", keys " + std::to_string(request.key_begin) + " to " +
             std::to_string(request.key_end));
  if (map_note(call.mechanism).kind == MapKind::none)
    fail(ErrorCode::unsupported,
         "attention \"" + call.mechanism.text() + "\" has no map: " + map_note(call.mechanism).text);
  const bool on_card = near.device() != Device::cpu;
  if (on_card)
    if (auto cut = card_rectangle(near, *source_of(near, call), shape, request)) return std::move(*cut);
  Context host = host_context(near);
  const auto source = source_of(host, on_card ? on_host(host, call) : call);
  Rectangle sink(request);
  if (!sink.out.weights.empty())
    source->rows(host, {.head = request.head, .begin = request.row_begin, .end = request.row_end}, sink);
  return std::move(sink.out);
}

}  // namespace inspection

LayerRecord inspect_attention(Context& context, const Tensor& q, const Tensor& k, const Tensor& v,
                              const Mechanism& mechanism, const AttentionOptions& call, const InspectOptions& options) {
  Context near = inspection::near_context(context);
  LayerRecord record;
  use_call(context, {q, k, v, mechanism, call}, [&](const Call& made) {
    record = inspection::measure(near, inspection::sequence_of(near, made, options.sequence, false), options);
  });
  record.place = "attention";
  inspection::judge_tokens(options.notes, record);
  return record;
}

MapRectangle map_rectangle(Context& context, const Tensor& q, const Tensor& k, const Tensor& v,
                           const Mechanism& mechanism, const AttentionOptions& call, const MapRequest& request) {
  Context near = inspection::near_context(context);
  MapRectangle out;
  use_call(context, {q, k, v, mechanism, call}, [&](const Call& made) {
    out = inspection::rectangle(near, inspection::sequence_of(near, made, request.layer, false), request);
  });
  return out;
}

}  // namespace fovea
