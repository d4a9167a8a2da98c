#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/dataset.h"
#include "fovea/sequences.h"
#include "fovea/tensor.h"

namespace fovea {

enum class BatchLayout : std::uint8_t { packed, padded };

struct BatchOptions {
  std::int64_t batch_size = 32;
  BatchLayout layout = BatchLayout::packed;
  bool shuffle = true;
  std::uint64_t seed = 0;
  // Examples of similar length are put together within windows of this many batches of the shuffled order: less
  // padding and steadier steps. 0 or 1: do not.
  std::int64_t window = 0;
};

// b examples. Packed: ids is i32 (1, total), sequences has cu_seqlens. Padded: ids is i32 (b, longest) with 0 behind
// each example, sequences has lengths.
struct Batch {
  Tensor ids;
  Tensor labels;  // i32 (b)
  Sequences sequences;
  std::vector<std::int64_t> examples;  // which ones, as indices into the set

  std::int64_t size() const { return static_cast<std::int64_t>(examples.size()); }
};

// Where an iteration is: what a checkpoint stores.
struct BatchPosition {
  std::int64_t epoch = 0;
  std::int64_t used = 0;  // examples of this epoch handed out

  bool operator==(const BatchPosition&) const = default;
};

Batch make_batch(const Context& context, std::span<const Example> set, std::vector<std::int64_t> examples,
                 BatchLayout layout);

// Hands out every example of a set once per epoch, in an order that depends on the seed and the epoch alone. The last
// batch of an epoch may be smaller. The set must outlive the iteration.
class Batches {
 public:
  Batches(std::span<const Example> set, BatchOptions options, BatchPosition start = {});

  // The next batch of this epoch, or of the next one if this one is over.
  Batch next(const Context& context);
  bool epoch_done() const { return position_.used == static_cast<std::int64_t>(set_.size()); }
  BatchPosition position() const { return position_; }
  std::int64_t batches_per_epoch() const;

 private:
  void start_epoch(std::int64_t epoch);
  void group_by_length();

  std::span<const Example> set_;
  BatchOptions options_;
  BatchPosition position_;
  std::vector<std::int64_t> order_;  // of this epoch
};

}  // namespace fovea
