#include <fmt/format.h>

#include <set>

#include "core/parallel.h"
#include "data/kinds.h"
#include "data/text/sequences.h"

// Sentences in two languages for encoder-decoder models.
namespace fovea {
namespace {

constexpr std::int64_t kUsualSentenceLength = 256;

// Two files of which line i belongs to line i, or one with a tab between the two.
class ParallelFile {
 public:
  ParallelFile(const Path& source, const Path& target, std::size_t cap)
      : first_(source, cap), second_(std::in_place, target, cap) {
    if (first_.size() != second_->size())
      fail(ErrorCode::bad_input,
           fmt::format("{} lines, but {} has {}", second_->size(), source.string(), first_.size()), target.string(),
           "line i of one file is the translation of line i of the other");
    for (std::size_t i = 0; i < first_.size(); ++i) {
      add(first_[i], i, first_);
      add((*second_)[i], i, *second_, true);
    }
  }
  ParallelFile(const Path& both, std::size_t cap) : first_(both, cap) {
    for (std::size_t i = 0; i < first_.size(); ++i) {
      const auto fields = first_.fields(i);
      if (fields.size() != 2)
        fail(ErrorCode::bad_input, fmt::format("expected 2 fields, got {}", fields.size()), first_.where(i),
             "a sentence, a tab, its translation");
      add(fields[0], i, first_);
      add(fields[1], i, first_, true);
    }
  }

  const std::vector<std::string_view>& source() const { return source_; }
  const std::vector<std::string_view>& target() const { return target_; }

 private:
  void add(std::string_view text, std::size_t line, const TextLines& lines, bool target = false) {
    if (text.find_first_not_of(" \t") == std::string_view::npos)
      fail(ErrorCode::bad_input, "a sentence without words", lines.where(line), "remove the line from both languages");
    (target ? target_ : source_).push_back(text);
  }

  TextLines first_;
  std::optional<TextLines> second_;
  std::vector<std::string_view> source_, target_;
};

// "de" of "train.de" and "train.de.xz".
std::set<std::string> languages(const Path& folder) {
  std::set<std::string> found;
  for (const Path& entry : entries_of(folder)) {
    Path name = entry.filename();
    if (name.extension() == ".xz") name.replace_extension();
    const std::string end = name.extension().string();
    if (name.stem() == "train" && end.size() >= 3 && end.size() <= 8 && end != ".tsv" && end != ".txt" &&
        end != ".csv" && end != ".tokens" && end != ".json")
      found.insert(end.substr(1));
  }
  return found;
}

struct Languages {
  std::string source, target;  // empty: both in one file
};

Languages chosen_languages(const DataSettings& settings) {
  if (find_part(settings.source, kTrainNames, ".tsv")) return {};
  const std::set<std::string> found = languages(settings.source);
  Languages chosen{settings.source_language, settings.target_language};
  const std::string all = fmt::format("{}", fmt::join(found, ", "));
  if (found.size() > 2 && (chosen.source.empty() || chosen.target.empty()))
    fail(ErrorCode::usage, fmt::format("which two of {}?", all), settings.source,
         "--set data.source_language=... --set data.target_language=...");
  for (const std::string& language : found) {
    if (chosen.source.empty() && language != chosen.target)
      chosen.source = language;
    else if (chosen.target.empty() && language != chosen.source)
      chosen.target = language;
  }
  for (const std::string& language : {chosen.source, chosen.target})
    if (!found.contains(language))
      fail(ErrorCode::bad_input, fmt::format("no file train.{}", language), settings.source, "there is " + all);
  return chosen;
}

std::unique_ptr<const ParallelFile> read_part(const DataSettings& settings, const Languages& languages,
                                              std::span<const std::string_view> names, std::size_t cap) {
  if (languages.source.empty()) {
    const auto both = find_part(settings.source, names, ".tsv");
    return both ? std::make_unique<const ParallelFile>(*both, cap) : nullptr;
  }
  const auto source = find_part(settings.source, names, "." + languages.source),
             target = find_part(settings.source, names, "." + languages.target);
  return source && target ? std::make_unique<const ParallelFile>(*source, *target, cap) : nullptr;
}

class ParallelEncoder {
 public:
  ParallelEncoder(const Context& context, const Tokenizer& tokenizer, std::int64_t length)
      : context_(context), tokenizer_(tokenizer), length_(static_cast<std::size_t>(length)) {
    const SpecialIds special = tokenizer.special_ids();
    eos_ = end_of_text(tokenizer);
    bos_ = special.bos.value_or(special.pad.value_or(eos_));  // T5 begins with its padding
  }

  // Where the decoder's rows hold one token more than the target, bos or eos.
  ParallelLists operator()(const ParallelFile& file, std::int64_t most) const {
    ParallelLists lists;
    std::vector<std::string_view> source = file.source(), target = file.target();
    keep_first(source, most);
    keep_first(target, most);
    const auto sources = tokenizer_.encode_all(context_, source),
               targets = tokenizer_.encode_all(context_, target, false);
    for (std::size_t i = 0; i < sources.size(); ++i) {
      lists.source.add(std::span(sources[i]).first(std::min(sources[i].size(), length_)));
      lists.target.add(std::span(targets[i]).first(std::min(targets[i].size(), length_ - 1)));
    }
    lists.bos = bos_;
    lists.eos = eos_;
    return lists;
  }

 private:
  const Context& context_;
  const Tokenizer& tokenizer_;
  std::size_t length_;
  std::int32_t bos_ = 0, eos_ = 0;
};

}  // namespace

bool is_parallel(const DataSettings& settings) {
  return languages(settings.source).size() >= 2 || find_part(settings.source, kTrainNames, ".tsv").has_value();
}

Dataset load_parallel(const Context& context, const DataSettings& settings, const DataUse& use) {
  const Languages languages = chosen_languages(settings);
  const std::size_t cap = within_memory(kTextCap, context);
  const auto train = read_part(settings, languages, kTrainNames, cap);
  if (!train) fail(ErrorCode::bad_input, "no training sentences", settings.source);
  std::vector<std::string_view> texts = train->source();
  texts.insert(texts.end(), train->target().begin(), train->target().end());
  Dataset data;
  data.name = data_name(settings);
  if (!languages.source.empty()) data.name += fmt::format(" {}-{}", languages.source, languages.target);
  data.task = Task::seq2seq;
  data.tokenizer = chosen_tokenizer(context, settings, use, "bpe", texts);
  data.vocabulary = data.tokenizer->vocabulary();
  const ParallelEncoder encode(context, *data.tokenizer,
                               std::max<std::int64_t>(2, chosen_length(settings, use, kUsualSentenceLength)));
  const auto split = [&](const ParallelFile* file, std::int64_t most) -> std::shared_ptr<const Split> {
    if (file == nullptr) return parallel_split({});
    ParallelLists lists = encode(*file, most);
    data.max_length = std::max(data.max_length, lists.source.longest());
    data.second_max_length = std::max(data.second_max_length, lists.target.longest() + 1);
    return parallel_split(std::move(lists));
  };
  data.train = split(train.get(), settings.train);
  data.validation = split(read_part(settings, languages, kValidationNames, cap).get(), settings.validation);
  data.test = split(read_part(settings, languages, kTestNames, cap).get(), settings.test);
  return data;
}

}  // namespace fovea
