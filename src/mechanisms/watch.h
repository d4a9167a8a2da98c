#pragma once

#include "mechanisms/kind.h"
#include "scan/launch.h"
#include "tile/row_statistics.h"

// What the attention calls of a thread do, for whoever measures them.
namespace fovea {

// One run of the tiled engine: some heads, from `first_head` on, of a call.
struct TiledRun {
  const tile::Work& work;
  tile::Inputs in;  // of these heads
  std::int64_t first_head = 0;
  tile::StatisticsTensors statistics;  // of softmax rows, where they are wanted
};
// A call of the tiled engine. Several runs share the log-sum-exp of a row.
struct TiledSeen {
  std::vector<TiledRun> runs;
  Tensor lse;     // (b, n_q, heads); undefined where the weights have none
  Var v, output;  // (b, n_k, kv_heads, d_v), (b, n_q, heads, d_v)
};
// A call of the scan engine.
struct ScanSeen {
  const scan::Problem& problem;
  Tensor q, k;    // as the engine reads them, before its feature map
  Var v, output;  // before the cast to the type of the call
};

// While one of these lives, it is told of what its thread attends. They nest: the innermost one is told.
class AttentionWatch {
 public:
  AttentionWatch();
  virtual ~AttentionWatch();
  AttentionWatch(const AttentionWatch&) = delete;
  AttentionWatch& operator=(const AttentionWatch&) = delete;

  static AttentionWatch* current();  // null: nobody

  // Before a call that is in order is made. Without it nothing comes back to the caller.
  virtual bool lets_run(const Call&) { return true; }
  // Keys that are kept of each row of softmax weights; 0: no statistics.
  virtual std::int64_t top_keys() const { return 0; }
  // A call that is done. What it gives back is what the caller gets.
  virtual Var on_attention(const Call&, const Var& output) { return output; }
  virtual void on_tiled(const TiledSeen&) {}
  virtual void on_scan(const ScanSeen&) {}

 protected:
  AttentionWatch* outer() const { return outer_; }  // who is not told while this one lives; null: nobody

 private:
  AttentionWatch* outer_;
};

}  // namespace fovea
