#include "nn/graph_memory.h"

namespace fovea::nn {
namespace {

// A x over the channels: matrix (t, c, c), x (t, c, b, w).
Var along(Tape& tape, const Var& matrix, const Var& x) {
  const std::int64_t t = x.dim(0), c = x.dim(1), b = x.dim(2), w = x.dim(3);
  return reshape(tape, matmul(tape, matrix, reshape(tape, x, {t, c, b * w})), {t, c, b, w});
}

}  // namespace

Var GraphConv::operator()(Tape& tape, const Var& x, const ChannelGraph& graph) const {
  const std::vector<Var> parts = {x, along(tape, graph.there, x), along(tape, graph.back, x)};
  return out_(tape, concat(tape, parts, 3));
}

GraphMemory::GraphMemory(const Scope& scope, const SeriesConfig& series)
    : memory_(scope.add("memory", {series.memory_rows, series.memory_width},
                        Init::xavier(series.memory_rows, series.memory_width))),
      sources_(scope.add("sources", {series.patches(), series.channels, series.memory_rows}, Init::normal(1.0))),
      sinks_(scope.add("sinks", {series.patches(), series.channels, series.memory_rows}, Init::normal(1.0))),
      queries_(scope / "queries", series.patch, series.memory_width, {.bias = false}) {
  if (!series.recurrent) {
    plain_.emplace(scope / "graph", series.patch, series.patch);
    return;
  }
  gates_.emplace(scope / "gates", 2 * series.patch, 2 * series.patch);
  candidate_.emplace(scope / "candidate", 2 * series.patch, series.patch);
}

ChannelGraph GraphMemory::graph(Tape& tape) const {
  const Var from = matmul(tape, sources_, memory_), to = matmul(tape, sinks_, memory_);
  const Var scores = activate(tape, matmul(tape, from, transpose(tape, to, 1, 2)), Activation::relu);
  return {softmax(tape, scores), softmax(tape, transpose(tape, scores, 1, 2))};
}

// A gated unit goes over the patches: r, z = sigmoid(GC[x, h]), c = tanh(GC[x, z h]), h = r h + (1 - r) c.
Var GraphMemory::walk(Tape& tape, const Var& x, const ChannelGraph& graph) const {
  const std::int64_t patches = x.dim(0), width = x.dim(3);
  Var h = Tensor::zeros(tape.context(), {1, x.dim(1), x.dim(2), width}, x.dtype());
  std::vector<Var> states;
  for (std::int64_t t = 0; t < patches; ++t) {
    const ChannelGraph now = {slice(tape, graph.there, 0, t, t + 1), slice(tape, graph.back, 0, t, t + 1)};
    const Var in = slice(tape, x, 0, t, t + 1);
    const Var gates =
        activate(tape, (*gates_)(tape, concat(tape, std::vector<Var>{in, h}, 3), now), Activation::sigmoid);
    const Var keep = slice(tape, gates, 3, 0, width), reset = slice(tape, gates, 3, width, 2 * width);
    const Var seen = concat(tape, std::vector<Var>{in, mul(tape, reset, h)}, 3);
    const Var candidate = activate(tape, (*candidate_)(tape, seen, now), Activation::tanh);
    h = add(tape, candidate, mul(tape, keep, sub(tape, h, candidate)));
    states.push_back(h);
  }
  return concat(tape, states, 0);
}

// [h, what the memory answers to h]
Var GraphMemory::read(Tape& tape, const Var& h) const {
  const Var weights = softmax(tape, linear(tape, queries_(tape, h), transpose(tape, memory_, 0, 1)));
  const std::vector<Var> parts = {h, linear(tape, weights, memory_)};
  return concat(tape, parts, 3);
}

Var GraphMemory::operator()(Tape& tape, const Var& patches) const {
  const Var x = transpose(tape, patches, 0, 2);  // (patches, channels, b, patch)
  const ChannelGraph edges = graph(tape);
  return transpose(tape, read(tape, plain_ ? (*plain_)(tape, x, edges) : walk(tape, x, edges)), 0, 2);
}

}  // namespace fovea::nn
