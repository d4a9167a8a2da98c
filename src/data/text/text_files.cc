#include <fmt/format.h>

#include <algorithm>

#include "data/kinds.h"
#include "data/text/language.h"
#include "io/xz.h"
#include "text/text_file.h"

// Text for language models: windows of one long row of tokens.
namespace fovea {
namespace {

constexpr std::string_view kEnds[] = {".txt", ".tokens"};
constexpr std::string_view kSingle[] = {"input.txt"};

// Characters of UTF-8: bytes that do not continue one.
std::int64_t characters(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; });
}

struct Texts {
  std::string train, validation, test;

  std::vector<std::string_view> all() const { return {train, validation, test}; }
};

// The file of a part, whatever the end of its name: "train.txt", "wiki.train.tokens".
std::optional<Path> find_text(const Path& folder, std::span<const std::string_view> names) {
  for (const std::string_view end : kEnds) {
    if (const auto path = find_part(folder, names, end)) return path;
    std::vector<std::string> wiki;
    for (const std::string_view name : names) wiki.push_back("wiki." + std::string(name));
    if (const auto path = find_part(folder, std::vector<std::string_view>(wiki.begin(), wiki.end()), end)) return path;
  }
  return {};
}

// The first byte of a character at or after `at`.
std::size_t whole_character(std::string_view text, std::size_t at) {
  while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) ++at;
  return at;
}

// Nine tenths to learn from; what is left is for validation and test.
void cut(Texts& texts) {
  const std::string whole = std::move(texts.train);
  const std::size_t first = whole_character(whole, whole.size() / 10 * 9);
  const std::size_t second = whole_character(whole, first + (whole.size() - first) / 2);
  texts = {whole.substr(0, first), whole.substr(first, second - first), whole.substr(second)};
}

// Bytes may be of anything where they themselves are the tokens.
Texts read_texts(const Context& context, const DataSettings& settings) {
  const Path source = settings.source;
  const std::size_t cap = within_memory(kArrayCap, context);
  const auto read = [&](const Path& path) {
    return settings.tokenizer == "bytes" ? read_maybe_xz(path, cap) : read_text(path, cap);
  };
  Texts texts;
  if (!is_folder(source)) {
    texts.train = read(source);
    cut(texts);
    return texts;
  }
  const auto train = find_text(source, kTrainNames);
  const auto single = train ? train : find_file(source, kSingle);
  if (!single) fail(ErrorCode::bad_input, "no train.txt, train.tokens or input.txt", source.string());
  const auto validation = find_text(source, kValidationNames), test = find_text(source, kTestNames);
  texts.train = read(*single);
  if (validation) texts.validation = read(*validation);
  if (test) texts.test = read(*test);
  if (!validation && !test) cut(texts);
  return texts;
}

// Words lose the ends of lines unless they are words, too: what WikiText's published perplexities count.
void mark_line_ends(std::string& text) {
  std::string out;
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    out.append(rest.substr(0, end)).append(" <eos>\n");
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  text = std::move(out);
}

// Small texts with few signs are read sign by sign.
std::string_view default_tokenizer(const Texts& texts) {
  constexpr std::size_t kSmall = std::size_t{5} << 20;
  constexpr std::int64_t kFew = 256;
  std::size_t bytes = 0;
  for (const std::string_view text : texts.all()) bytes += text.size();
  if (bytes > kSmall) return "bpe";
  return Tokenizer::characters(texts.all()).vocabulary() <= kFew ? "characters" : "bpe";
}

std::shared_ptr<const Split> split_of(const Context& context, const Tokenizer& tokenizer, const std::string& text,
                                      LanguageOptions options, std::int64_t most) {
  const std::string_view texts[] = {text};
  std::vector<std::int32_t> ids = std::move(tokenizer.encode_all(context, texts, false)[0]);
  if (!ids.empty())
    options.characters_per_token = static_cast<double>(characters(text)) / static_cast<double>(ids.size());
  if (most > 0) keep_first(ids, most * options.length + (options.masking ? 0 : 1));
  return language_split(std::make_shared<TokenList>(std::move(ids)), options);
}

}  // namespace

bool is_text(const Path& folder) {
  return is_shards(folder) || find_text(folder, kTrainNames) || find_file(folder, kSingle);
}

Masking masking_of(const Tokenizer* tokenizer, std::int64_t& vocabulary) {
  Masking masking;
  const std::optional<std::int32_t> mask = tokenizer ? tokenizer->special_ids().mask : std::nullopt;
  if (!mask) ++vocabulary;
  masking.mask = mask.value_or(static_cast<std::int32_t>(vocabulary - 1));
  masking.vocabulary = vocabulary;
  masking.special = {masking.mask};
  for (std::int32_t id = 0; tokenizer && id < tokenizer->vocabulary(); ++id)
    if (tokenizer->is_special(id)) masking.special.push_back(id);
  return masking;
}

Dataset load_text(const Context& context, const DataSettings& settings, const DataUse& use) {
  if (is_shards(settings.source)) return load_shards(settings, use);
  Texts texts = read_texts(context, settings);
  if (settings.tokenizer == "words")
    for (std::string* text : {&texts.train, &texts.validation, &texts.test}) mark_line_ends(*text);
  const bool given = use.tokenizer || !settings.tokenizer.empty();
  const std::string_view by_default = given ? "" : default_tokenizer(texts);
  const bool signs = by_default == "characters" || settings.tokenizer == "characters";
  const std::string_view train[] = {texts.train};
  const std::vector<std::string_view> all = texts.all();

  Dataset data;
  data.name = data_name(settings);
  data.task = use.task == Task::mlm ? Task::mlm : Task::lm;
  data.tokenizer = chosen_tokenizer(context, settings, use, by_default, signs ? std::span(all) : std::span(train));
  data.vocabulary = data.tokenizer->vocabulary();
  LanguageOptions options;
  options.length = data.max_length = chosen_length(settings, use, kWindowLength);
  if (data.task == Task::mlm) options.masking = masking_of(data.tokenizer.get(), data.vocabulary);
  data.validation = split_of(context, *data.tokenizer, texts.validation, options, settings.validation);
  data.test = split_of(context, *data.tokenizer, texts.test, options, settings.test);
  options.training = true;
  data.train = split_of(context, *data.tokenizer, texts.train, options, settings.train);
  if (empty(data.train)) fail(ErrorCode::bad_input, "the text has fewer than two tokens", settings.source);
  return data;
}

}  // namespace fovea
