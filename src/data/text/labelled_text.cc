#include <fmt/format.h>

#include "data/kinds.h"
#include "data/text/label_files.h"
#include "data/text/labelled_parts.h"
#include "io/xz.h"

// Texts and pairs of texts that have a class.
namespace fovea {
namespace {

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

}  // namespace

bool is_labelled(const Path& folder, bool pairs) {
  if (is_paper_pairs(folder)) return pairs;
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
  if (is_paper_pairs(settings.source)) return load_paper_pairs(context, settings, use);
  return load_tables(context, settings, use, Task::match);
}

}  // namespace fovea
