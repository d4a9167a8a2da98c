#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "data/batches.h"
#include "data/pictures/pictures.h"
#include "fovea/error.h"
#include "fovea/inspect_page.h"
#include "inspect_page/token_notes.h"

namespace fovea {
namespace {

using Ids = std::span<const std::int32_t>;

Input input_of(const Context& context, Ids ids) {
  return {.ids = Tensor::from<std::int32_t>(context, {1, std::ssize(ids)}, ids),
          .rows = {.lengths = {static_cast<std::int32_t>(ids.size())}}};
}

// Each token with what stands between it and the one before, so that all together they are the text again.
std::vector<std::string> pieces_of(const Encoding& encoding, std::string_view text, const Tokenizer& tokenizer) {
  std::vector<std::string> out;
  std::size_t end = 0;
  for (std::size_t i = 0; i < encoding.ids.size(); ++i) {
    const auto [first, last] = encoding.offsets[i];
    if (encoding.special[i] != 0 || last <= end) {  // no text of its own, or a part of a character
      out.emplace_back(tokenizer.token(encoding.ids[i]));
      continue;
    }
    out.emplace_back(text.substr(end, last - end));
    end = last;
  }
  return out;
}

std::vector<std::string> names_of(const Tokenizer* tokenizer, Ids ids) {
  std::vector<std::string> out;
  for (const std::int32_t id : ids) {
    const std::array one{id};
    std::string text = tokenizer == nullptr ? fmt::format("{} ", id) : tokenizer->decode(one, false);
    if (text.empty()) text = tokenizer->token(id);
    out.push_back(std::move(text));
  }
  return out;
}

void check_length(const char* what, std::int64_t tokens, std::int64_t most) {
  if (tokens < 1) fail(ErrorCode::bad_input, "no tokens to read", what, "a text that is not empty");
  if (tokens > most)
    fail(ErrorCode::bad_input, fmt::format("{} tokens, but the model takes {}", tokens, most), what,
         "a shorter text, or only the first tokens of it");
}

struct Read {
  Encoding encoding;
  std::int64_t left_out = 0;
};
Read read(const Tokenizer& tokenizer, std::string_view text, std::int64_t most) {
  Read out{tokenizer.encode(text), 0};
  const std::int64_t all = std::ssize(out.encoding.ids);
  if (most > 0 && all > most) {
    out.encoding = tokenizer.encode(text, true, static_cast<std::size_t>(most));
    out.left_out = all - std::ssize(out.encoding.ids);
  }
  return out;
}

bool has_decoder(const Model& model) { return model.config().task == Task::seq2seq; }
bool reads_two(const Model& model) {
  return has_decoder(model) || model.config().task == Task::match || model.config().pairs;
}

std::int64_t most_of_second(const ModelConfig& config) {
  return config.decoder_max_length > 0 ? config.decoder_max_length : config.max_length;
}

void check_kind(const Model& model, bool second) {
  const ModelConfig& config = model.config();
  if (config.image && config.task != Task::image_text)
    fail(ErrorCode::usage, "the model reads pictures, not tokens", "model", "a PNG file, or an example of its data");
  if (config.series)
    fail(ErrorCode::usage, "the model reads measurements, not tokens", "model", "an example of its data");
  if (reads_two(model) && !second)
    fail(ErrorCode::usage, "the model reads two texts", "model", "give the second one, too (--second)");
}

InspectSubject subject_of(const Context& context, const Model& model, Ids ids, Ids second) {
  check_kind(model, !second.empty());
  check_length("the text", std::ssize(ids), model.config().max_length);
  InspectSubject out;
  out.batch.input = input_of(context, ids);
  out.batch.examples = {0};
  if (reads_two(model)) {
    check_length("the second text", std::ssize(second), most_of_second(model.config()));
    out.batch.second = input_of(context, second);
  }
  return out;
}

InspectPicture picture_of(const ModelConfig& config, const Tensor& values, const std::vector<double>& mean,
                          const std::vector<double>& deviation) {
  const ImageConfig& image = *config.image;
  InspectPicture out{.height = image.height,
                     .width = image.width,
                     .rgb = {},
                     .rows = image.height / image.patch,
                     .columns = image.width / image.patch};
  const std::vector<float> x = values.to_vector<float>();
  const auto channels = static_cast<std::size_t>(image.channels);
  const std::size_t pixels = static_cast<std::size_t>(image.height * image.width);
  for (std::size_t p = 0; p < pixels; ++p)
    for (std::size_t c = 0; c < 3; ++c) {
      const std::size_t from = std::min(c, channels - 1);
      const double value =
          static_cast<double>(x[p * channels + from]) * (from < deviation.size() ? deviation[from] : 1.0) +
          (from < mean.size() ? mean[from] : 0.0);
      out.rgb.push_back(static_cast<std::uint8_t>(std::clamp(std::lround(255.0 * value), 0L, 255L)));
    }
  return out;
}

std::vector<std::string> example_names(const Dataset& data, const Input& input) {
  if (!input.ids.defined()) return {};
  const std::vector<std::int32_t> ids = input.ids.to_vector<std::int32_t>();
  constexpr std::array<std::string_view, 16> kListOps{"_",  "[MIN ", "[MAX ", "[MED ", "[SM ", "] ", "0 ", "1 ",
                                                      "2 ", "3 ",    "4 ",    "5 ",    "6 ",   "7 ", "8 ", "9 "};
  const bool listops = data.name.starts_with("ListOps") || data.name.starts_with("listops");
  if (data.tokenizer != nullptr || !listops) return names_of(data.tokenizer.get(), ids);
  std::vector<std::string> out;
  for (const std::int32_t id : ids) out.emplace_back(kListOps.at(static_cast<std::size_t>(id)));
  return out;
}

// "patch 2,5": the third row of patches, the sixth of it.
std::vector<std::string> patch_names(const InspectPicture& picture) {
  std::vector<std::string> out;
  for (std::int64_t p = 0; p < picture.rows * picture.columns; ++p)
    out.push_back(fmt::format("patch {},{}", p / picture.columns, p % picture.columns));
  return out;
}

}  // namespace

InspectSubject inspect_text(const Context& context, const Model& model, const Tokenizer& tokenizer,
                            std::string_view text, std::string_view second, std::int64_t most) {
  check_kind(model, !second.empty());
  const Read first = read(tokenizer, text, most), other = read(tokenizer, second, most);
  InspectSubject out = subject_of(context, model, first.encoding.ids, other.encoding.ids);
  out.left_out = first.left_out + (reads_two(model) ? other.left_out : 0);
  if (first.encoding.types.size() == first.encoding.ids.size() && model.config().types > 0)
    out.batch.input.types =
        Tensor::from<std::int32_t>(context, {1, std::ssize(first.encoding.types)}, first.encoding.types);
  out.tokens.input = pieces_of(first.encoding, text, tokenizer);
  out.notes.delimiter = delimiters_of(first.encoding, text);
  if (reads_two(model)) {
    out.tokens.second = pieces_of(other.encoding, second, tokenizer);
    out.second_notes.delimiter = delimiters_of(other.encoding, second);
  }
  return out;
}

InspectSubject inspect_tagged(const Context& context, const Model& model, const Tokenizer& tokenizer,
                              const TaggedText& tagged, std::int64_t most) {
  InspectSubject out = inspect_text(context, model, tokenizer, tagged.text, {}, most);
  out.notes.word = words_of(read(tokenizer, tagged.text, most).encoding, tagged);
  out.notes.words = tagged.words;
  return out;
}

InspectSubject inspect_ids(const Context& context, const Model& model, const Tokenizer* tokenizer, Ids ids,
                           Ids second) {
  InspectSubject out = subject_of(context, model, ids, second);
  out.tokens.input = names_of(tokenizer, ids);
  if (reads_two(model)) out.tokens.second = names_of(tokenizer, second);
  if (tokenizer != nullptr) {
    out.notes.delimiter = delimiters_of(*tokenizer, ids);
    if (reads_two(model)) out.second_notes.delimiter = delimiters_of(*tokenizer, second);
  }
  return out;
}

InspectSubject inspect_example(const Context& context, const Model& model, const Dataset& data, const Split& split,
                               std::int64_t example) {
  if (example < 0 || example >= split.size())
    fail(ErrorCode::usage, fmt::format("no example {}: {} has {}", example, data.name, split.size()), "example",
         fmt::format("0 to {}", split.size() - 1));
  InspectSubject out;
  out.batch = make_batch(context, split, std::array{example});
  out.tokens.input = example_names(data, out.batch.input);
  out.tokens.second = example_names(data, out.batch.second);
  if (model.config().image && out.batch.input.values.defined() && model.config().task == Task::vision)
    out.picture = picture_of(model.config(), out.batch.input.values, data.mean, data.deviation);
  if (out.picture) out.tokens.input = patch_names(*out.picture);
  return out;
}

InspectSubject inspect_picture(const Context& context, const Model& model, const std::string& path, double mean,
                               double deviation) {
  const ModelConfig& config = model.config();
  if (!config.image || config.task == Task::image_text)
    fail(ErrorCode::usage, "the model does not read pictures alone", path, "a text, or an example of its data");
  const ImageConfig& image = *config.image;
  std::vector<std::uint8_t> rgb(static_cast<std::size_t>(image.height * image.width * 3));
  read_png(path, {image.height, image.width}, rgb);
  std::vector<float> values;
  for (std::size_t p = 0; p < rgb.size() / 3; ++p)
    for (std::size_t c = 0; c < static_cast<std::size_t>(image.channels); ++c) {
      const double grey = (rgb[3 * p] + rgb[3 * p + 1] + rgb[3 * p + 2]) / 765.0;
      const double value = image.channels == 3 ? rgb[3 * p + c] / 255.0 : grey;
      values.push_back(static_cast<float>((value - mean) / deviation));
    }
  InspectSubject out;
  out.batch.input.values = Tensor::from<float>(context, {1, image.height, image.width, image.channels}, values);
  out.batch.examples = {0};
  out.picture =
      InspectPicture{image.height, image.width, std::move(rgb), image.height / image.patch, image.width / image.patch};
  out.tokens.input = patch_names(*out.picture);
  return out;
}

}  // namespace fovea
