#pragma once

#include <cstdint>
#include <vector>

#include "fovea/data.h"

namespace fovea {

struct BatchOptions {
  std::int64_t batch_size = 32;
  bool shuffle = true;
  std::uint64_t seed = 0;
  // Examples of similar length are put together within windows of this many batches of the shuffled order: less
  // padding and steadier steps. 0 or 1: do not.
  std::int64_t window = 0;
  std::int64_t limit = 0;  // only the first examples; 0: all
};

// Where an iteration is: what a checkpoint stores.
struct BatchPosition {
  std::int64_t epoch = 0;
  std::int64_t used = 0;  // examples of this epoch handed out

  bool operator==(const BatchPosition&) const = default;
};

// Takes a batch from the host to where the context is: what is made of numbers. Token ids and classes stay: a model
// checks them on the host, against its own limits, when it takes them along (nn/embedding.h).
Batch to_device(const Context& context, Batch batch);
// Where the context is, made on the host.
Batch make_batch(const Context& context, const Split& split, std::span<const std::int64_t> examples,
                 std::uint64_t draw = 0);

// Which examples make up a batch, and the number that its random choices depend on.
struct BatchPlan {
  std::vector<std::int64_t> examples;
  std::uint64_t draw = 0;
  BatchPosition after;  // where the iteration stands when the batch has been used

  Batch make(const Context& context, const Split& split) const { return make_batch(context, split, examples, draw); }
};

// Hands out every example of a split once per epoch, in an order that depends on the seed and the epoch alone. The
// last batch of an epoch may be smaller. The split must outlive the iteration.
class Batches {
 public:
  Batches(const Split& split, BatchOptions options, BatchPosition start = {});

  // The next batch of this epoch, or of the next one if this one is over.
  BatchPlan plan();
  Batch next(const Context& context) { return plan().make(context, *split_); }
  bool epoch_done() const { return position_.used == count_; }
  BatchPosition position() const { return position_; }
  std::int64_t size() const { return count_; }  // examples of an epoch
  std::int64_t batches_per_epoch() const;

 private:
  void start_epoch(std::int64_t epoch);
  void group_by_length();

  const Split* split_;
  BatchOptions options_;
  std::int64_t count_;
  BatchPosition position_;
  std::vector<std::int64_t> order_;  // of this epoch
};

}  // namespace fovea
