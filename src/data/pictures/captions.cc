#include <fmt/format.h>

#include "core/parallel.h"
#include "data/collate.h"
#include "data/hash.h"
#include "data/kinds.h"
#include "data/pictures/pictures.h"
#include "data/text/sequences.h"

// Pictures with a text each, for models that tell which belong together.
namespace fovea {
namespace {

constexpr std::string_view kEnd = ".captions";
constexpr std::int64_t kUsualCaptionLength = 77, kChannels = 3;

struct Caption {
  Path picture;
  std::string text;
};

class CaptionSplit final : public Split {
 public:
  CaptionSplit(std::shared_ptr<const Split> pictures, TokenLists texts)
      : pictures_(std::move(pictures)), texts_(std::move(texts)) {}

  std::int64_t size() const override { return texts_.size(); }
  std::int64_t length(std::int64_t example) const override { return std::ssize(texts_[example]); }
  Batch batch(const Context& context, std::span<const std::int64_t> picks, std::uint64_t draw) const override {
    Batch batch = pictures_->batch(context, picks, draw);
    batch.targets = {};  // the pairs themselves
    std::vector<std::span<const std::int32_t>> texts;
    for (const std::int64_t pick : picks) texts.push_back(texts_[pick]);
    batch.second = packed_rows(context, texts);
    return batch;
  }
  std::uint64_t hash() const override {
    Hash hash;
    const std::uint64_t pictures[] = {pictures_->hash()};
    hash.add_all<std::uint64_t>(pictures);
    for (std::int64_t i = 0; i < texts_.size(); ++i) hash.add_all<std::int32_t>(texts_[i]);
    return hash.value();
  }

 private:
  std::shared_ptr<const Split> pictures_;
  TokenLists texts_;
};

std::vector<Caption> read_captions(const Path& folder, std::span<const std::string_view> names, std::size_t cap) {
  std::vector<Caption> captions;
  const auto file = find_part(folder, names, kEnd);
  if (!file) return captions;
  const TextLines lines(*file, cap);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto fields = tab_fields(lines[i], 2);
    if (fields.size() != 2 || fields[0].empty() || fields[1].find_first_not_of(" \t") == std::string_view::npos)
      fail(ErrorCode::bad_input, "expected a picture and a text", lines.where(i), "picture.png, a tab, the text");
    captions.push_back({folder / fields[0], std::string(fields[1])});
    if (!is_file(captions.back().picture))
      fail(ErrorCode::bad_input, fmt::format("no picture {}", captions.back().picture.string()), lines.where(i));
  }
  return captions;
}

std::shared_ptr<const Pictures> read_pictures(const Context& context, const std::vector<Caption>& captions,
                                              PictureSize size) {
  auto out = std::make_shared<Pictures>(Pictures{size.height, size.width, kChannels, {}, {}});
  const auto bytes = static_cast<std::size_t>(out->size());
  if (captions.size() > within_memory(kArrayCap, context) / bytes)
    fail(ErrorCode::bad_input,
         fmt::format("{} pictures of {} x {} pixels take more memory than allowed", captions.size(), size.height,
                     size.width),
         captions.front().picture.parent_path().string(), "smaller ones: --set data.size=64");
  out->values.resize(captions.size() * bytes);
  out->labels.resize(captions.size());
  parallel_for(context, std::ssize(captions), [&](std::int64_t i) {
    const auto at = static_cast<std::size_t>(i);
    read_png(captions[at].picture, size, std::span(out->values).subspan(at * bytes, bytes));
  });
  return out;
}

// A text ends in a token of its own, whose row stands for all of it.
TokenLists encode(const Context& context, const Tokenizer& tokenizer, const std::vector<Caption>& captions,
                  std::int64_t length) {
  const std::int32_t eos = end_of_text(tokenizer);
  std::vector<std::string_view> texts;
  for (const Caption& caption : captions) texts.emplace_back(caption.text);
  TokenLists lists;
  for (std::vector<std::int32_t>& ids : tokenizer.encode_all(context, texts, false)) {
    if (std::ssize(ids) >= length) ids.resize(static_cast<std::size_t>(length - 1));
    ids.push_back(eos);
    lists.add(ids);
  }
  return lists;
}

}  // namespace

bool is_captions(const Path& folder) { return find_part(folder, kTrainNames, kEnd).has_value(); }

Dataset load_captions(const Context& context, const DataSettings& settings, const DataUse& use) {
  const std::size_t cap = within_memory(kTextCap, context);
  std::vector<Caption> train = read_captions(settings.source, kTrainNames, cap),
                       validation = read_captions(settings.source, kValidationNames, cap),
                       test = read_captions(settings.source, kTestNames, cap);
  if (validation.empty()) hold_out(train, validation);
  keep_first(train, settings.train);
  keep_first(validation, settings.validation);
  keep_first(test, settings.test);
  if (train.empty()) fail(ErrorCode::bad_input, "there are no training pictures", settings.source);
  std::vector<std::string_view> texts;
  for (const Caption& caption : train) texts.emplace_back(caption.text);

  Dataset data;
  data.name = data_name(settings);
  data.task = Task::image_text;
  data.tokenizer = chosen_tokenizer(context, settings, use, "bpe", texts);
  data.vocabulary = data.tokenizer->vocabulary();
  const PictureSize size =
      settings.size > 0 ? PictureSize{settings.size, settings.size} : png_size(train.front().picture);
  const auto pictures = read_pictures(context, train, size);
  const PictureScale scale = PictureScale::chosen(settings, *pictures);
  data.height = size.height, data.width = size.width, data.channels = kChannels;
  data.mean = scale.mean, data.deviation = scale.deviation;
  const std::int64_t length = std::max<std::int64_t>(2, chosen_length(settings, use, kUsualCaptionLength));
  const auto split = [&](const std::vector<Caption>& part, std::shared_ptr<const Pictures> shown,
                         const Augmentation& augmentation) -> std::shared_ptr<const Split> {
    TokenLists lists = encode(context, *data.tokenizer, part, length);
    data.max_length = std::max(data.max_length, lists.longest());
    return std::make_shared<CaptionSplit>(picture_split(std::move(shown), scale, augmentation), std::move(lists));
  };
  data.train = split(train, pictures, {settings.shift, settings.flip});
  data.validation = split(validation, read_pictures(context, validation, size), {});
  data.test = split(test, read_pictures(context, test, size), {});
  return data;
}

}  // namespace fovea
