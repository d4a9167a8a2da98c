#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "fovea/pattern.h"
#include "fovea/tensor.h"
#include "tile/row_rule.h"

// The door of the pairwise engine: tensors of any device in, the kernels of that device behind it.
namespace fovea::tile {

// Pieces of a call. Each brings the pattern of its positions; the engine finds the plan.
class PieceList {
 public:
  explicit PieceList(Device device) : device_(device) {}

  void add(Piece piece, const Pattern& pattern);
  std::span<const Piece> all() const { return pieces_; }

 private:
  Device device_;
  std::vector<Piece> pieces_;
  std::vector<std::shared_ptr<const Plan>> plans_;  // of the pieces
};

// What is computed, whatever the tensors hold.
struct Work {
  Problem problem = {};  // all but pieces, bias and alibi
  PieceList pieces;
  std::optional<RowRule> rule = {};  // in place of problem.weight
};

// (b, n, heads, d) with a dense last axis; what is optional may be undefined.
struct Inputs {
  Tensor q, k, v;
  // Optional, f32 (f64 for f64 problems): (b or 1, heads or 1, n_q or 1, n_k or 1), or by distance, the query's
  // position
  // - the key's + L - 1: (b or 1, heads or 1, 2 L - 1), dense.
  Tensor bias = {};
  Tensor alibi = {};  // optional: the slope of each query head, f64, dense
};

// The problem that the engine is given, with the arrays of its bias: for kernels of others on the same pairs.
Problem problem_of(const Work& work, const Inputs& in);

struct ForwardTensors {
  Inputs in;
  Tensor o;
  Tensor lse;   // optional: (b, n_q, heads)
  Tensor rest;  // optional: what o lost when it was rounded, in its dtype
};
void forward(const Context& context, const Work& work, const ForwardTensors& io);

struct BackwardTensors {
  Inputs in;
  Tensor o, lse, rest, d_o, d_lse;
  Tensor dq, dk, dv;
  Tensor d_bias;  // optional: the shape of the bias. Overwritten where pieces reach it; by distance added to
};
void backward(const Context& context, const Work& work, const BackwardTensors& io);

// Softmax attention of single queries, each over n keys of its own, see query.h. q and o (1, 1, heads, d); keys and
// values (1, n, kv_heads, d); of all queries the same heads, widths and type.
struct QueryTensors {
  Tensor q, keys, values, o;
};
void attend_queries(const Context& context, double scale, std::span<const QueryTensors> queries);

}  // namespace fovea::tile
