#include "inspect_page/head.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "inspect_page/codes.h"

namespace fovea::viewer {
namespace {

template <class T>
double mean_of(const std::vector<T>& values) {
  double sum = 0.0;
  std::size_t count = 0;
  for (const T value : values)
    if (std::isfinite(value)) sum += static_cast<double>(value), ++count;
  return count > 0 ? sum / static_cast<double>(count) : std::nan("");
}

template <class T>
double largest_of(const std::vector<T>& values) {
  double out = std::nan("");
  for (const T value : values)
    if (std::isfinite(value) && !(static_cast<double>(value) <= out)) out = static_cast<double>(value);
  return out;
}

// The mean mass at each distance, all of them near the row and ever fewer further away: (place in `distance`, mass).
void pack_distance(const HeadRecord& head, std::int64_t n_q, Block& block) {
  const auto size = static_cast<std::int64_t>(head.distance.size()), here = n_q - 1;
  std::vector<std::int64_t> at;
  std::vector<double> mass;
  const auto take = [&](std::int64_t begin, std::int64_t end) {
    double sum = 0.0;
    for (std::int64_t d = begin; d < end; ++d) sum += head.distance[static_cast<std::size_t>(d)];
    at.push_back((begin + end - 1) / 2);
    mass.push_back(sum / static_cast<double>(end - begin));
  };
  const auto width = [&](std::int64_t d) { return std::max<std::int64_t>(1, std::abs(d - here) / 64); };
  std::vector<std::pair<std::int64_t, std::int64_t>> before;
  for (std::int64_t end = std::min(here, size); end > 0;) {
    const std::int64_t begin = std::max<std::int64_t>(0, end - width(end));
    before.emplace_back(begin, end);
    end = begin;
  }
  for (auto part = before.rbegin(); part != before.rend(); ++part) take(part->first, part->second);
  for (std::int64_t begin = std::max<std::int64_t>(0, here); begin < size;) {
    const std::int64_t end = std::min(size, begin + width(begin));
    take(begin, end);
    begin = end;
  }
  block.add<std::int64_t>("distance_at", at, NumberType::u32);
  block.add<double>("distance", mass, NumberType::f32);
}

// Weights are at most 1: so scaled, half precision keeps three digits of those above 2e-9. viewer/data.js divides
// again.
constexpr float kTopScale = 32768.0f;

void pack_top(const LayerRecord& layer, const HeadRecord& head, std::int64_t kept, Block& block) {
  kept = std::min(kept, head.top);
  if (kept == 0) return;
  const bool small = layer.n_k < 65535;
  std::vector<std::int64_t> keys;
  std::vector<float> weights;
  for (std::int64_t row = 0; row < layer.n_q; ++row)
    for (std::int64_t k = 0; k < kept; ++k) {
      const auto at = static_cast<std::size_t>(row * head.top + k);
      const std::int64_t nobody = small ? 65535 : std::numeric_limits<std::uint32_t>::max();
      keys.push_back(head.top_keys[at] < 0 ? nobody : head.top_keys[at]);
      weights.push_back(kTopScale * head.top_weights[at]);
    }
  block.add<std::int64_t>("top_key", keys, small ? NumberType::u16 : NumberType::u32);
  block.add<float>("top_weight", weights, NumberType::f16);
}

// Values of a level; rows without numbers, which the engine passes over, are NaN.
std::vector<float> marked(const std::vector<float>& values, const MapLevel& level, const HeadRecord& head) {
  std::vector<float> out = values;
  if (head.bad_rows == 0) return out;
  for (std::size_t row = 0; row < head.row_sum.size(); ++row) {
    if (std::isfinite(head.row_sum[row])) continue;
    const auto cells = out.begin() + static_cast<std::ptrdiff_t>(row) / level.cell_rows * level.columns;
    std::fill(cells, cells + level.columns, std::numeric_limits<float>::quiet_NaN());
  }
  return out;
}

std::string token_name(const std::vector<std::string>& keys, std::int64_t key) {
  if (key < 0 || key >= std::ssize(keys)) return fmt::format("token {}", key);
  return fmt::format("“{}” ({})", keys[static_cast<std::size_t>(key)], key);
}

std::string percent(double share) { return fmt::format("{:.0f}%", 100 * share); }

std::string why_semantic(const ComparedShare& tag) {
  const std::string alike = fmt::format(", {} would if all words were read alike", percent(tag.baseline));
  if (tag.of == "its own") return percent(tag.share) + " of the words read one of their own tag most" + alike;
  return fmt::format("{} of the mass on words goes to {}", percent(tag.share), tag.of) + alike;
}

}  // namespace

std::vector<Column> columns() {
  return {
      {"entropy", "entropy", "mean over the rows that read, as a share of its most: 0 one key alone, 1 all alike",
       true},
      {"effective_keys", "keys in effect", "e to the power of the entropy, the mean over rows"},
      {"largest", "largest weight", "the mean over rows", true},
      {"near_mass", "within 3 tokens", "mass on the token itself and the three on either side", true},
      {"area", "locality", "area below the curve of locally accumulated mass: 1 only itself, 1/2 near and far alike"},
      {"deviation", "width", "of a Gaussian fitted to the distances, in tokens"},
      {"offset", "offset", "the distance at which most rows have their largest weight; negative: before"},
      {"offset_rate", "rows at that offset", "share of rows that have their largest weight there", true},
      {"broadcast_key", "most read", "the key with the most mass of other rows"},
      {"broadcast_mass", "mass on it", "mean mass of other rows on that key", true},
      {"delimiter_mass", "mass on delimiters", "special tokens, punctuation and white space", true},
      {"relation_rate", "words that follow it",
       "of the relation that the head follows best: words that read the one it leads to most", true},
      {"relation_baseline", "by distance alone", "words that would, were the one at the best fixed distance read",
       true},
      {"tag_mass", "mass on its tag", "of the mass on words; of its own tag: words that read one of theirs most", true},
      {"tag_baseline", "if all were alike", "the same of a head that reads all words alike", true},
      {"block_mass", "inside its block", "mass inside the row's own block of tokens", true},
      {"max_logit", "largest score", "before the softmax; beyond 50 or so training tends to come apart"},
      {"bad_rows", "bad rows", "rows with weights that are NaN or infinite"}};
}

std::vector<Column> worth_columns() {
  return {{"importance", "importance", "slope of the loss by a gate on the head's output, as a share of its layer's"},
          {"loss_without", "loss without it", "what the loss grows by when the head is taken out"}};
}

std::vector<double> worth_of(const InspectedModel& model, const LayerRecord& layer, const HeadRecord& head) {
  for (const HeadImportance& found : model.importance)
    if (found.layer == layer.index && found.head == head.head) return {found.by_gradient, found.by_ablation};
  return {std::nan(""), std::nan("")};
}

std::vector<double> numbers_of(const LayerRecord&, const HeadRecord& head) {
  const HeadVerdict& v = head.verdict;
  return {v.entropy,
          mean_of(head.effective_keys),
          mean_of(head.largest),
          v.near_mass,
          head.area,
          v.deviation,
          static_cast<double>(v.offset),
          v.offset_rate,
          static_cast<double>(v.broadcast_key),
          v.broadcast_mass,
          v.delimiters.share,
          v.relation.share,
          v.relation.baseline,
          v.tag.share,
          v.tag.baseline,
          v.block_mass,
          largest_of(head.max_logit),
          static_cast<double>(head.bad_rows)};
}

const std::vector<ClassText>& class_texts() {
  static const std::vector<ClassText> texts = {
      {HeadClass::previous, "previous", "Most tokens read the one just before them.", "blue"},
      {HeadClass::next, "next", "Most tokens read the one just after them.", "cyan"},
      {HeadClass::self, "self", "Most tokens read themselves.", "green"},
      {HeadClass::offset, "offset", "Most tokens read the one at a fixed distance.", "violet"},
      {HeadClass::broadcast, "broadcast",
       "Nearly all rows read one token. Where that is a separator, a full stop or the first token, the head has found "
       "nothing to read here and does next to nothing.",
       "pink"},
      {HeadClass::delimiter, "delimiter",
       "Most of the mass goes to special tokens, punctuation or white space. Where tokens are words, the head has "
       "found nothing to read here and does next to nothing.",
       "wine"},
      {HeadClass::syntactic, "syntactic",
       "Words read the one they depend on, or those that depend on them, more often than any fixed distance would find "
       "it.",
       "teal"},
      {HeadClass::semantic, "semantic", "Words of one kind are read, or words read those of their own kind.", "olive"},
      {HeadClass::block, "block", "Tokens read inside blocks of neighbours.", "amber"},
      {HeadClass::local, "local", "Tokens read what stands near by.", "vermilion"},
      {HeadClass::diffuse, "diffuse",
       "No simple pattern: tokens read far and wide, or what they read depends on the text.", "grey"},
      {HeadClass::undefined, "undefined", "Rows without numbers: NaN weights, or no key at all.", "grey"},
  };
  return texts;
}

std::string why(const HeadRecord& head, const std::vector<std::string>& keys) {
  const HeadVerdict& v = head.verdict;
  switch (v.head_class) {
    case HeadClass::previous: return percent(v.offset_rate) + " of the rows read the token before them most";
    case HeadClass::next: return percent(v.offset_rate) + " of the rows read the token after them most";
    case HeadClass::self: return percent(v.offset_rate) + " of the rows read themselves most";
    case HeadClass::offset:
      return fmt::format("{} of the rows read most what stands {} tokens {}", percent(v.offset_rate),
                         std::abs(v.offset), v.offset < 0 ? "before" : "after");
    case HeadClass::broadcast:
      return fmt::format("{} of the mass goes to {}", percent(v.broadcast_mass), token_name(keys, v.broadcast_key));
    case HeadClass::delimiter:
      return fmt::format("{} of the mass goes to special tokens and punctuation, {} of the text",
                         percent(v.delimiters.share), percent(v.delimiters.baseline));
    case HeadClass::syntactic:
      return fmt::format("{} of the words with the relation {} follow it, {} would by distance alone",
                         percent(v.relation.share), v.relation.of, percent(v.relation.baseline));
    case HeadClass::semantic: return why_semantic(v.tag);
    case HeadClass::block:
      return fmt::format("{} of the mass stays inside blocks of {} tokens", percent(v.block_mass), v.block_width);
    case HeadClass::local:
      return fmt::format("{} of the mass lies within 3 tokens; a Gaussian fitted to it is {:.3g} tokens wide",
                         percent(v.near_mass), v.deviation);
    case HeadClass::diffuse:
      return fmt::format("the entropy is {} of its most, and {} of the mass lies within 3 tokens", percent(v.entropy),
                         percent(v.near_mass));
    default: return "its rows have no numbers";
  }
}

double near_mass(const LayerRecord& layer, bool paper_curve) {
  std::vector<double> shares;
  for (const HeadRecord& head : layer.heads) {
    const std::size_t points = head.curve.size();
    if (points == 0) continue;
    if (!paper_curve) {
      shares.push_back(head.curve[std::max<std::size_t>(1, points / 10) - 1]);
      continue;
    }
    const auto reached = std::find_if(head.curve.begin(), head.curve.end(), [](double width) { return width > 0.1; });
    shares.push_back(static_cast<double>(reached - head.curve.begin()) / static_cast<double>(points));
  }
  return mean_of(shares);
}

std::string reach(const LayerRecord& layer, bool paper_curve) {
  std::vector<double> areas;
  for (const HeadRecord& head : layer.heads) areas.push_back(head.area);
  const double area = mean_of(areas);
  if (!std::isfinite(area) || paper_curve) return "";  // widths in place of masses: another scale
  return area >= 0.8 ? "local" : area <= 0.68 ? "global" : "mixed";
}

namespace {

// The least weight that the strongest colour may stand for: rows that read all keys alike shall look pale.
double pale(std::int64_t keys) { return std::min(1.0, 8.0 / static_cast<double>(std::max<std::int64_t>(1, keys))); }

}  // namespace

void pack_head(const LayerRecord& layer, const HeadRecord& head, const HeadShare& share, Block& block, Json& json) {
  const bool is_signed = layer.map.kind == MapKind::effective;
  const MapLevel& finest = head.pyramid.front();
  const bool single = finest.cell_rows == 1 && finest.cell_keys == 1;
  // Of a row that reads all keys alike each weight is 1 / n_k: in the middle of a step, however wide.
  const double least = 1.0 / (64.0 * static_cast<double>(layer.n_k));
  const double each = single ? share.bytes : share.bytes / 2;
  const std::vector<float> mean = marked(finest.mean, finest, head), largest = marked(finest.largest, finest, head);
  const Coding coding = coding_for(single ? mean : largest, least, is_signed, each);
  block.add_bytes("mean", coded(mean, coding), NumberType::u8, mean.size());
  if (!single) block.add_bytes("max", coded(largest, coding), NumberType::u8, largest.size());
  pack_top(layer, head, share.top, block);
  block.add<float>("entropy", head.entropy, NumberType::f32);
  block.add<double>("received", head.received, NumberType::f32);
  pack_distance(head, layer.n_q, block);
  json["map"] = {{"tall", finest.cell_rows}, {"wide", finest.cell_keys}, {"low", coding.low}, {"step", coding.step}};
  json["signed"] = is_signed;
  const double top = largest_of(single ? finest.largest : head.largest);
  json["top"] = std::isfinite(top) ? std::max(top, pale(layer.n_k)) : 0.0;
  json["parts"] = block.parts();
}

Thumbnail thumbnail(const LayerRecord& layer, const HeadRecord& head) {
  constexpr std::int64_t kMost = 64;
  const auto fits = [](const MapLevel& level) { return level.rows <= kMost && level.columns <= kMost; };
  const auto level = std::find_if(head.pyramid.begin(), head.pyramid.end(), fits);
  if (level == head.pyramid.end()) return {};
  // Between mean and largest: a diagonal is seen, and a single weight does not look like many.
  std::vector<double> strengths;
  double top = pale(layer.n_k);
  const std::vector<float> mean = marked(level->mean, *level, head);
  for (std::size_t i = 0; i < mean.size(); ++i) {
    const double value = std::sqrt(std::abs(static_cast<double>(mean[i])) * static_cast<double>(level->largest[i]));
    strengths.push_back(value);
    if (value > top) top = value;
  }
  Thumbnail out{level->rows, level->columns, {}};
  for (const double value : strengths)
    out.shades +=
        static_cast<char>(std::isfinite(value) ? static_cast<int>(254 * std::sqrt(top > 0 ? value / top : 0.0)) : 255);
  return out;
}

}  // namespace fovea::viewer
