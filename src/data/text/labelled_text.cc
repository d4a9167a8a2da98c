#include <fmt/format.h>

#include <unordered_map>

#include "core/parallel.h"
#include "data/kinds.h"
#include "data/text/label_files.h"
#include "data/text/sequences.h"
#include "io/xz.h"

// Texts and pairs of texts that have a class.
namespace fovea {
namespace {

constexpr std::int64_t kUsualTextLength = 4000;
constexpr std::string_view kPapers[] = {"papers.tsv"};

// One file of a data set, ready to be encoded.
struct LabelPart {
  LabelPart(const Path& path, std::size_t cap) : file(path, cap) {}

  TextLines file;
  LabelTable table;
};

// Only where the file tells the answers.
std::unique_ptr<const LabelPart> read_part(const Path& folder, std::span<const std::string_view> names,
                                           std::size_t cap) {
  const auto path = find_part(folder, names, ".tsv");
  if (!path) return nullptr;
  auto part = std::make_unique<LabelPart>(*path, cap);
  const std::vector<std::string_view> first =
      part->file.size() > 0 ? part->file.fields(0) : std::vector<std::string_view>();
  auto columns = LabelColumns::of(first);
  if (!columns && first.size() == 2) columns = LabelColumns::named();
  if (!columns)
    fail(ErrorCode::bad_input, "the first line is neither a label and a text nor a header of GLUE's",
         part->file.where(0), "fields are separated by tabs");
  if (!columns->label) return nullptr;
  part->table = read_labels(part->file, *columns);
  return part;
}

// Encodes texts on all threads, cut to the length.
class TextEncoder {
 public:
  TextEncoder(const Context& context, std::shared_ptr<const Tokenizer> tokenizer, std::int64_t length)
      : context_(context), tokenizer_(std::move(tokenizer)), length_(static_cast<std::size_t>(length)) {}

  std::shared_ptr<const TokenLists> operator()(std::span<const std::string_view> texts) const {
    std::vector<std::vector<std::int32_t>> encoded(texts.size());
    parallel_for(context_, std::ssize(texts), [&](std::int64_t i) {
      const auto at = static_cast<std::size_t>(i);
      encoded[at] = tokenizer_->encode(texts[at], true, length_).ids;
    });
    auto lists = std::make_shared<TokenLists>();
    for (std::size_t i = 0; i < encoded.size(); ++i) {
      if (encoded[i].empty()) fail(ErrorCode::bad_input, fmt::format("text {} has no tokens", i + 1));
      lists->add(encoded[i]);
    }
    return lists;
  }

 private:
  const Context& context_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::size_t length_;
};

// The parts of a data set of texts with labels.
struct TextParts {
  LabelledLists train, validation, test;

  void cut(const DataSettings& settings) {
    keep_first(train.examples, settings.train);
    keep_first(validation.examples, settings.validation);
    keep_first(test.examples, settings.test);
  }
  void fill(Dataset& data) {
    for (const LabelledLists* part : {&train, &validation, &test}) {
      if (!part->first) continue;
      data.max_length = std::max(data.max_length, part->first->longest());
      if (part->second) data.second_max_length = std::max(data.second_max_length, part->second->longest());
    }
    if (data.task == Task::match) data.max_length = std::max(data.max_length, data.second_max_length);
    data.train = labelled_split(std::move(train));
    data.validation = labelled_split(std::move(validation));
    data.test = labelled_split(std::move(test));
  }
};

LabelledLists lists_of(const LabelPart& part, const LabelNames& names, const TextEncoder& encode) {
  LabelledLists lists{encode(part.table.first), {}, {}};
  if (!part.table.second.empty()) lists.second = encode(part.table.second);
  for (std::size_t i = 0; i < part.table.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    lists.examples.push_back({at, at, names.id(part.table.labels[i], part.file.where(part.table.lines[i]))});
  }
  return lists;
}

// Files without answers are left out. Where dev is the only other one that has some it is the test, and a tenth of
// the training part is held out for validation.
Dataset load_tables(const Context& context, const DataSettings& settings, const DataUse& use, Task task) {
  const std::size_t cap = within_memory(kTextCap, context);
  const auto train = read_part(settings.source, kTrainNames, cap);
  if (!train) fail(ErrorCode::bad_input, "no train.tsv with labels", settings.source);
  auto validation = read_part(settings.source, kValidationNames, cap),
       test = read_part(settings.source, kTestNames, cap);
  if (!test) std::swap(test, validation);
  if (train->table.second.empty() != (task == Task::classify))
    fail(ErrorCode::usage, train->table.second.empty() ? "these are single texts" : "these are pairs of texts",
         settings.source, "data.kind=labels or data.kind=pairs");
  const LabelNames names(train->table.labels);
  Dataset data;
  data.name = data_name(settings);
  data.task = task;
  data.classes = names.size();
  data.tokenizer = chosen_tokenizer(context, settings, use, "bytes", train->table.first);
  data.vocabulary = data.tokenizer->vocabulary();
  const TextEncoder encode(context, data.tokenizer, chosen_length(settings, use, kUsualTextLength));
  TextParts parts;
  parts.train = lists_of(*train, names, encode);
  if (test) parts.test = lists_of(*test, names, encode);
  if (validation) {
    parts.validation = lists_of(*validation, names, encode);
  } else {
    parts.validation = {parts.train.first, parts.train.second, {}};
    hold_out(parts.train.examples, parts.validation.examples);
  }
  parts.cut(settings);
  parts.fill(data);
  return data;
}

// papers.tsv: a name and a text a line; pairs.train.tsv: a label and two names.
class Papers {
 public:
  Papers(const Path& path, std::size_t cap) : cap_(cap), file_(path, cap) {
    for (std::size_t line = 0; line < file_.size(); ++line) {
      const auto fields = file_.fields(line);
      if (fields.size() != 2 || fields[1].empty())
        fail(ErrorCode::bad_input, fmt::format("expected a name and a text, got {} fields", fields.size()),
             file_.where(line));
      if (!places_.emplace(fields[0], line).second)
        fail(ErrorCode::bad_input, fmt::format("\"{}\" is there twice", fields[0]), file_.where(line));
      texts_.push_back(fields[1]);
    }
  }

