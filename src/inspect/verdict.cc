#include "inspect/verdict.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace fovea::inspection {
namespace {

constexpr std::int64_t kNear = 3;         // tokens on both sides that are near
constexpr double kOffsetRate = 0.9;       // of rows whose largest weight is equally far
constexpr double kBroadcastMass = 0.5;    // of all rows on one key
constexpr double kBlockMass = 0.9;        // inside blocks, and ...
constexpr double kBlockGain = 0.1;        // over what the distances alone put there
constexpr double kBlockShare = 0.5;       // ... only where blocks are no larger than this share of the keys
constexpr double kLocalMass = 0.6;        // within kNear
constexpr double kNearShare = 0.5;        // of all keys: where more are near, being near says nothing
constexpr double kDelimiterMass = 0.5;    // of all rows on delimiters, and ...
constexpr double kDelimiterGain = 0.25;   // ... so much more than there would be if all keys were read alike
constexpr double kRelationGain = 0.1;     // over the best fixed distance
constexpr double kTagGain = 0.3;          // over reading all words alike
constexpr double kLocalDeviation = 0.05;  // of the keys: a wider bell that is still far from all of them

// The distance, key - query, at which most rows have their largest weight; and how many of them do.
void find_offset(std::int64_t shift, const HeadRecord& record, HeadVerdict& verdict) {
  std::map<std::int64_t, std::int64_t> rows;
  std::int64_t all = 0;
  for (std::size_t i = 0; i < record.largest_key.size(); ++i) {
    if (record.largest_key[i] < 0) continue;
    ++rows[record.largest_key[i] - static_cast<std::int64_t>(i) - shift];
    ++all;
  }
  std::int64_t most = 0;
  for (const auto& [offset, n] : rows)
    if (n > most || (n == most && std::abs(offset) < std::abs(verdict.offset))) {
      most = n;
      verdict.offset = offset;
    }
  verdict.offset_rate = all > 0 ? static_cast<double>(most) / static_cast<double>(all) : 0.0;
}

// Keys that row i may read.
std::int64_t readable(const MapShape& shape, bool causal, std::int64_t i) {
  return causal ? std::clamp<std::int64_t>(i + shape.n_k - shape.n_q + 1, 0, shape.n_k) : shape.n_k;
}

}  // namespace

HeadVerdict verdict_of(const MapShape& shape, bool causal, const HeadRecord& record) {
  HeadVerdict verdict;
  const std::int64_t shift = causal ? shape.n_k - shape.n_q : 0;
  find_offset(shift, record, verdict);
  double squares = 0.0;
  for (std::size_t i = 0; i < record.distance.size(); ++i) {
    const std::int64_t distance = static_cast<std::int64_t>(i) - (shape.n_q - 1) - shift;
    if (std::abs(distance) <= kNear) verdict.near_mass += record.distance[i];
    squares += record.distance[i] * static_cast<double>(distance) * static_cast<double>(distance);
  }
  verdict.deviation = std::sqrt(squares);
  double rows = 0.0, counted = 0.0;
  for (std::size_t i = 0; i < record.entropy.size(); ++i) {
    if (!std::isfinite(record.entropy[i])) continue;
    rows += 1.0;
    const std::int64_t keys = readable(shape, causal, static_cast<std::int64_t>(i));
    if (keys < 2) continue;
    verdict.entropy += static_cast<double>(record.entropy[i]) / std::log(static_cast<double>(keys));
    counted += 1.0;
  }
  if (counted > 0.0) verdict.entropy /= counted;
  const auto most = std::max_element(record.received.begin(), record.received.end());
  if (most != record.received.end() && rows > 0.0) {
    verdict.broadcast_key = most - record.received.begin();
    verdict.broadcast_mass = *most / rows;
  }
  return verdict;
}

// Of the pairs at a distance t, 1 - t / width stand in one block.
void set_blocks(const MapShape& shape, bool causal, HeadRecord& record, double mass) {
  HeadVerdict& verdict = record.verdict;
  const std::int64_t shift = causal ? shape.n_k - shape.n_q : 0;
  verdict.block_mass = mass;
  for (std::size_t i = 0; i < record.distance.size(); ++i) {
    const std::int64_t distance = std::abs(static_cast<std::int64_t>(i) - (shape.n_q - 1) - shift);
    if (distance >= verdict.block_width) continue;
    const double together = 1.0 - static_cast<double>(distance) / static_cast<double>(verdict.block_width);
    verdict.block_by_distance += record.distance[i] * together;
  }
}

void classify(HeadVerdict& verdict, const VerdictCase& of) {
  const auto n = static_cast<double>(of.shape.n_k);
  const bool has_blocks = static_cast<double>(verdict.block_width) <= kBlockShare * n;
  if (!of.has_rows)
    verdict.head_class = HeadClass::undefined;
  else if (verdict.offset_rate >= kOffsetRate && of.shape.n_q > 2)
    verdict.head_class = verdict.offset == 0    ? HeadClass::self
                         : verdict.offset == -1 ? HeadClass::previous
                         : verdict.offset == 1  ? HeadClass::next
                                                : HeadClass::offset;
  else if (verdict.delimiters.share >= kDelimiterMass && verdict.delimiters.gain() >= kDelimiterGain)
    verdict.head_class = HeadClass::delimiter;
  else if (verdict.broadcast_mass >= kBroadcastMass && of.shape.n_q > 2)
    verdict.head_class = HeadClass::broadcast;
  else if (verdict.relation.gain() >= kRelationGain)
    verdict.head_class = HeadClass::syntactic;
  else if (verdict.near_mass >= kLocalMass && static_cast<double>(2 * kNear + 1) <= kNearShare * n)
    verdict.head_class = HeadClass::local;
  else if (has_blocks && verdict.block_mass >= kBlockMass &&
           verdict.block_mass - verdict.block_by_distance >= kBlockGain)
    verdict.head_class = HeadClass::block;
  else if (verdict.tag.gain() >= kTagGain)
    verdict.head_class = HeadClass::semantic;
  else
    verdict.head_class = verdict.deviation <= kLocalDeviation * n ? HeadClass::local : HeadClass::diffuse;
}

}  // namespace fovea::inspection
