#pragma once

#include <functional>
#include <list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/recording.h"
#include "fovea/data.h"

namespace fovea {

// Steps on batches of one shape are recorded the second time that it comes, and played from then on (core/recording.h):
// the same bits, and nothing for the host to do but to bring the batch. Everything else runs as it is.
class RecordedSteps {
 public:
  // What a step does in a context with the parts of a batch, up to the numbers (f64) that the host reads at its end.
  // Called anew after it was stopped half way; what changes from step to step it is fed.
  using Work = std::function<Tensor(Context& context, std::span<const Batch> parts)>;
  enum class When : std::uint8_t { never, where_it_pays, always };

  RecordedSteps(Context& context, Work work, When when);
  RecordedSteps(const RecordedSteps&) = delete;
  RecordedSteps& operator=(const RecordedSteps&) = delete;

  // `stream`: where the random streams of the step start.
  std::vector<double> run(std::span<const Batch> parts, std::uint64_t stream);

  struct Counts {
    std::int64_t recorded = 0, played = 0, run = 0;  // steps; recorded ones are played as well
  };
  const Counts& counts() const { return counts_; }
  // What there is to tell of it since the last call: what was recorded, or why not; empty: nothing.
  std::string news();
  // Most bytes that recorded steps had in use at once.
  std::size_t peak() const { return context_ ? context_->allocator()->total().peak : 0; }
  bool was_played() const { return was_played_; }  // the last step

  void turn_off(const std::string& why);  // and forget all recordings

 private:
  using Key = std::vector<std::int64_t>;
  struct Entry {
    std::vector<Batch> parts;  // what the recording reads
    std::uint64_t stream = 0;
    Tensor numbers;
    std::unique_ptr<Recording> recording;
  };

  std::vector<double> run_as_it_is(std::span<const Batch> parts);
  bool record(Entry& entry, std::span<const Batch> parts, std::uint64_t stream);
  std::optional<std::vector<double>> play(Entry& entry, std::span<const Batch> parts, std::uint64_t stream);
  Entry* entry_for(std::span<const Batch> parts);
  void drop();

  Context& outer_;
  Work work_;
  bool wanted_;
  bool was_played_ = false;
  std::optional<Context> context_;            // of the recordings: blocks of their own, which nobody else is given
  std::list<std::pair<Key, Entry>> entries_;  // the last used first; without a recording: seen once
  Counts counts_;
  std::string news_;
};

}  // namespace fovea