  const std::vector<std::string_view>& texts() const { return texts_; }

  std::vector<LabelledPick> read_pairs(const Path& path) const {
    const TextLines file(path, cap_);
    std::vector<LabelledPick> picks;
    for (std::size_t line = 0; line < file.size(); ++line) {
      const auto fields = file.fields(line);
      if (fields.size() != 3 || (fields[0] != "0" && fields[0] != "1"))
        fail(ErrorCode::bad_input, "expected 0 or 1 and two names", file.where(line), "fields are separated by tabs");
      picks.push_back({place(fields[1], file, line), place(fields[2], file, line), fields[0] == "1"});
    }
    return picks;
  }

 private:
  std::int64_t place(std::string_view name, const TextLines& file, std::size_t line) const {
    const auto found = places_.find(name);
    if (found == places_.end())
      fail(ErrorCode::bad_input, fmt::format("\"{}\" is not in papers.tsv", name.substr(0, 40)), file.where(line));
    return static_cast<std::int64_t>(found->second);
  }

  std::size_t cap_;
  TextLines file_;
  std::unordered_map<std::string_view, std::size_t> places_;
  std::vector<std::string_view> texts_;
};

Dataset load_papers(const Context& context, const DataSettings& settings, const DataUse& use) {
  const Path folder = settings.source;
  const Papers papers(require_file(folder, kPapers), within_memory(kTextCap, context));
  Dataset data;
  data.name = data_name(settings);
  data.task = Task::match;
  data.classes = 2;
  data.tokenizer = chosen_tokenizer(context, settings, use, "bytes", papers.texts());
  data.vocabulary = data.tokenizer->vocabulary();
  const TextEncoder encode(context, data.tokenizer, chosen_length(settings, use, kUsualTextLength));
  const auto texts = encode(papers.texts());
  const auto part = [&](std::string_view name) {
    const std::string file = fmt::format("pairs.{}.tsv", name);
    const std::string_view names[] = {file};
    return LabelledLists{texts, texts, papers.read_pairs(require_file(folder, names))};
  };
  TextParts parts{part("train"), part("valid"), part("test")};
  parts.cut(settings);
  parts.fill(data);
  return data;
}

}  // namespace

bool is_labelled(const Path& folder, bool pairs) {
  if (find_file(folder, kPapers)) return pairs;
  const auto train = find_part(folder, kTrainNames, ".tsv");
  if (!train) return false;
  const std::string line = first_line(*train);
  if (const auto columns = LabelColumns::of(tab_fields(line))) return columns->second.has_value() == pairs;
  constexpr std::size_t kLooked = std::size_t{1} << 20;
  return !pairs && begin_with_names(read_head(*train, kLooked));
}

Dataset load_labelled(const Context& context, const DataSettings& settings, const DataUse& use) {
  return load_tables(context, settings, use, Task::classify);
}

Dataset load_pairs(const Context& context, const DataSettings& settings, const DataUse& use) {
  if (find_file(settings.source, kPapers)) return load_papers(context, settings, use);
  return load_tables(context, settings, use, Task::match);
}

}  // namespace fovea
