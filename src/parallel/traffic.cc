#include "parallel/traffic.h"

#include <algorithm>
#include <vector>

#include "dist/group.h"
#include "parallel/attention.h"

namespace fovea::divided {
namespace {

// Keys that the queries of one rank read of another's.
class KeyRows {
 public:
  KeyRows(const Mechanism& mechanism, const TrafficSizes& sizes, std::int64_t ranks)
      : length_(sizes.length), ranks_(ranks) {
    const Pattern pattern = keys_pattern(mechanism, {.causal = sizes.causal});
    for (std::int64_t rank = 0; rank < ranks; ++rank)
      keys_.push_back(begin(rank) < begin(rank + 1) ? pattern.keys(begin(rank), begin(rank + 1), length_)
                                                    : Pattern::Range{0, 0});
  }

  std::int64_t read(std::int64_t reader, std::int64_t owner) const {
    if (reader == owner) return 0;
    const Pattern::Range& keys = keys_[static_cast<std::size_t>(reader)];
    return std::max<std::int64_t>(0, std::min(keys.end, begin(owner + 1)) - std::max(keys.begin, begin(owner)));
  }

 private:
  std::int64_t begin(std::int64_t rank) const { return dist::part_begin(length_, ranks_, rank); }

  std::int64_t length_, ranks_;
  std::vector<Pattern::Range> keys_;  // that each rank reads, as positions
};

// A rank gets the keys that it reads, in backward again, and the gradients of its own keys that others have read.
Traffic of_keys(const Mechanism& mechanism, const TrafficSizes& sizes, std::int64_t ranks) {
  const KeyRows rows(mechanism, sizes, ranks);
  const auto numbers = static_cast<double>(sizes.kv_heads * (sizes.d_k + sizes.d_v));
  Traffic most;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    std::int64_t reads = 0, is_read = 0;
    for (std::int64_t other = 0; other < ranks; ++other) {
      reads += rows.read(rank, other);
      is_read += rows.read(other, rank);
    }
    const double keys = static_cast<double>(reads) * numbers * static_cast<double>(size_of(sizes.dtype));
    const double gradients = static_cast<double>(is_read) * numbers * static_cast<double>(sizeof(float));
    if (2.0 * keys + gradients > most.forward + most.backward) most = {.forward = keys, .backward = keys + gradients};
  }
  if (most.backward > 0.0) most.messages = 6.0 * static_cast<double>(ranks - 1);  // k, v: there, again, gradients home
  // The last rank reads the keys of all, the first its own: (2 ranks - 1) of ranks^2 squares fall on the last.
  if (sizes.causal && !mechanism.subquadratic()) most.work = 2.0 - 1.0 / static_cast<double>(ranks);
  return most;
}

// A state of each head from every other rank, in f64, and its gradient; of those that fade, what they fade by as well.
Traffic of_states(const Mechanism& mechanism, const TrafficSizes& sizes, std::int64_t ranks) {
  const double kinds = mechanism.supports(Feature::bidirectional) ? 1.0 : 2.0;
  const std::int64_t values = sizes.d_v + (mechanism.name() == "linear" ? 1 : 0);  // and the sum of the weights
  const double state = static_cast<double>(sizes.heads * sizes.d_k * values) * static_cast<double>(sizeof(double));
  const auto others = static_cast<double>(ranks - 1);
  return {.forward = others * state * kinds, .backward = others * state, .messages = others * (kinds + 1.0)};
}

// Slots of keys and values in f32: a rank gets its share of the sums from all others, and the sums of their shares.
Traffic of_slots(const Mechanism& mechanism, const TrafficSizes& sizes, std::int64_t ranks) {
  double bytes = 0.0;
  for (const std::int64_t width : {sizes.d_k, sizes.d_v}) {
    const std::int64_t numbers = mechanism.integer("slots") * sizes.kv_heads * width,
                       largest = (numbers + ranks - 1) / ranks;
    bytes += static_cast<double>((ranks - 1) * largest + numbers - largest) * static_cast<double>(sizeof(float));
  }
  return {.forward = bytes, .backward = bytes, .messages = 8.0 * static_cast<double>(ranks - 1)};
}

// The rows of all others, and the gradients that others have for the rows here.
Traffic of_rows(const TrafficSizes& sizes, std::int64_t ranks) {
  const auto numbers = static_cast<double>(sizes.heads * sizes.d_k + sizes.kv_heads * (sizes.d_k + sizes.d_v));
  const auto others = static_cast<double>(ranks - 1);
  Traffic most;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const auto own = static_cast<double>(dist::part_begin(sizes.length, ranks, rank + 1) -
                                         dist::part_begin(sizes.length, ranks, rank));
    const Traffic here{
        .forward = (static_cast<double>(sizes.length) - own) * numbers * static_cast<double>(size_of(sizes.dtype)),
        .backward = others * own * numbers * static_cast<double>(sizeof(float))};
    if (here.forward + here.backward > most.forward + most.backward) most = here;
  }
  most.messages = 6.0 * others;  // q, k and v, and their gradients
  most.work = static_cast<double>(ranks);
  return most;
}

}  // namespace

bool divides(const Mechanism& mechanism) { return travels(mechanism, {}) != Travels::rows; }

Traffic traffic(const Mechanism& mechanism, const TrafficSizes& sizes, std::int64_t ranks) {
  if (ranks <= 1) return {};
  switch (travels(mechanism, {.causal = sizes.causal})) {
    case Travels::keys: return of_keys(mechanism, sizes, ranks);
    case Travels::state: return of_states(mechanism, sizes, ranks);
    case Travels::slots: return of_slots(mechanism, sizes, ranks);
    default: return of_rows(sizes, ranks);
  }
}

}  // namespace fovea::divided
