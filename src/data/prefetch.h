#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "data/batches.h"

namespace fovea {

// Of every `of` batches in turn only [first, first + count) are wanted: a step's, of those that several ranks share.
struct BatchShare {
  std::int64_t of = 1, first = 0, count = 1;
};

// Makes batches ahead of their use, on a thread of its own, in the order of the iteration. The context and the split
// must outlive it.
class Prefetcher {
 public:
  struct Item {
    Batch batch;
    BatchPosition
        after;  // where the iteration stands when the batch has been used; behind the last of a share: all of it
  };

  // At most `ahead` batches wait to be used; 0: each is made when it is asked for, in `context`. The thread has a
  // context of its own, on the host and with the seed of `context`, and takes what it made to where `context` is.
  Prefetcher(const Context& context, const Split& split, Batches batches, std::size_t ahead,
             const BatchShare& share = {});
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // Waits for the next batch; throws what making it threw.
  Item next();

 private:
  Item make(const Context& context);
  void work();
  void fill(const Context& context);

  const Context& context_;
  const Split* split_;
  Batches batches_;
  std::size_t ahead_;
  BatchShare share_;
  std::int64_t taken_ = 0;  // of this share
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> ready_;
  std::exception_ptr failure_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace fovea
