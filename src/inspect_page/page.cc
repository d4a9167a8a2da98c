#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "fovea/error.h"
#include "fovea/inspect_page.h"
#include "fovea/version.h"
#include "inspect_page/head.h"
#include "inspect_page/picture.h"
#include "inspect_page/viewer.h"
#include "io/html_text.h"
#include "io/sha256.h"
#include "text/utf8.h"

namespace fovea {
namespace {

using viewer::Block;

constexpr std::int64_t kLongText = 8192;
constexpr double kShortBytes = 14e6, kLongBytes = 28e6;

double bytes_of_file(std::int64_t n, std::int64_t asked) {
  if (asked > 0) return static_cast<double>(asked);
  return n > kLongText ? kLongBytes : kShortBytes;
}

// Bytes that are no character are shown as ⟨C3⟩: JSON takes valid text only.
std::string clean(std::string_view text) {
  std::string out;
  text::for_characters(text, [&](const text::Character& c, std::size_t at) {
    if (c.valid)
      out += text.substr(at, c.size);
    else
      for (std::size_t k = 0; k < c.size; ++k) out += fmt::format("⟨{:02X}⟩", static_cast<unsigned char>(text[at + k]));
  });
  return out;
}

// A text of `n` tokens; a token that the model puts in front has no text of its own.
std::vector<std::string> fitted(const std::vector<std::string>& tokens, std::int64_t n) {
  std::vector<std::string> out;
  if (n == std::ssize(tokens) + 1) out.emplace_back("[start]");
  if (n < std::ssize(tokens)) return out;  // rows stand for other things than tokens: they are numbers
  for (const std::string& token : tokens) out.push_back(clean(token));
  return out;
}

// A number that JSON has, or null.
Json number_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

void check(const LayerRecord& layer, const HeadRecord& head) {
  const auto n_q = static_cast<std::size_t>(layer.n_q), n_k = static_cast<std::size_t>(layer.n_k);
  const auto wrong = [&](std::string_view what) {
    fail(ErrorCode::shape,
         fmt::format("the record of head {} has {} that do not fit {} rows and {} keys", head.head, what, layer.n_q,
                     layer.n_k),
         layer.place, "pass records as inspect() makes them");
  };
  if (head.entropy.size() != n_q || head.largest.size() != n_q) wrong("statistics of rows");
  if (head.received.size() != n_k) wrong("masses of keys");
  if (head.distance.size() + 1 != n_q + n_k) wrong("distances");
  if (head.top_keys.size() != n_q * static_cast<std::size_t>(head.top) ||
      head.top_weights.size() != head.top_keys.size())
    wrong("largest weights");
  if (head.pyramid.empty())
    fail(ErrorCode::usage, "a record without a map", layer.place, "InspectOptions::cells above 0");
  for (const MapLevel& level : head.pyramid)
    if (static_cast<std::int64_t>(level.mean.size()) != level.rows * level.columns ||
        level.largest.size() != level.mean.size() ||
        level.rows != (layer.n_q + level.cell_rows - 1) / level.cell_rows ||
        level.columns != (layer.n_k + level.cell_keys - 1) / level.cell_keys)
      wrong("cells of the map");
}

// The rollout is a layer like any other.
template <class Visit>
void for_layers(const InspectRecord& record, Visit&& visit) {
  for (const LayerRecord& layer : record.layers) visit(layer);
  if (record.rollout) visit(*record.rollout);
}

// Writes the description and the blocks of numbers of all heads.
class PageMaker {
 public:
  explicit PageMaker(const InspectPage& page) : page_(page) {
    std::int64_t longest = 0;
    for (const InspectedModel& model : page.models)
      for_layers(model.record, [&](const LayerRecord& layer) {
        longest = std::max({longest, layer.n_q, layer.n_k});
        heads_ += std::ssize(layer.heads);
        for (const HeadRecord& head : layer.heads) check(layer, head);
      });
    bytes_ = bytes_of_file(longest, page.bytes);
    weighed_ = std::any_of(page.models.begin(), page.models.end(),
                           [](const InspectedModel& model) { return !model.importance.empty(); });
  }

  std::string html() {
    describe();
    for (std::size_t m = 0; m < page_.models.size(); ++m) add_model(page_.models[m], m);
    meta_["thumbnails"] = {{"block", "thumbnails"}};
    Block block;
    block.add_bytes("shades", shades_, viewer::NumberType::u8, shades_.size());
    blocks_ += block.element("thumbnails");
    return assemble();
  }

