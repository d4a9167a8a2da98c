#include <fmt/format.h>

#include "data/kinds.h"
#include "text/shards.h"

namespace fovea {
namespace {

class ShardTokens final : public TokenSource {
 public:
  explicit ShardTokens(TokenStream stream) : stream_(std::move(stream)) {}
  std::int64_t size() const override { return stream_.size(); }
  void copy(std::int64_t begin, std::span<std::int32_t> out) const override { stream_.read(begin, out); }

 private:
  TokenStream stream_;
};

bool holds_shards(const Path& folder) {
  return is_there(folder / "index.json") && is_there(folder / "tokens-00000.bin");
}

std::optional<Path> find_folder(const Path& folder, std::span<const std::string_view> names) {
  for (const std::string_view name : names)
    if (holds_shards(folder / name)) return folder / name;
  return {};
}

struct Streams {
  TokenStream train;
  std::optional<TokenStream> validation, test;
};

// Nine tenths of a single folder are for training.
Streams open_streams(const Path& folder) {
  if (holds_shards(folder)) {
    const TokenStream all(folder);
    const std::int64_t first = all.size() / 10 * 9, second = first + (all.size() - first) / 2;
    return {all.slice(0, first), all.slice(first, second), all.slice(second, all.size())};
  }
  const auto open = [&](std::span<const std::string_view> names) {
    const auto path = find_folder(folder, names);
    return path ? std::optional<TokenStream>(std::in_place, *path) : std::nullopt;
  };
  return {*open(kTrainNames), open(kValidationNames), open(kTestNames)};
}

void check_tokenizer(const Tokenizer& tokenizer, const TokenStream& stream, const std::string& source) {
  if (!stream.tokenizer().empty() && stream.tokenizer() != tokenizer.fingerprint())
    fail(ErrorCode::bad_input, "these ids were made with another tokeniser", source, "data.tokenizer");
}

}  // namespace

bool is_shards(const Path& folder) { return holds_shards(folder) || find_folder(folder, kTrainNames); }

Dataset load_shards(const DataSettings& settings, const DataUse& use) {
  const Streams streams = open_streams(settings.source);
  Dataset data;
  data.name = data_name(settings);
  data.task = use.task == Task::mlm ? Task::mlm : Task::lm;
  data.vocabulary = streams.train.vocabulary();
  data.tokenizer = use.tokenizer;
  if (!data.tokenizer && !settings.tokenizer.empty())
    data.tokenizer = std::make_shared<const Tokenizer>(Tokenizer::load(settings.tokenizer));
  if (data.tokenizer) check_tokenizer(*data.tokenizer, streams.train, settings.source);
  LanguageOptions options;
  options.length = data.max_length = chosen_length(settings, use, kWindowLength);
  if (data.task == Task::mlm) options.masking = masking_of(data.tokenizer.get(), data.vocabulary);
  const auto split = [&](const std::optional<TokenStream>& stream, std::int64_t most) -> std::shared_ptr<const Split> {
    if (!stream) return language_split(std::make_shared<TokenList>(std::vector<std::int32_t>{}), options);
    if (stream->vocabulary() != streams.train.vocabulary())
      fail(ErrorCode::bad_input, "the parts have different vocabularies", settings.source);
    const std::int64_t tokens = most > 0 ? std::min(stream->size(), most * options.length + 1) : stream->size();
    return language_split(std::make_shared<ShardTokens>(stream->slice(0, tokens)), options);
  };
  data.validation = split(streams.validation, settings.validation);
  data.test = split(streams.test, settings.test);
  options.training = true;
  data.train = split(streams.train, settings.train);
  if (empty(data.train)) fail(ErrorCode::bad_input, "the text has fewer than two tokens", settings.source);
  return data;
}

}  // namespace fovea