 private:
  void describe() {
    meta_ = {{"title", clean(page_.title)},      {"sentence", clean(page_.sentence)},
             {"command", clean(page_.command)},  {"version", FOVEA_VERSION},
             {"paper_curve", page_.paper_curve}, {"columns", Json::array()},
             {"classes", Json::array()},         {"models", Json::array()},
             {"texts", Json::array()},           {"layers", Json::array()},
             {"heads", Json::array()},           {"picture", nullptr},
             {"pruning", Json::array()},         {"approximation", Json::array()}};
    for (const viewer::Column& c : viewer::columns())
      meta_["columns"].push_back(
          {{"key", c.key}, {"name", c.name}, {"help", c.help}, {"format", c.percent ? "percent" : "number"}});
    if (weighed_)
      for (const viewer::Column& c : viewer::worth_columns())
        meta_["columns"].push_back({{"key", c.key}, {"name", c.name}, {"help", c.help}, {"format", "number"}});
    for (const viewer::ClassText& c : viewer::class_texts())
      meta_["classes"].push_back({{"name", c.name}, {"help", c.help}, {"ink", c.ink}});
    if (!page_.picture) return;
    const InspectPicture& p = *page_.picture;
    if (static_cast<std::int64_t>(p.rgb.size()) != p.height * p.width * 3 || p.rows < 1 || p.columns < 1)
      fail(ErrorCode::shape, "a picture whose sizes do not fit its pixels", "InspectPage::picture",
           "rgb is (height, width, 3)");
    meta_["picture"] = {{"model", 0},
                        {"rows", p.rows},
                        {"columns", p.columns},
                        {"source", "data:image/png;base64," + base64(viewer::png_bytes(p.height, p.width, p.rgb))}};
  }

  // The number of a text in the page; equal ones are kept once.
  std::size_t text_index(const std::vector<std::string>& tokens, std::int64_t n) {
    Json list = fitted(tokens, n);
    Json& texts = meta_["texts"];
    for (std::size_t k = 0; k < texts.size(); ++k)
      if (sizes_[k] == n && texts[k]["tokens"] == list) return k;
    texts.push_back({{"tokens", std::move(list)}});
    sizes_.push_back(n);
    return texts.size() - 1;
  }

  void add_model(const InspectedModel& model, std::size_t index) {
    meta_["models"].push_back({{"name", clean(model.name)}});
    add_worth(model, index);
    const bool decoded = !model.tokens.second.empty();
    const std::vector<LayerRecord>& layers = model.record.layers;
    const bool two = std::any_of(layers.begin(), layers.end(), [](const LayerRecord& layer) { return layer.cross; });
    for_layers(model.record, [&](const LayerRecord& layer) {
      const bool in_decoder = layer.cross || layer.place.find("decoder") != std::string::npos;
      const bool upper = decoded && in_decoder;
      const std::size_t rows = text_index(upper ? model.tokens.second : model.tokens.input, layer.n_q);
      const std::size_t keys = text_index(upper && !layer.cross ? model.tokens.second : model.tokens.input, layer.n_k);
      const bool all = &layer == rollout_of(model.record);
      const std::string_view part = all           ? "all"
                                    : layer.cross ? "cross"
                                    : !two        ? ""
                                    : in_decoder  ? "decoder"
                                                  : "encoder";
      add_layer(layer, index, part, {rows, keys});
    });
  }

  static const LayerRecord* rollout_of(const InspectRecord& record) {
    return record.rollout ? &*record.rollout : nullptr;
  }

  void add_worth(const InspectedModel& model, std::size_t index) {
    if (!model.pruning.steps.empty()) {
      Json steps = Json::array();
      for (const PruningStep& step : model.pruning.steps)
        steps.push_back({step.removed, number_or_null(step.loss), number_or_null(step.accuracy)});
      meta_["pruning"].push_back({{"model", index}, {"heads", model.importance.size()}, {"steps", steps}});
    }
    for (const LayerApproximation& of : model.approximation)
      meta_["approximation"].push_back({{"model", index},
                                        {"layer", of.layer},
                                        {"mechanism", clean(of.row.mechanism)},
                                        {"length", of.row.length},
                                        {"output_error", number_or_null(of.row.output_error)},
                                        {"divergence", number_or_null(of.row.divergence)},
                                        {"top_agreement", number_or_null(of.row.top_agreement)},
                                        {"time", number_or_null(of.row.seconds / of.row.softmax_seconds)},
                                        {"reason", clean(of.row.reason)}});
  }

  void add_layer(const LayerRecord& layer, std::size_t model, std::string_view part,
                 std::pair<std::size_t, std::size_t> texts) {
    Json heads = Json::array();
    for (const HeadRecord& head : layer.heads) {
      heads.push_back(meta_["heads"].size());
      add_head(layer, head, texts);
      meta_["heads"].back()["model"] = model;
      if (!weighed_) continue;
      for (const double value : viewer::worth_of(page_.models[model], layer, head))
        meta_["heads"].back()["numbers"].push_back(number_or_null(value));
    }
    const double near = viewer::near_mass(layer, page_.paper_curve);
    const std::string reach = viewer::reach(layer, page_.paper_curve);
    const bool divided = layer.map.kind == MapKind::effective || !layer.map.sums_to_one;
    meta_["layers"].push_back(
        {{"model", model},
         {"number", layer.index},
         {"place", clean(layer.place)},
         {"mechanism", clean(layer.mechanism)},
         {"part", part},
         {"reach", reach},
         {"reach_text", std::isfinite(near) ? fmt::format("nearest tenth: {:.0f}%", 100 * near) : ""},
         {"map", fmt::format("Shown: {}{}.", clean(layer.map.text),
                             divided ? ", each row divided by the sum of its magnitudes" : "")},
         {"reason", clean(layer.map.text)},
         {"heads", heads}});
  }

  void add_head(const LayerRecord& layer, const HeadRecord& head, std::pair<std::size_t, std::size_t> texts) {
    const std::size_t id = meta_["heads"].size();
    const viewer::Thumbnail small = viewer::thumbnail(layer, head);
    const auto key_text = meta_["texts"][texts.second]["tokens"].get<std::vector<std::string>>();
    Json json = {{"layer", meta_["layers"].size()},
                 {"head", head.head},
                 {"rows", layer.n_q},
                 {"columns", layer.n_k},
                 {"causal", layer.causal},
                 {"class", viewer::class_texts().at(static_cast<std::size_t>(head.verdict.head_class)).name},
                 {"why", viewer::why(head, key_text)},
                 {"entropy", number_or_null(head.verdict.entropy)},
                 {"area", number_or_null(head.area)},
                 {"bad_rows", head.bad_rows},
                 {"row_text", texts.first},
                 {"column_text", texts.second},
                 {"block", fmt::format("b{}", id)},
                 {"thumbnail", {small.rows, small.columns, shades_.size()}}};
    shades_ += small.shades;
    for (const double value : viewer::numbers_of(layer, head)) json["numbers"].push_back(number_or_null(value));
    json["curve"] = Json::array();
    for (const double value : head.curve) json["curve"].push_back(number_or_null(std::round(value * 1e5) / 1e5));
    Block block;
    viewer::pack_head(layer, head, share(layer), block, json);
    blocks_ += block.element(fmt::format("b{}", id));
    meta_["heads"].push_back(std::move(json));
  }

  // Of the bytes of the file: three quarters are left by base64, a sixth goes to words, and to what deflate does not
  // save.
  viewer::HeadShare share(const LayerRecord& layer) const {
    const double each = 0.75 * 0.83 * bytes_ / static_cast<double>(std::max<std::int64_t>(1, heads_));
    const auto rows = static_cast<double>(layer.n_q),
               statistics = 4.0 * static_cast<double>(layer.n_q + layer.n_k) + 4096.0;
    const double left = std::max(2048.0, each - statistics), key = layer.n_k < 65535 ? 4.0 : 5.0;
    const auto top = std::clamp<std::int64_t>(static_cast<std::int64_t>(0.45 * left / (rows * key)), 2, 16);
    return {std::max(1024.0, left - static_cast<double>(top) * rows * key), top};
  }

  std::string assemble() {
    meta_["precision"] =
        "The largest weights of each row are kept in half precision; the others as bytes on a logarithmic "
        "scale, as finely as the size of the file allows: a map says how far off they may be.";
    std::string meta = meta_.dump();
    for (std::size_t at = 0; (at = meta.find('<', at)) != std::string::npos; at += 6) meta.replace(at, 1, "\\u003c");
    const std::string script = "\n" + viewer::script();
    const std::string policy =
        fmt::format("default-src 'none'; script-src 'sha256-{}'; style-src 'unsafe-inline'; img-src data:",
                    base64(hash_bytes(script)));
    return viewer::fill({{"policy", policy},
                         {"generator", "fovea " FOVEA_VERSION},
                         {"title", escape_html(clean(page_.title))},
                         {"style", viewer::style()},
                         {"meta", meta},
                         {"data", blocks_},
                         {"script", script.substr(1)}});
  }

  static std::string hash_bytes(std::string_view text) {
    const std::string digits = sha256(text);
    std::string out;
    for (std::size_t k = 0; k < digits.size(); k += 2)
      out += static_cast<char>(std::stoi(digits.substr(k, 2), nullptr, 16));
    return out;
  }

  const InspectPage& page_;
  Json meta_;
  std::string blocks_, shades_;
  std::vector<std::int64_t> sizes_;  // of the texts
  std::int64_t heads_ = 0;
  double bytes_ = 0;
  bool weighed_ = false;  // heads, by what they are worth
};

}  // namespace

std::string inspect_page_html(const InspectPage& page) {
  if (page.models.empty()) fail(ErrorCode::usage, "a page of no models", "inspect_page_html", "one or several");
  return PageMaker(page).html();
}

std::int64_t inspect_page_cells(std::int64_t n, std::int64_t heads, std::int64_t bytes) {
  // A weight takes about two bits at least, and the map half of the file.
  const double cells = bytes_of_file(n, bytes) * 2.8 / static_cast<double>(std::max<std::int64_t>(1, heads));
  if (static_cast<double>(n) * static_cast<double>(n) <= cells && n <= 4096) return n;
  std::int64_t out = 1024;
  while (out > 64 && 2.0 * static_cast<double>(out) * static_cast<double>(out) > cells) out /= 2;
  return out;
}

}  // namespace fovea
